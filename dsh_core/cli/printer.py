"""`dsh run` as text: the answer on standard output, what happens meanwhile on standard error.

On a terminal the answer streams. In a pipe only finished answers are written: what a failed attempt
began, or what the model says between tool calls, is not part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dsh_core.agents import Agent
from dsh_core.chunks import Chunk, ReasoningDelta, TextDelta
from dsh_core.cli.context import say
from dsh_core.cli.output import ResultOutput
from dsh_core.cli.remedies import remedy
from dsh_core.cli.screen import bounded, one_line, printable
from dsh_core.content import ToolCall, text_of
from dsh_core.errors import PluginError, error_chain
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    Event,
    LimitReached,
    LlmRetry,
    PluginTrace,
    RequestHeader,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnEndReason,
)
from dsh_core.marks import hookimpl
from dsh_core.session import Session

if TYPE_CHECKING:
    from dsh_core.harness import Harness


class Printer:
    """Shows a run to a person: what the agent does that it follows.

    Args:
        output: Where answers go; streamed to where it is a terminal.
        is_quiet: Show nothing but answers and errors.
    """

    def __init__(self, output: ResultOutput, *, is_quiet: bool):
        self._output = output
        self._is_quiet = is_quiet
        self._id: str | None = None
        self._is_mid_line = False
        self._was_streamed = False
        self._was_warned = False
        self._said = ""
        self._calls: dict[str, str] = {}
        self._scrub: Callable[[str], str] = str

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Learn what must not be written."""
        self._scrub = harness.secrets.scrub

    def follow(self, agent: Agent) -> None:
        """Show this agent; others, as a plugin may create them, are not the run."""
        self._id = agent.id

    @hookimpl
    def agent_stream_chunk(self, agent: Agent, chunk: Chunk) -> None:
        """Stream text to a terminal."""
        if not self._output.is_live or agent.id != self._id:
            return
        if isinstance(chunk, TextDelta):
            self._stream(printable(chunk.text))
            self._was_streamed = True
        elif isinstance(chunk, ReasoningDelta) and not self._is_quiet:
            self._stream(f"\x1b[2m{printable(chunk.text)}\x1b[0m")

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Show what is worth a line; what replaces something earlier is for the model only."""
        if session.id != self._id or getattr(event.data, "replaces", None) is not None:
            return
        match event.data:
            case AssistantMessage() as message:
                self._answer(message)
            case ErrorEvent() as failure:
                self._failed(failure)
            case LlmRetry(attempt=attempt, delay_seconds=delay, code=code, message=text):
                self._note(f"retry {attempt} in {delay:.1f} s: {_name(code)}: {one_line(text)}")
            case TurnEnd(reason=reason):
                self._ended(reason)
            case RequestHeader(prefix_break=names, changed_by=writers) if names:
                who = ", ".join(f"{n} ({(writers or {}).get(n, 'core')})" for n in names)
                self._note(f"the prompt cache is lost, changed: {who}")
            case ToolCallEvent() | ToolResultEvent() | ToolProgress() | PluginTrace() as data:
                self._activity(data)
            case data if notice := data.notice:
                self._note(one_line(notice, 300))

    @hookimpl
    def agent_error(self, agent: Agent, error: BaseException) -> None:
        """Show a plugin's failure that no event says."""
        if isinstance(error, PluginError) and str(error) != self._said:
            self._note(f"plugin failed: {one_line(error_chain(error), 300)}")

    @hookimpl
    def agent_disposed(self) -> None:
        """End the last line."""
        self._break_line()

    def _answer(self, message: AssistantMessage) -> None:
        text = text_of(message.content)
        if self._was_streamed:
            self._was_streamed = False
            self._break_line()
        elif text and any(isinstance(block, ToolCall) for block in message.content):
            self._note(printable(text))
        elif text:
            text = self._scrub(text)
            shown = printable(text) if self._output.is_live else text
            self._output.write(shown if shown.endswith("\n") else f"{shown}\n")

    def _activity(self, data: ToolCallEvent | ToolResultEvent | ToolProgress | PluginTrace) -> None:
        match data:
            case ToolCallEvent(call_id=call_id, name=name, arguments=arguments) as call:
                self._calls[call_id] = name
                self._warn_unjudged(call)
                self._note(f"→ {_name(name)} {one_line(arguments)}")
            case ToolResultEvent(call_id=call_id, content=content, is_error=is_error):
                mark = "✗" if is_error else "✓"
                name = self._calls.pop(call_id, "tool")
                self._note(
                    f"{mark} {_name(name)}: {one_line(text_of(content))}{_changes(data.meta)}"
                )
            case ToolProgress(text=text):
                self._note(f"  {one_line(text)}")
            case PluginTrace(hook=hook, seconds=seconds, ran=ran):
                who = "; ".join(_traced(one) for one in ran)
                self._note(f"  trace {hook} {seconds * 1000:.2f} ms: {one_line(who, 500)}")

    def _warn_unjudged(self, call: ToolCallEvent) -> None:
        """Say once that nobody decides which tools run."""
        if self._was_warned or call.verdict != "allow" or call.judged_by is not None:
            return
        self._was_warned = True
        self._note("note: no permission plugin is on: tools run without asking")

    def _failed(self, failure: ErrorEvent) -> None:
        self._said = failure.message
        code = "" if failure.code in ("UNKNOWN", "CONFIG", "PLUGIN") else f"{_name(failure.code)}: "
        self._tell(f"error: {code}{bounded(self._scrub(failure.message))}")
        advice = remedy(failure.code)
        if advice is not None:
            self._tell(f"  {advice}")

    def _ended(self, reason: TurnEndReason) -> None:
        match reason:
            case Completed() | Errored():
                return
            case LimitReached(message=text):
                self._tell(f"stopped: {bounded(text)}")
            case Aborted(reason=why):
                self._tell(f"aborted{f': {bounded(why)}' if why else ''}")
            case _:
                self._tell(f"the turn ended: {_name(reason.type)}")

    def _stream(self, text: str) -> None:
        self._output.write(self._scrub(text))
        self._is_mid_line = not text.endswith("\n")

    def _break_line(self) -> None:
        if self._is_mid_line:
            self._output.write("\n")
            self._is_mid_line = False

    def _note(self, text: str) -> None:
        if not self._is_quiet:
            self._tell(text)

    def _tell(self, text: str) -> None:
        self._break_line()
        say(self._scrub(text))


def _name(name: str) -> str:
    """Return a name that the model or the provider chose, on one line and not too long."""
    return one_line(name, 64)


def _traced(one: Mapping[str, Any]) -> str:
    changed = f" changed {', '.join(one['changed'])}" if one.get("changed") else ""
    return f"{one['plugin']} {one.get('seconds', 0) * 1000:.2f} ms{changed}"


def _changes(meta: Mapping[str, Any] | None) -> str:
    if meta and "added_lines" in meta and "removed_lines" in meta:
        return f" (+{meta['added_lines']} −{meta['removed_lines']})"
    return ""
