"""The configuration as the harness uses it: plain frozen data, whatever it was written in.

`dsh_core.config.load` makes it from YAML, environment and command line; code may build it directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from dsh_core.errors import ConfigError
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.record import record


@record()
class Layer:
    """What one source says about a plugin: a file, the environment, the command line, code.

    Args:
        source: For messages: a file's path, `environment`, `-s`.
        values: The settings as written; False = the plugin is switched off.
        trusted: Whether all fields count, or only those marked `UNTRUSTED_OK`.
        lines: Dotted key path below the plugin → line in the source, where there are lines; the
            empty path is the plugin's own key.
        settings_only: Says nothing about whether the plugin is on: the environment, `-s` and an
            untrusted file give settings and never switch a plugin on.
        written: Dotted key path → a number as it stands in the source (`1.10`, `007`), for
            settings that want text.
        variables: Dotted key path → the text with its `${NAME}`, for every value that holds an
            environment variable's text. Such a value is never shown: it may be a secret.
    """

    source: str
    values: Mapping[str, Any] | Literal[False] = field(repr=False)
    trusted: bool = True
    lines: Mapping[str, int] = field(default_factory=dict)
    settings_only: bool = False
    written: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


@record()
class AgentDefinition:
    """An agent as `agents.NAME` describes it.

    Args:
        name: The key.
        model: A route, `provider/model`; None = the only or first configured model.
        system_prompt: The agent's own part of the system text.
        tools: Names of the tools it may use; None = all. A text is a `ConfigError`.
        plugins: Plugin name → layers of overrides; an empty tuple never occurs. Code may give plain
            settings or False, as for `HarnessConfig`.
        parameters: Wire parameters of its requests.
        stream: Whether its requests ask for a stream.
        autostart: Created when the harness starts.
        where: File and line, for messages.
    """

    name: str = "default"
    model: str | None = None
    system_prompt: str = ""
    tools: tuple[str, ...] | None = None
    plugins: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    autostart: bool = False
    where: str | None = None

    def __post_init__(self) -> None:
        key = f"agents.{self.name}"
        if isinstance(self.tools, str):
            raise ConfigError(
                "a tuple of tool names is wanted, not a text",
                where=f"{key}.tools",
                remedy=f"Write tools=({self.tools!r},), with the comma.",
            )
        object.__setattr__(self, "plugins", _in_layers(self.plugins, f"{key}.plugins"))


@record()
class HarnessConfig:
    """Everything a harness is told.

    Args:
        default_agent: The agent `dsh run` uses without `-a`: the one the setting names, else
            `default`, else the only one; None = the user has to choose.
        providers: By name.
        agents: By name.
        plugins: Plugin name → its layers, weakest first; the order of names is the asked order.
            Code may give plain settings or False, which become a layer; anything else is a
            `ConfigError`.
        autoload: False = only plugins named here are on.
        safe: True = built-in plugins only.
        blocked: Plugin names from `-p no:NAME`.
        project_dir: The folder of the project file, or the working directory.
        user_dir: Where the user's own files are.
        notes: One line each for what was ignored and why (trust), for front ends to show.
        files: The files that were read, weakest first.
        untrusted_file: The project file, while the user has not agreed to its content.
        origins: Dotted key path → `FILE:LINE:COLUMN`, the variable's name or the option it is from.
        variables: As in `Layer`, for providers and agents.
    """

    default_agent: str | None = None
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    plugins: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    autoload: bool = True
    safe: bool = False
    blocked: frozenset[str] = frozenset()
    project_dir: Path = field(default_factory=Path.cwd)
    user_dir: Path | None = None
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    untrusted_file: Path | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plugins", _in_layers(self.plugins, "plugins"))


def _in_layers(plugins: object, key: str) -> dict[str, tuple[Layer, ...]]:
    """Return settings as layers. Raises `ConfigError` for what are none."""
    if not isinstance(plugins, Mapping):
        raise ConfigError("a mapping of plugin names to settings is wanted", where=key)
    return {name: _layers(value, f"{key}.{name}") for name, value in plugins.items()}


def _layers(value: object, key: str) -> tuple[Layer, ...]:
    if isinstance(value, (tuple, list)) and all(isinstance(item, Layer) for item in value):
        return tuple(value)
    if value is False or isinstance(value, Mapping):
        return (Layer("code", value),)
    raise ConfigError(
        f"a mapping of settings, or False, is wanted, not a {type(value).__name__}",
        where=key,
        remedy="Plugin objects are given to Harness(plugins=…).",
    )
