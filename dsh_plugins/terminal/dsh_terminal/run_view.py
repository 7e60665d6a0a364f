"""`dsh run` at a terminal: what the chat shows, without the input and with nothing drawn twice."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from dsh_core import Agent, Chunk, Event, PluginError, Session, error_chain, hookimpl
from dsh_core.events import ErrorEvent, ToolCallEvent
from dsh_terminal.calls import summary_of
from dsh_terminal.paint import Paint
from dsh_terminal.settings import Settings
from dsh_terminal.transcript import Transcript


class RunView:
    """Shows the first agent that is created; each part of its answer once it is finished.

    Args:
        write: Takes what is shown.
        settings: How much is shown.
    """

    def __init__(self, write: Callable[[str], None], settings: Settings):
        self._paint = Paint(encoding=sys.stdout.encoding or "ascii")
        self._paint.use_width(lambda: shutil.get_terminal_size().columns)
        self._transcript = Transcript(self._paint, write, settings)
        self._write = write
        self._agent: Agent | None = None
        self._failure = ""

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Choose the agent, and learn what must not be shown."""
        if self._agent is None:
            self._agent = agent
            self._paint.scrub = agent.harness.secrets.scrub

    @hookimpl
    def agent_stream_chunk(self, agent: Agent, chunk: Chunk) -> None:
        """Take a piece of the answer."""
        if agent is self._agent:
            self._transcript.chunk(chunk)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Show what happened, and what begins."""
        if self._agent is None or session is not self._agent.session:
            return
        if isinstance(event.data, ErrorEvent):
            self._failure = event.data.message
        self._transcript.event(event)
        if isinstance(event.data, ToolCallEvent):
            summary = summary_of(event.data.arguments)
            room = self._paint.width - len(event.data.name) - 6
            self._write(self._paint.note(f"{event.data.name} {self._paint.line(summary, room)}"))

    @hookimpl
    def agent_error(self, agent: Agent, error: BaseException) -> None:
        """Show a plugin's failure that no event says."""
        if isinstance(error, PluginError) and str(error) != self._failure:
            self._transcript.note(f"plugin failed: {error_chain(error)}", style="red")
