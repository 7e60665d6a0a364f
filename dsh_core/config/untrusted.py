"""What a project file may say before the user has agreed to it: nothing that could loosen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dsh_core.config.interpolate import has_variable, holds_rules
from dsh_core.config.mistakes import KeyPath, Place, dotted
from dsh_core.config.trust import UNTIL_TRUSTED

_KEYS: Final = ("agents", "default_agent", "plugins")
_AGENT_KEYS: Final = ("model", "system_prompt", "tools")


def strip_untrusted(
    data: Mapping[str, Any],
    lines: Mapping[KeyPath, Place],
    path: str | Path,
    own: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Return what an untrusted project file may say, and a line for each thing that is ignored.

    It may add agents, with a model (`dsh_core.config.build` judges which), a prompt and tools, but
    touch none of the user's, nor say which agent is meant where the user has any. Settings of
    plugins stay; their layer is marked untrusted, and all fields that the plugin does not mark
    `UNTRUSTED_OK` fall later. Everything else is ignored, also keys that come to the format later,
    and so is every value with `${…}` outside permission's rules.

    Args:
        data: The file's values before interpolation; not changed.
        lines: Key path → position.
        path: The file as messages show it.
        own: What the user's own file says.
    """
    stripper = _Stripper(lines, str(path), own or {})
    kept = stripper.sections(data)
    kept = stripper.without_variables(kept, ())
    return kept, stripper.notes()


class _Stripper:
    def __init__(self, lines: Mapping[KeyPath, Place], name: str, own: Mapping[str, Any]):
        self.lines = lines
        self.name = name
        self.own = own
        self.ignored: list[tuple[int, str]] = []
        self.variables: list[KeyPath] = []

    def sections(self, data: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in data.items() if self._may_stay((key,), value)}
        if isinstance(kept.get("plugins"), dict):
            kept["plugins"] = self._plugins(kept["plugins"])
        if isinstance(kept.get("agents"), dict):
            kept["agents"] = self._agents(kept["agents"])
        return kept

    def _may_stay(self, path: KeyPath, value: Any) -> bool:
        if path[-1] == "default_agent" and (self.own.get("default_agent") or self._own_agents()):
            self._ignore(path, "default_agent", "you have agents of your own")
            return False
        if path[-1] in (_AGENT_KEYS if len(path) > 1 else _KEYS):
            return True
        if value not in (None, {}):
            self._ignore(path, dotted(path))
        return False

    def _plugins(self, sections: dict[str, Any]) -> dict[str, Any]:
        for name, section in sections.items():
            if section is False:
                self._ignore(("plugins", name), f"plugins.{name}: false")
        return {name: section for name, section in sections.items() if section is not False}

    def _agents(self, agents: dict[str, Any]) -> dict[str, Any]:
        kept = {}
        for name, agent in agents.items():
            path = ("agents", name)
            if name in self._own_agents():
                self._ignore(path, dotted(path), "you have an agent of this name")
            elif isinstance(agent, dict):
                items = agent.items()
                kept[name] = {key: it for key, it in items if self._may_stay((*path, key), it)}
            else:
                kept[name] = agent
        return kept

    def _own_agents(self) -> Mapping[str, Any]:
        agents: Mapping[str, Any] = self.own.get("agents") or {}
        return agents

    def without_variables(self, value: Any, path: KeyPath) -> Any:
        """Leave out the key whose value, or whose list, holds a variable."""
        if not isinstance(value, dict) or holds_rules(path):
            return value
        kept = {}
        for key, item in value.items():
            here = (*path, key)
            if not holds_rules(here) and _list_has_variable(item):
                self.variables.append(here)
            else:
                kept[key] = self.without_variables(item, here)
        return kept

    def notes(self) -> list[str]:
        """One line for each group, in the file's order."""
        if self.variables:
            names = ", ".join(dotted(path) for path in self.variables)
            lines = sorted({self._line(path) for path in self.variables})
            numbers = ",".join(map(str, lines))
            text = f"{self.name}:{numbers}: `${{…}}` is ignored {UNTIL_TRUSTED}: {names}"
            self.ignored.append((lines[0], text))
        return [text for _, text in sorted(self.ignored)]

    def _ignore(self, path: KeyPath, what: str, reason: str = "") -> None:
        line = self._line(path)
        text = f"{self.name}:{line}: {what} is ignored {UNTIL_TRUSTED}"
        self.ignored.append((line, f"{text}: {reason}" if reason else text))

    def _line(self, path: KeyPath) -> int:
        return self.lines[path].line if path in self.lines else 1


def _list_has_variable(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_anywhere_has_variable, value))
    return isinstance(value, str) and has_variable(value)


def _anywhere_has_variable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_anywhere_has_variable, value.values()))
    return _list_has_variable(value)
