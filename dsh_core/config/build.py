"""From checked and merged settings to the data a harness uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from dsh_core.config.known import KNOWN_PROVIDERS, built_in, complete, from_keys
from dsh_core.config.layers import Checked, plugin_layers
from dsh_core.config.mistakes import KeyPath, Mistake, did_you_mean, dotted
from dsh_core.config.model import AgentDefinition, HarnessConfig
from dsh_core.config.precedence import Settings
from dsh_core.config.schema import AgentSection, ProviderSection, url_problem
from dsh_core.config.source import Source
from dsh_core.config.trust import UNTIL_TRUSTED
from dsh_core.config.yaml import plain_scalar
from dsh_core.llm.adapter import ModelConfig, ProviderConfig
from dsh_core.record import record
from dsh_core.secret import Secret
from dsh_core.secrets import is_secret_variable

_IDLE = "stream_idle_seconds"
_STRONG = ("environment", "options")


@record(frozen=False)
class Builder:
    """Makes providers and agents, and collects what does not fit together.

    Args:
        sources: Weakest first, with their checked values.
        settings: The merged core settings.
        environ: The environment.
        ignored: Providers an untrusted project file would have given.
    """

    sources: Sequence[Checked]
    settings: Settings
    environ: Mapping[str, str]
    ignored: frozenset[str] = frozenset()
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def build(self) -> HarnessConfig:
        """Return what the settings say; look at `mistakes` before using it."""
        providers = self._configured() or from_keys(self.environ)
        agents = {name: self._agent(name, each) for name, each in self.settings.agents.items()}
        agents = self._without_ignored(agents or {"default": AgentDefinition()}, providers)
        agents = self._with_route(agents, providers)
        for agent in agents.values():
            name = (agent.model or "").partition("/")[0]
            if name in KNOWN_PROVIDERS and name not in providers:
                providers[name] = built_in(name, self.environ)
        for agent in agents.values():
            self._check_route(agent, providers)
        self._check_addresses(providers)
        return HarnessConfig(
            default_agent=self._default_agent(agents),
            providers=self._with_idle(providers),
            agents=agents,
            plugins=plugin_layers(self.sources),
            autoload=self.settings.autoload,
            origins=self._origins(),
            variables=self._variables(),
        )

    def _configured(self) -> dict[str, ProviderConfig]:
        return {
            name: complete(
                replace(
                    provider(name, section),
                    folder=self._folder(name),
                    options=self._with_secrets(name, section.model_extra or {}),
                ),
                self.environ,
            )
            for name, section in self.settings.providers.items()
        }

    def _with_secrets(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Keep headers that a secret variable gives as secrets, whatever the header is called."""
        headers = options.get("headers")
        if not isinstance(headers, dict):
            return dict(options)
        kept = {
            key: Secret(text) if isinstance(text, str) and self._is_secret(name, key) else text
            for key, text in headers.items()
        }
        return {**options, "headers": kept}

    def _is_secret(self, provider: str, header: str) -> bool:
        path = ("providers", provider, "headers", header)
        written = self._source(path).variables.get(path, "")
        return any(map(is_secret_variable, re.findall(r"\w+", written)))

    def _folder(self, name: str) -> Path | None:
        """Return the folder of the strongest file that configures a provider."""
        for source, _ in reversed(self.sources):
            if source.folder is not None and source.has(("providers", name)):
                return source.folder
        return None

    def _check_addresses(self, providers: Mapping[str, ProviderConfig]) -> None:
        for name, known in KNOWN_PROVIDERS.items():
            address = known.address(self.environ)
            problem = url_problem(address)
            if problem is not None and name in providers and providers[name].base_url == address:
                remedy = f"Write something like {known.base_url}."
                self.mistakes.append(
                    Mistake(known.base_url_variable, f"{problem} is wanted", remedy)
                )

    def _with_idle(self, providers: Mapping[str, ProviderConfig]) -> dict[str, ProviderConfig]:
        """Apply DSH_STREAM_IDLE_S, where neither a longer variable nor `-s` sets the option."""
        text = self.environ.get("DSH_STREAM_IDLE_S", "").strip()
        if not text:
            return dict(providers)
        seconds = plain_scalar(text)
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
            remedy = "Write DSH_STREAM_IDLE_S=60."
            self.mistakes.append(
                Mistake("DSH_STREAM_IDLE_S", "a number of seconds is wanted", remedy)
            )
        stronger = [source for source, _ in self.sources if source.kind in _STRONG]
        return {
            name: each
            if any(source.has(("providers", name, _IDLE)) for source in stronger)
            else replace(each, options={**each.options, _IDLE: seconds})
            for name, each in providers.items()
        }

    def _agent(self, name: str, section: AgentSection) -> AgentDefinition:
        path = ("agents", name)
        return AgentDefinition(
            name=name,
            model=section.model,
            system_prompt=section.system_prompt,
            tools=None if section.tools is None else tuple(section.tools),
            plugins=plugin_layers(self.sources, below=path),
            parameters=section.parameters,
            stream=section.stream,
            autostart=section.autostart,
            where=self._source(path).position(path),
        )

    def _with_route(
        self, agents: Mapping[str, AgentDefinition], providers: Mapping[str, ProviderConfig]
    ) -> dict[str, AgentDefinition]:
        """Apply DSH_MODEL, a route or a model of the first provider, to agents without a model."""
        name = self.environ.get("DSH_MODEL", "").strip()
        head, slash, model = name.partition("/")
        if slash and not model:
            message = "a route or the name of a model is wanted"
            self.mistakes.append(Mistake("DSH_MODEL", message, "Write PROVIDER/MODEL."))
            return dict(agents)
        if not name:
            return dict(agents)
        if not slash or head not in {*providers, *KNOWN_PROVIDERS}:
            name = f"{next(iter(providers or KNOWN_PROVIDERS))}/{name}"
        return {
            key: agent if agent.model else replace(agent, model=name)
            for key, agent in agents.items()
        }

    def _without_ignored(
        self, agents: Mapping[str, AgentDefinition], providers: Mapping[str, ProviderConfig]
    ) -> dict[str, AgentDefinition]:
        """Take routes away that an untrusted file may not choose: who is asked is the user's say.

        It may name models that the user's providers list or the user's agents use.
        """
        listed = {f"{name}/{model}" for name, each in providers.items() for model in each.models}
        used = {agent.model for agent in agents.values() if self._is_own(agent.name)}
        known = {*providers, *KNOWN_PROVIDERS}
        kept = dict(agents)
        for name, agent in agents.items():
            path = ("agents", name, "model")
            if self._source(path).trusted or agent.model is None or agent.model in listed | used:
                continue
            head = agent.model.partition("/")[0]
            if head in self.ignored - known:
                reason = f"it needs that file's provider {head}"
            elif head in known:
                reason = "none of your providers lists this model"
            else:
                continue
            line = self._source(path).line(path)
            self.notes.append(f"{line}: {dotted(path)} is ignored {UNTIL_TRUSTED}: {reason}")
            kept[name] = replace(agent, model=None)
        return kept

    def _is_own(self, agent: str) -> bool:
        """Whether anything but an untrusted file names an agent."""
        path = ("agents", agent)
        return any(source.trusted and source.has(path) for source, _ in self.sources)

    def _check_route(self, agent: AgentDefinition, providers: Mapping[str, ProviderConfig]) -> None:
        if agent.model is None:
            return
        path = ("agents", agent.name, "model")
        name, slash, model = agent.model.partition("/")
        hidden = self._source(path).hides(path)
        if not (name and slash and model):
            listed = [each for each, it in providers.items() if agent.model in it.models]
            example = f", {listed[0]}/{agent.model}" if listed else ""
            self._add(path, "a route is wanted", f"Write PROVIDER/MODEL{example}.")
        elif name not in providers:
            known = dict.fromkeys([*providers, *KNOWN_PROVIDERS])
            remedy = did_you_mean("" if hidden else name, known)
            self._add(path, "unknown provider" + ("" if hidden else f" `{name}`"), remedy)

    def _default_agent(self, agents: Mapping[str, AgentDefinition]) -> str | None:
        chosen = self.settings.default_agent
        if chosen is None:
            own = [name for name in agents if self._is_own(name)] or list(agents)
            only = own[0] if len(own) == 1 else None
            return "default" if "default" in own else only
        if chosen not in agents:
            path = ("default_agent",)
            hidden = self._source(path).hides(path)
            shown = "" if hidden else f" `{chosen}`"
            self._add(path, f"unknown agent{shown}", did_you_mean("" if hidden else chosen, agents))
        return chosen

    def _add(self, path: KeyPath, message: str, remedy: str) -> None:
        self.mistakes.append(Mistake(self._source(path).where(path), message, remedy))

    def _source(self, path: KeyPath) -> Source:
        """Return the strongest source that says something there."""
        for source, _ in reversed(self.sources):
            if source.has(path):
                return source
        return self.sources[0][0]

    def _origins(self) -> dict[str, str]:
        origins: dict[str, str] = {}
        for source, _ in self.sources:
            for path in {**source.places, **source.names}:
                origins[dotted(path)] = source.position(path)
        return origins

    def _variables(self) -> dict[str, str]:
        return {
            dotted(path): text
            for source, _ in self.sources
            for path, text in source.variables.items()
            if self._source(path) is source
        }


def provider(name: str, section: ProviderSection) -> ProviderConfig:
    """Return a provider as its section says; an empty key is none."""
    key = section.api_key.get_secret_value().strip() if section.api_key else ""
    return ProviderConfig(
        name=name,
        adapter=section.adapter,
        base_url=section.base_url,
        api_key=Secret(key) if key else None,
        models={
            model: ModelConfig(each.context_window_tokens, each.reasoning, each.parameters)
            for model, each in section.models.items()
        },
        options=dict(section.model_extra or {}),
    )
