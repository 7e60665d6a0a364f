"""What is seen of a conversation: finished parts go up for good, the rest is drawn live.

A fold of the session's events and of the stream's chunks; a resumed session is shown by giving it
the events again.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len

from dsh_core import Chunk, Event, Reasoning, ReasoningDelta, TextDelta, UserSource, text_of
from dsh_core.cli import remedy
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    LimitReached,
    LlmRetry,
    SteeringMessage,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnEndReason,
    UserMessage,
)
from dsh_terminal.calls import RunningCall, result_of
from dsh_terminal.markdown import MarkdownStream
from dsh_terminal.paint import Paint, wrapped
from dsh_terminal.settings import Settings

SECRET_MARGIN = 4096
"""Characters before what is seen that are looked through for secrets; longer than any key."""

Lines = list[tuple[str, str]]
"""Rows of the live part: style and text."""


class Transcript:
    """Shows one conversation.

    Args:
        paint: Renders.
        show: Takes what is finished.
        settings: How much is shown.
    """

    def __init__(self, paint: Paint, show: Callable[[str], None], settings: Settings):
        self._paint = paint
        self._show = show
        self._settings = settings
        self._answer = MarkdownStream()
        self._is_answering = False
        self._reasoning = ""
        self._calls: dict[str, RunningCall] = {}
        self._was_warned = False
        self.last_reasoning = ""

    # --------------------------------------------------------------------------- input

    def chunk(self, chunk: Chunk) -> None:
        """Take a piece of the stream."""
        if isinstance(chunk, TextDelta):
            self._end_reasoning()
            finished = self._answer.feed(chunk.text)
            if finished is not None:
                self._answered(finished)
        elif isinstance(chunk, ReasoningDelta):
            self._reasoning += chunk.text

    def event(self, event: Event) -> None:
        """Take an event; what replaces something earlier is for the model only."""
        if getattr(event.data, "replaces", None) is not None:
            return
        match event.data:
            case UserMessage(content=content, source=source):
                self._said(text_of(content), is_user=isinstance(source, UserSource))
            case SteeringMessage(content=content, source=source):
                self._said(text_of(content), is_user=isinstance(source, UserSource), steers=True)
            case AssistantMessage() as message:
                self._message(message)
            case ToolCallEvent() as call:
                self._call(call)
            case ToolProgress(call_id=call_id, text=text):
                if call_id in self._calls:
                    self._calls[call_id].tail.extend(text.splitlines())
            case ToolResultEvent() as result:
                self._result(result)
            case LlmRetry(attempt=attempt, delay_seconds=delay, code=code, message=text):
                self._cut()
                self.note(f"retry {attempt} in {delay:.1f} s: {code}: {text}")
            case ErrorEvent() as failure:
                self._failed(failure)
            case TurnEnd(reason=reason):
                self._ended(reason)
            case data if notice := data.notice:
                self.note(notice)

    def note(self, text: str, *, style: str = "dim") -> None:
        """Show a remark of the program."""
        self._show(self._paint.note(text, style=style))

    # ------------------------------------------------------------------------ the live part

    def live(self, rows: int, tick: int) -> Lines:
        """Return the rows that still change, at most so many: the newest."""
        paint = self._paint
        lines: Lines = []
        if self._reasoning:
            lines += [("class:reasoning", f"  {row}") for row in self._tail(self._reasoning, rows)]
        if self._answer.rest.strip():
            lines += [("", f"  {row}") for row in self._tail(self._answer.rest, rows)]
        spinner = paint.symbols.spinner
        for call in self._calls.values():
            head = f"{spinner[tick % len(spinner)]} {paint.line(call.name, 40)}"
            room = paint.width - cell_len(head) - len(call.elapsed) - 2
            summary = f" {paint.line(call.summary, room)}" if room > 4 else ""
            lines.append(("class:call", f"{head}{summary}{call.elapsed}"))
            for text in call.tail:
                lines.append(("class:tail", f"  {paint.line(text, paint.width - 4)}"))
        return lines[-rows:]

    def _tail(self, text: str, rows: int) -> list[str]:
        # Only the end can be seen: the cost of a frame does not grow with the answer.
        room = self._paint.width - 3
        end = self._paint.harmless(text[-(room * rows + SECRET_MARGIN) :])[-room * rows :]
        return wrapped(end.strip("\n"), room)[-rows:]

    # ------------------------------------------------------------------------------ output

    def _said(self, text: str, *, is_user: bool, steers: bool = False) -> None:
        symbols = self._paint.symbols
        mark = symbols.steer if steers else symbols.prompt
        style = "bold" if is_user else "dim"
        self._show("\n" + self._paint.marked(mark, self._paint.harmless(text), style))

    def _message(self, message: AssistantMessage) -> None:
        if not self._is_answering and not self._answer.rest and not self._reasoning:
            reasoning = [b.text for b in message.content if isinstance(b, Reasoning)]
            self._reasoning = "".join(reasoning)
            self._answer.feed(text_of(message.content))
        self._cut()

    def _cut(self) -> None:
        """Show what there is of an answer, and end it."""
        self._end_reasoning()
        rest = self._answer.finish()
        if rest.strip():
            self._answered(rest)
        self._is_answering = False

    def _answered(self, text: str) -> None:
        if not self._is_answering:
            self._show("\n")
        self._is_answering = True
        self._show(self._paint.markdown(text.strip("\n")))

    def _end_reasoning(self) -> None:
        text = self._reasoning.strip()
        self._reasoning = ""
        if not text:
            return
        self.last_reasoning = text
        if self._settings.reasoning == "hidden":
            return
        paint = self._paint
        shown = paint.harmless(text)
        if self._settings.reasoning == "folded":
            count = len(wrapped(shown, paint.width - 3))
            first = paint.line(text.partition("\n")[0], paint.width - 20)
            shown = f"{first} {paint.symbols.more} {count} lines" if count > 1 else first
        self._show("\n" + paint.marked(paint.symbols.thought, shown, "dim italic"))

    def show_reasoning(self) -> None:
        """Show the last reasoning in full."""
        if self.last_reasoning:
            shown = self._paint.harmless(self.last_reasoning)
            self._show("\n" + self._paint.marked(self._paint.symbols.thought, shown, "dim italic"))

    def _call(self, event: ToolCallEvent) -> None:
        self._calls[event.call_id] = RunningCall.of(event)
        if event.verdict == "allow" and event.judged_by is None and not self._was_warned:
            self._was_warned = True
            self.note("note: no permission plugin is on: tools run without asking")

    def _result(self, event: ToolResultEvent) -> None:
        call = self._calls.pop(event.call_id, None) or RunningCall("tool", "", "allow")
        self._show(result_of(call, event, self._paint, self._settings))

    def _failed(self, failure: ErrorEvent) -> None:
        self._cut()
        code = "" if failure.code in ("UNKNOWN", "CONFIG", "PLUGIN") else f"{failure.code}: "
        self.note(f"error: {code}{failure.message}", style="red")
        advice = remedy(failure.code)
        if advice is not None:
            self.note(advice)

    def _ended(self, reason: TurnEndReason) -> None:
        self._cut()
        self._calls.clear()
        match reason:
            case Completed() | Errored():
                return
            case LimitReached(message=text):
                self.note(f"stopped: {text}", style="yellow")
            case Aborted(reason=why):
                self.note(f"aborted{f': {why}' if why else ''}", style="yellow")
            case _ if reason.type != "disposed":
                self.note(f"the turn ended: {reason.type}", style="yellow")
