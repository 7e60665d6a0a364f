"""What `dsh plugins` shows of a plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

State: TypeAlias = Literal["on", "off", "blocked", "broken", "missing"]


@dataclass(slots=True)
class PluginInfo:
    """One plugin and its state.

    Args:
        name: Entry point name = YAML key.
        distribution: What pip calls it; "inline" for plugins given by code.
        version: Of the distribution.
        state: on, off, blocked, broken, or missing: configured but not installed.
        cause: Why it is not on.
        remedy: What to do about it.
        plugin: The registered object, where it is on.
        settings: Its settings, where it has some.
        is_builtin: Whether it comes with the core.

    """

    name: str
    distribution: str
    version: str
    state: State
    cause: str = ""
    remedy: str = ""
    plugin: object | None = None
    settings: Any = None
    is_builtin: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what `dsh plugins --json` prints."""
        return {
            "name": self.name,
            "distribution": self.distribution,
            "version": self.version,
            "state": self.state,
            "cause": self.cause,
            "remedy": self.remedy,
            "builtin": self.is_builtin,
        }
