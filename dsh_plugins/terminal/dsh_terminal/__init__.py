"""The plugin `terminal`: what a person sees and touches. `dsh chat` is `dsh_terminal.cli`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dsh_core import Agent, StashKey, hookimpl
from dsh_terminal import hookspecs
from dsh_terminal.settings import Settings as TerminalSettings

if TYPE_CHECKING:
    from dsh_core import CliOptions

SETTINGS: StashKey[TerminalSettings] = StashKey("terminal.settings")


class Terminal:
    """Brings the settings and the hooks of the screen; costs nothing where nobody looks."""

    Settings = TerminalSettings
    hookspecs = hookspecs

    def __init__(self, settings: TerminalSettings | None = None):
        self._settings = settings or TerminalSettings()

    @hookimpl
    def cli_register(self, cli: CliOptions) -> None:
        """Show `dsh run` at a terminal as the chat shows it."""
        cli.offer_front_end(self._shown_run)

    def _shown_run(self, write: Callable[[str], None]) -> object:
        from dsh_terminal.run_view import RunView

        return RunView(write, self._settings)

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Tell the front end what is set for this agent."""
        agent.stash[SETTINGS] = self._settings


__all__ = ["SETTINGS", "Terminal", "TerminalSettings"]
