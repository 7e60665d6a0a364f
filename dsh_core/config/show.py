"""What `dsh config show` and `dsh config schema` print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

import yaml
from pydantic import SecretStr

from dsh_core.config.interpolate import has_variable, holds_rules
from dsh_core.config.json_schema import json_schema
from dsh_core.config.mistakes import KeyPath, dotted
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.config.yaml import is_ambiguous, plain_scalar
from dsh_core.llm.adapter import ModelConfig, ProviderConfig
from dsh_core.secret import Secret
from dsh_core.secrets import is_secret_header, is_secret_name, secrets_in_url, shown_url

__all__ = ["effective", "json_schema", "render"]

STARS = "**********"

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*\Z")
_WIDTH = 1_000_000


def effective(
    config: HarnessConfig, plugins: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the settings in effect as plain data with the keys of `dsh.yaml`.

    Secrets are stars, and a value that holds an environment variable's text shows its `${NAME}`.

    Args:
        config: What was loaded.
        plugins: The plugins' validated settings, where they are known; otherwise the layers are
            merged as files are, with permission's rules added up.
    """
    merged = {name: _merged(layers, ("plugins", name)) for name, layers in config.plugins.items()}
    judged = {name: _as_written(each, merged.get(name)) for name, each in (plugins or {}).items()}
    data: dict[str, Any] = {
        "default_agent": config.default_agent,
        "providers": {name: _provider(each) for name, each in config.providers.items()},
        "agents": {name: _agent(each) for name, each in config.agents.items()},
        "plugins": {**merged, **judged},
        "autoload": config.autoload,
    }
    shown: dict[str, Any] = _masked(data, (), config.variables)
    return shown


def render(
    config: HarnessConfig,
    plugins: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    origins: bool = True,
) -> str:
    """Return `effective` as YAML that our reader reads back; `origins` adds each value's source."""
    lines = _lines(effective(config, plugins), (), config.origins if origins else {})
    return "\n".join([*_head(config), *lines]) + "\n"


def _provider(provider: ProviderConfig) -> dict[str, Any]:
    return {
        "adapter": provider.adapter,
        "base_url": provider.base_url,
        "api_key": provider.api_key,
        "models": {name: _model(each) for name, each in provider.models.items()},
        **provider.options,
    }


def _model(model: ModelConfig) -> dict[str, Any]:
    return {
        "context_window_tokens": model.context_window_tokens,
        "reasoning": model.reasoning,
        "parameters": dict(model.parameters),
    }


def _agent(agent: AgentDefinition) -> dict[str, Any]:
    path = ("agents", agent.name, "plugins")
    return {
        "model": agent.model,
        "system_prompt": agent.system_prompt,
        "tools": None if agent.tools is None else list(agent.tools),
        "plugins": {name: _merged(each, (*path, name)) for name, each in agent.plugins.items()},
        "parameters": dict(agent.parameters),
        "stream": agent.stream,
        "autostart": agent.autostart,
    }


def _merged(layers: Sequence[Layer], path: KeyPath) -> dict[str, Any] | Literal[False]:
    merged: dict[str, Any] | Literal[False] = {}
    for layer in layers:
        if layer.values is False:
            merged = False
        elif merged is not False or not layer.settings_only:
            merged = _merge(merged or {}, _masked(layer.values, (), layer.variables), path)
    return merged


def _merge(weak: Mapping[str, Any], strong: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
    merged = dict(weak)
    for key, value in strong.items():
        before, here = merged.get(key), (*path, key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = _merge(before, value, here)
        elif isinstance(before, list) and isinstance(value, list) and holds_rules(here):
            merged[key] = [*before, *(rule for rule in value if rule not in before)]
        else:
            merged[key] = value
    return merged


def _as_written(value: Any, merged: Any) -> Any:
    """Put `${NAME}` back into settings that a plugin validated."""
    if isinstance(merged, str) and has_variable(merged):
        return merged
    if isinstance(value, Mapping):
        known = merged if isinstance(merged, dict) else {}
        return {key: _as_written(item, known.get(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = merged[: len(value)] if isinstance(merged, list) else []
        return [_as_written(*pair) for pair in zip_longest(value, items)]
    return value


def _masked(value: Any, path: KeyPath, variables: Mapping[str, str]) -> Any:
    if isinstance(value, (Secret, SecretStr)):
        return STARS
    if isinstance(value, str) and (any(map(is_secret_name, path)) or _is_secret_header(path)):
        return STARS
    if dotted(path) in variables:
        return variables[dotted(path)]
    if isinstance(value, str) and (path[-1:] == ("base_url",) or any(secrets_in_url(value))):
        return shown_url(value)
    if isinstance(value, Mapping):
        return {key: _masked(item, (*path, key), variables) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item, (*path, index), variables) for index, item in enumerate(value)]
    return value


def _is_secret_header(path: KeyPath) -> bool:
    return path[-2:-1] == ("headers",) and is_secret_header(path[-1])


def _head(config: HarnessConfig) -> Iterator[str]:
    yield f"# files: {', '.join(map(str, config.files)) or 'none'}"
    if config.safe:
        yield "# safe: built-in plugins only"
    if config.blocked:
        yield f"# blocked: {', '.join(sorted(config.blocked))}"
    yield from (f"# {note}" for note in config.notes)


def _lines(value: Mapping[str, Any], path: KeyPath, places: Mapping[str, str]) -> Iterator[str]:
    indent = "  " * len(path)
    for key, item in value.items():
        here = (*path, key)
        if isinstance(item, dict) and item:
            yield f"{indent}{_scalar(key)}:"
            yield from _lines(item, here, places)
            continue
        place = places.get(dotted(here))
        yield f"{indent}{_scalar(key)}: {_flow(item)}" + (f"  # {place}" if place else "")


def _flow(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        case int():
            return str(value)
        case _:
            return _scalar(str(value))


def _scalar(text: str) -> str:
    """Write text plainly where our reader reads it back as this text, else in double quotes."""
    if _PLAIN.match(text) and not is_ambiguous(text) and isinstance(plain_scalar(text), str):
        return text
    quoted: str = yaml.safe_dump(text, default_style='"', width=_WIDTH, allow_unicode=True)
    return quoted.rstrip("\n")
