"""The plugin `shell`: the model runs commands, in the foreground and as background jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core import hookimpl
from dsh_shell.settings import Settings as ShellSettings
from dsh_shell.tools import ShellTools

if TYPE_CHECKING:
    from dsh_core import Agent, Harness, Tool

__all__ = ["Shell", "ShellSettings"]


class Shell:
    """Registers `bash`, `bash_output` and `bash_kill`, and ends what they started."""

    Settings = ShellSettings

    def __init__(self, settings: ShellSettings | None = None):
        self._tools = ShellTools(settings or ShellSettings())

    @hookimpl
    def tools_register(self, harness: Harness) -> Sequence[Tool]:
        """Give every agent the tools."""
        return self._tools.build(holds_secret=harness.secrets.found_in)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Begin to end the agent's jobs and survivors."""
        self._tools.end_agent(agent)

    @hookimpl
    async def harness_stop(self) -> None:
        """Wait until everything that was started has ended."""
        await self._tools.close()
