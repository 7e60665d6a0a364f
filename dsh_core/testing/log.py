"""The session log in tests: is it balanced, and how does it read on one line per event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dsh_core.chunks import Finish
from dsh_core.content import ToolCall
from dsh_core.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Errored,
    ErrorEvent,
    Event,
    EventData,
    Interrupted,
    LlmRetry,
    RequestHeader,
    RequestMessages,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UsageEvent,
)
from dsh_core.testing.log_text import render_log

CONTEXT_EVENTS = 20
"""How much of the log a failure shows before and after the offending event."""

_IN_STEP = (
    RequestHeader,
    RequestMessages,
    AssistantChunk,
    AssistantMessage,
    UsageEvent,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    LlmRetry,
)


def assert_balanced(events: Sequence[Event]) -> None:
    """Raise `AssertionError` at the first event that breaks the contract of a session log.

    The contract: `seq` counts on by one; every event lies inside a turn; turns count on by one
    and from 1 within a whole log, steps from 1 within their turn; both close, the step first;
    what belongs to a step bears its numbers and lies inside it; a step has one assistant message
    and no chunk after it; nothing streams after `finish` unless a retry begins; the calls of the
    message get exactly one result each, in the model's order, before the step ends, and a result
    that is no error was allowed before; an approval is asked before it is decided, and decided
    once; a turn has at most one `error`, and ends with reason `error` then, and only then,
    unless it was interrupted.

    Events that replace earlier ones (`replaces`) are exempt from the rules of steps. Works on a
    tail of a log too: numbers then count on from the first.

    The failure shows rule, event and the log around it.
    """
    reader = _Reader(whole=not events or events[0].seq == 0)
    for index, event in enumerate(events):
        if index and event.seq != events[index - 1].seq + 1:
            _fail(events, index, f"seq follows {events[index - 1].seq}")
        problem = reader.read(event.data)
        if problem is not None:
            _fail(events, index, problem)
    if reader.turn is not None:
        _fail(events, len(events) - 1, f"the log ends inside turn {reader.turn.number}")


def _fail(events: Sequence[Event], index: int, problem: str) -> None:
    start = max(0, index - CONTEXT_EVENTS)
    shown = events[start : index + CONTEXT_EVENTS + 1]
    lines = render_log(shown).split("\n")
    marked = [f"{'>' if start + i == index else ' '} {line}" for i, line in enumerate(lines)]
    event = events[index]
    raise AssertionError("\n".join([f"event {event.seq} {event.type}: {problem}", *marked]))


@dataclass(slots=True)
class _Turn:
    number: int
    steps: int = 0
    error: ErrorEvent | None = None


@dataclass(slots=True)
class _Step:
    number: int
    finished: bool = False
    replied: bool = False
    calls: list[str] = field(default_factory=list)
    judged: dict[int, str] = field(default_factory=dict)
    results: int = 0


class _Reader:
    """Follows a log event by event; `read` returns what is wrong with the next one."""

    def __init__(self, *, whole: bool):
        self.turn: _Turn | None = None
        self._step: _Step | None = None
        self._last_turn: int | None = 0 if whole else None
        self._approvals: dict[str, bool] = {}

    def read(self, data: EventData) -> str | None:
        if isinstance(data, TurnStart):
            return self._turn_start(data)
        if self.turn is None:
            return "lies outside every turn"
        if isinstance(data, _IN_STEP) and getattr(data, "replaces", None) is None:
            return self._outside_step(data) or self._in_step(data)
        match data:
            case TurnEnd():
                return self._turn_end(data)
            case StepStart():
                return self._step_start(data)
            case StepEnd():
                return self._step_end(data)
            case ErrorEvent() | SteeringMessage():
                return self._in_turn(data)
            case ApprovalAsked() | ApprovalDecided():
                return self._approval(data)
        return None

    # ----------------------------------------------------------------------------- turns

    def _turn_start(self, data: TurnStart) -> str | None:
        if self.turn is not None:
            return f"turn {self.turn.number} is still open"
        if self._last_turn is not None and data.turn != self._last_turn + 1:
            return f"turn {data.turn} follows turn {self._last_turn}"
        self.turn = _Turn(data.turn)
        self._last_turn = data.turn
        return None

    def _turn_end(self, data: TurnEnd) -> str | None:
        turn = self.turn
        assert turn is not None
        if data.turn != turn.number:
            return f"ends turn {data.turn} while turn {turn.number} is open"
        if self._step is not None:
            return f"step {self._step.number} is still open"
        if turn.error is None and isinstance(data.reason, Errored):
            return "the reason is error, but the turn has no error event"
        if turn.error is not None and not isinstance(data.reason, (Errored, Interrupted)):
            return f"the reason is {data.reason.type}, but the turn has an error event"
        self.turn = None
        return None

    def _in_turn(self, data: ErrorEvent | SteeringMessage) -> str | None:
        turn = self.turn
        assert turn is not None
        if data.turn != turn.number:
            return f"bears turn {data.turn} inside turn {turn.number}"
        if isinstance(data, ErrorEvent):
            if turn.error is not None:
                return "the turn has an error already"
            turn.error = data
        return None

    # ----------------------------------------------------------------------------- steps

    def _step_start(self, data: StepStart) -> str | None:
        turn = self.turn
        assert turn is not None
        if self._step is not None:
            return f"step {self._step.number} is still open"
        if (data.turn, data.step) != (turn.number, turn.steps + 1):
            return f"expected turn {turn.number} step {turn.steps + 1}"
        turn.steps += 1
        self._step = _Step(data.step)
        return None

    def _step_end(self, data: StepEnd) -> str | None:
        if (outside := self._outside_step(data)) is not None:
            return outside
        step = self._step
        assert step is not None
        if left := step.calls[step.results :]:
            return f"no result for {', '.join(left)}"
        self._step = None
        return None

    def _outside_step(self, data: EventData) -> str | None:
        assert self.turn is not None
        if self._step is None:
            return "lies outside every step"
        found = (getattr(data, "turn", None), getattr(data, "step", None))
        expected = (self.turn.number, self._step.number)
        if found != expected:
            return f"bears {found[0]}.{found[1]} inside {expected[0]}.{expected[1]}"
        return None

    def _in_step(self, data: EventData) -> str | None:
        step = self._step
        assert step is not None
        match data:
            case AssistantChunk():
                if step.replied:
                    return "streams after the assistant message of its step"
                if step.finished:
                    return "streams after finish"
                step.finished = isinstance(data.chunk, Finish)
            case LlmRetry():
                step.finished = False
            case AssistantMessage():
                if step.replied:
                    return "is the second assistant message of its step"
                step.replied = True
                step.calls = [block.id for block in data.content if isinstance(block, ToolCall)]
            case ToolCallEvent():
                return _judged(step, data)
            case ToolProgress():
                if data.call_id not in step.calls[step.results :]:
                    return f"progress of {data.call_id}, which is not running"
            case ToolResultEvent():
                return _result(step, data)
        return None

    # ------------------------------------------------------------------------- approvals

    def _approval(self, data: ApprovalAsked | ApprovalDecided) -> str | None:
        decided = self._approvals.get(data.approval_id)
        if isinstance(data, ApprovalAsked):
            if decided is not None:
                return f"{data.approval_id} was asked already"
            self._approvals[data.approval_id] = False
            return None
        if decided is None:
            return f"{data.approval_id} was never asked"
        if decided:
            return f"{data.approval_id} was decided already"
        self._approvals[data.approval_id] = True
        return None


def _judged(step: _Step, data: ToolCallEvent) -> str | None:
    """Calls are judged in the model's order, each before its result; some never are."""
    start = max([step.results, *(position + 1 for position in step.judged)])
    if data.call_id not in step.calls[start:]:
        return f"{data.call_id} is not among the calls still to come: {step.calls[start:]}"
    step.judged[step.calls.index(data.call_id, start)] = data.verdict
    return None


def _result(step: _Step, data: ToolResultEvent) -> str | None:
    if step.results >= len(step.calls):
        return f"no call waits for {data.call_id}"
    expected = step.calls[step.results]
    if data.call_id != expected:
        return f"the next result in the model's order is that of {expected}, not {data.call_id}"
    verdict = step.judged.get(step.results, "never judged")
    if not data.is_error and verdict != "allow":
        return f"{data.call_id} succeeded, but its verdict is: {verdict}"
    step.results += 1
    return None
