"""Files for an agent: `read`, `write`, `edit`, `glob`, `grep`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core import Call, Effect, Tool, hookimpl
from dsh_files.effects import effects_of
from dsh_files.settings import Settings as FilesSettings
from dsh_files.tools import FileTools

if TYPE_CHECKING:
    from dsh_core import Agent, Harness

__all__ = ["Files"]


class Files:
    """The plugin `files`."""

    Settings = FilesSettings

    def __init__(self, *, settings: FilesSettings) -> None:
        self._tools = FileTools(settings)

    @hookimpl
    def tools_register(self, harness: Harness) -> Sequence[Tool]:
        """Give the five tools to every agent."""
        return self._tools.all()

    @hookimpl
    def tool_effects(self, agent: Agent, call: Call) -> Sequence[Effect] | None:
        """Name the resolved path that a call of ours reads or writes."""
        return effects_of(call, agent.cwd)
