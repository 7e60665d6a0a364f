"""What `dsh plugins` shows of a plugin, and the error of one that cannot start."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from dsh_core.errors import ConfigError
from dsh_core.record import record

State: TypeAlias = Literal["on", "off", "blocked", "broken", "missing"]


@record(frozen=False)
class PluginInfo:
    """One plugin and its state.

    Args:
        name: Entry point name = YAML key.
        distribution: What pip calls it; "inline" for plugins given by code, "" for a name that is
            nobody's.
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

    def cannot_start(self, cause: str, remedy: str | None = None) -> StartError:
        """Return the error that names plugin, distribution, cause and remedy."""
        if not self.distribution:
            return StartError(cause, cause, remedy or "")
        version = f" {self.version}" if self.version not in ("", "?") else ""
        return StartError(
            f"plugin {self.name!r} ({self.distribution}{version}) cannot start: {cause}",
            cause,
            remedy or f"Start with --safe, or set plugins.{self.name}: false.",
        )


class StartError(ConfigError):
    """A plugin that cannot start; `cause` is the message without the plugin's name."""

    def __init__(self, message: str, cause: str, remedy: str):
        super().__init__(message, remedy=remedy)
        self.cause = cause
