"""`--json`: the session as JSON lines on standard output, and nothing else there.

The first line is `{"type": "dsh/header", "version": 1, …}`; then come the session's events as they
are appended, `dsh/error` lines for failures beside the log, and `dsh/result` at the end.
The format is described in docs/json.md; the version changes when a field changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsh_core import __version__
from dsh_core.agents import Agent
from dsh_core.chunks import Usage
from dsh_core.cli.output import ResultOutput
from dsh_core.codec import to_json
from dsh_core.content import text_of
from dsh_core.errors import LlmFailure, PluginError, UserError, error_chain
from dsh_core.events import (
    AssistantMessage,
    ErrorEvent,
    Event,
    LlmRetry,
    TurnEnd,
    TurnEndReason,
    UsageEvent,
)
from dsh_core.marks import hookimpl
from dsh_core.session import Session

if TYPE_CHECKING:
    from dsh_core.harness import Harness

JSON_VERSION = 1


def line(value: Any) -> str:
    """Return one line of JSON, ASCII only: it survives any pipe."""
    return json.dumps(value, separators=(",", ":")) + "\n"


def error_line(error: BaseException, **place: int) -> str:
    """Return a `dsh/error` line."""
    code = "UNKNOWN"
    if isinstance(error, LlmFailure):
        code = error.code
    elif isinstance(error, PluginError):
        code = "PLUGIN"
    elif isinstance(error, UserError):
        code = "CONFIG"
    plugin = {"plugin": error.plugin} if isinstance(error, PluginError) else {}
    return line(
        {"type": "dsh/error", "code": code, "message": error_chain(error), **place, **plugin}
    )


class JsonLines:
    """Writes what happens to one session, flushed line by line: that of the agent it follows."""

    def __init__(self, output: ResultOutput):
        self._output = output
        self._scrub: Callable[[str], str] = str
        self._id: str | None = None
        self._early: list[tuple[str, str]] = []
        self._text = ""
        self._logged = ""
        self._usage = Usage()
        self._reason: TurnEndReason | None = None

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Learn what must not be written."""
        self._scrub = harness.secrets.scrub

    def follow(self, agent: Agent) -> None:
        """Write the header and what there is already; from now on, what comes.

        Other agents, as a plugin may create them, have logs of their own.
        """
        self._id = agent.id
        session = agent.session
        header = {"type": "dsh/header", "version": JSON_VERSION, "dsh": __version__}
        self._write(line({**header, "session": to_json(session.header)}))
        for event in session.events:
            self._write(line(event.to_json()))
        for agent_id, text in self._early:
            if agent_id == agent.id:
                self._write(text)
        self._early.clear()

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Write an event."""
        if session.id == self._id:
            self._event(event)

    @hookimpl
    def agent_error(self, agent: Agent, turn: int, step: int, error: BaseException) -> None:
        """Write a failure, unless an event says the same."""
        text = error_line(error, turn=turn, step=step)
        if self._id is None:
            self._early.append((agent.id, text))
        elif agent.id == self._id and not (self._logged and self._logged in error_chain(error)):
            self._write(text)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Write the result: the last answer, why the last turn ended, what it cost."""
        if agent.id != self._id:
            return
        self._write(
            line(
                {
                    "type": "dsh/result",
                    "session_id": agent.id,
                    "text": self._text,
                    "reason": to_json(self._reason) if self._reason is not None else None,
                    "usage": to_json(self._usage),
                }
            )
        )

    def _event(self, event: Event) -> None:
        self._write(line(event.to_json()))
        match event.data:
            case ErrorEvent(message=message) | LlmRetry(message=message):
                self._logged = message
            case AssistantMessage(content=content, interrupted=False):
                self._text = text_of(content) or self._text
            case UsageEvent(usage=usage):
                self._usage = self._usage + usage
            case TurnEnd(reason=reason):
                self._reason = reason

    def _write(self, text: str) -> None:
        self._output.write(self._scrub(text))
