"""Providers for which a key in the environment is enough, and the error when there is no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dsh_core.config.model import HarnessConfig
from dsh_core.errors import ConfigError
from dsh_core.llm.adapter import ModelConfig, ProviderConfig
from dsh_core.record import record
from dsh_core.secret import Secret


@record()
class KnownProvider:
    """An endpoint dsh knows by name.

    Args:
        name: The part of a route before the slash.
        key_variable: Environment variable of the key.
        base_url_variable: Environment variable that replaces `base_url`.
        base_url: Where its requests go.
        model: The model of agents that name none.
        context_window_tokens: That model's window, by the provider's documentation.
    """

    name: str
    key_variable: str
    base_url_variable: str
    base_url: str
    model: str
    context_window_tokens: int

    def key(self, environ: Mapping[str, str]) -> str | None:
        """Return the key; a variable that is empty or blank counts as not set."""
        return environ.get(self.key_variable, "").strip() or None

    def address(self, environ: Mapping[str, str]) -> str:
        """Return where requests go."""
        return environ.get(self.base_url_variable, "").strip() or self.base_url

    def key_state(self, environ: Mapping[str, str]) -> str:
        """Say what the key's variable is, without its text."""
        if self.key(environ):
            return f"{self.key_variable} is set"
        state = "set but empty" if self.key_variable in environ else "not set"
        return f"{self.key_variable} is {state}"

    def key_hint(self) -> str:
        """Say where a key may stand."""
        return f"{self.key_variable}, or providers.{self.name}.api_key in dsh.yaml"


KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    known.name: known
    for known in (
        KnownProvider(
            name="deepseek",
            key_variable="DEEPSEEK_API_KEY",
            base_url_variable="DEEPSEEK_BASE_URL",
            base_url="https://api.deepseek.com",
            model="deepseek-chat",
            context_window_tokens=131_072,  # api-docs.deepseek.com, models and pricing: 128K
        ),
        KnownProvider(
            name="openai",
            key_variable="OPENAI_API_KEY",
            base_url_variable="OPENAI_BASE_URL",
            base_url="https://api.openai.com/v1",
            model="gpt-4.1-mini",
            context_window_tokens=1_047_576,  # platform.openai.com/docs/models/gpt-4.1-mini
        ),
    )
}
"""By name; where several keys are set the first of these is used."""

_ADAPTER = "openai_chat"


def complete(provider: ProviderConfig, environ: Mapping[str, str]) -> ProviderConfig:
    """Fill what the configuration leaves open of a known provider: address, key, model.

    A provider with an address of its own gets nothing: a key goes only where it belongs.
    """
    known = KNOWN_PROVIDERS.get(provider.name)
    if known is None or provider.adapter != _ADAPTER:
        return provider
    address = known.address(environ)
    own = {known.base_url.rstrip("/"), address.rstrip("/")}
    if provider.base_url is not None and provider.base_url.rstrip("/") not in own:
        return provider
    key = known.key(environ)
    window = known.context_window_tokens if address == known.base_url else None
    return replace(
        provider,
        base_url=provider.base_url or address,
        api_key=provider.api_key or (Secret(key) if key else None),
        key_hint=known.key_hint(),
        models=provider.models or {known.model: ModelConfig(context_window_tokens=window)},
    )


def built_in(name: str, environ: Mapping[str, str]) -> ProviderConfig:
    """Return a known provider that no file mentions."""
    return complete(ProviderConfig(name=name, adapter=_ADAPTER), environ)


def from_keys(environ: Mapping[str, str]) -> dict[str, ProviderConfig]:
    """Return the first known provider whose key the environment holds, or nothing."""
    for known in KNOWN_PROVIDERS.values():
        if known.key(environ):
            return {known.name: built_in(known.name, environ)}
    return {}


def missing_model_error(config: HarnessConfig, environ: Mapping[str, str]) -> ConfigError:
    """Say why an agent has no model: what was looked for, where, and what to write."""
    variables = " or ".join(known.key_variable for known in KNOWN_PROVIDERS.values())
    trust = ""
    if config.untrusted_file is not None:
        trust = (
            f" {config.untrusted_file.name} is not trusted; `dsh trust` makes its providers count."
        )
    if config.providers:
        name = next(iter(config.providers))
        return ConfigError(
            f"no model is configured: the agent names none, and providers.{name} lists none",
            remedy=f"Write `model: {name}/NAME` in the agent, or set DSH_MODEL={name}/NAME.{trust}",
        )
    states = ", ".join(known.key_state(environ) for known in KNOWN_PROVIDERS.values())
    return ConfigError(
        f"no model is configured: {states}, and {_files(config)}",
        remedy=f"Set {variables}, or write providers.NAME with base_url, api_key and models in "
        f"dsh.yaml.{trust}",
    )


def missing_key_error(provider: ProviderConfig, environ: Mapping[str, str]) -> ConfigError:
    """Say that a provider that needs a key (`key_hint` is set, `api_key` is not) has none."""
    known = KNOWN_PROVIDERS.get(provider.name)
    state = known.key_state(environ) if known else "none is configured"
    hint = provider.key_hint or f"providers.{provider.name}.api_key in dsh.yaml"
    return ConfigError(
        f"provider {provider.name} has no key: {state}",
        where=f"providers.{provider.name}",
        remedy=f"Set {hint}.",
    )


def _files(config: HarnessConfig) -> str:
    if config.files:
        verb = "sets" if len(config.files) == 1 else "set"
        return f"{' and '.join(map(str, config.files))} {verb} no providers"
    user = f" and no {config.user_dir / 'config.yaml'}" if config.user_dir else ""
    return f"there is no dsh.yaml in {config.project_dir} or above{user}"
