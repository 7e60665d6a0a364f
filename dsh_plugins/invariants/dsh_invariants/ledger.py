"""What the log says is open, and which events may come next. Imports no pluggy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dsh_core import Event, HarnessError, ToolCall
from dsh_core.events import (
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Errored,
    ErrorEvent,
    Interrupted,
    LlmRetry,
    RequestHeader,
    RequestMessages,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UsageEvent,
)

_IN_STEP = (
    AssistantChunk,
    AssistantMessage,
    LlmRetry,
    RequestHeader,
    RequestMessages,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    UsageEvent,
)
_STREAM = (AssistantChunk, LlmRetry, RequestHeader, RequestMessages)
_NEXT_STATUS = {"idle": ("running", "disposed"), "running": ("idle", "disposed"), "disposed": ()}


class InvariantError(HarnessError):
    """A broken rule; says which and where."""


@dataclass(slots=True)
class Ledger:
    """A fold of one session's log, for checking the event that comes next."""

    seen: int = 0
    turn: int | None = None
    step: int | None = None
    last_turn: int = 0
    last_step: int = 0
    has_reply: bool = False
    has_error: bool = False
    unlogged: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def catch_up(self, events: Sequence[Event]) -> None:
        """Take the events that were appended since."""
        while self.seen < len(events):
            self._take(events[self.seen])
            self.seen += 1

    def check(self, event: Event) -> None:
        """Raise `InvariantError` when the event must not come next."""
        problem = self._problem(event)
        if problem:
            raise InvariantError(f"event {event.seq} {event.type}: {problem}")

    def _problem(self, event: Event) -> str | None:
        data = event.data
        if event.seq != self.seen:
            return f"seq must be {self.seen}"
        if isinstance(data, TurnStart):
            return self._turn_start(data)
        if self.turn is None:
            return "lies in no turn"
        if isinstance(data, _IN_STEP) and not _is_replacement(data):
            return self._in_step(data)
        match data:
            case TurnEnd():
                return self._turn_end(data)
            case StepStart():
                return self._step_start(data)
            case StepEnd():
                return self._step_end(data)
            case ErrorEvent() if self.has_error:
                return "the turn has an error already"
            case ApprovalDecided(approval_id=asked) if asked not in self.asked:
                return f"nothing was asked as {asked}"
        return None

    def _turn_start(self, data: TurnStart) -> str | None:
        if self.turn is not None:
            return f"turn {self.turn} is open"
        if data.turn != self.last_turn + 1:
            return f"the next turn is {self.last_turn + 1}, not {data.turn}"
        return None

    def _turn_end(self, data: TurnEnd) -> str | None:
        if data.turn != self.turn:
            return f"turn {self.turn} is open, not {data.turn}"
        if self.step is not None:
            return f"step {self.step} is open"
        if self.has_error and not isinstance(data.reason, (Errored, Interrupted)):
            return f"the turn has an error, so it cannot end {data.reason.type}"
        return None

    def _step_start(self, data: StepStart) -> str | None:
        if self.step is not None:
            return f"step {self.step} is open"
        if (data.turn, data.step) != (self.turn, self.last_step + 1):
            return f"the next step is {self.turn}.{self.last_step + 1}"
        return None

    def _step_end(self, data: StepEnd) -> str | None:
        if (data.turn, data.step) != (self.turn, self.step):
            return f"step {self.turn}.{self.step} is open"
        if self.unanswered or self.unlogged:
            return f"calls without a result: {', '.join([*self.unanswered, *self.unlogged])}"
        return None

    def _in_step(self, data: object) -> str | None:
        place = (getattr(data, "turn", None), getattr(data, "step", None))
        if self.step is None or place != (self.turn, self.step):
            return f"belongs to step {place[0]}.{place[1]}, open is {self.turn}.{self.step}"
        if self.has_reply and isinstance(data, (*_STREAM, AssistantMessage)):
            return "the step has its reply already"
        match data:
            case ToolCallEvent(call_id=call_id) if self.unlogged[:1] != [call_id]:
                wanted = self.unlogged[0] if self.unlogged else "none"
                return f"the reply's next call is {wanted}, not {call_id}"
            case ToolResultEvent(call_id=call_id, is_error=is_error):
                # A call that a plugin kept out of the log still gets its error result.
                waiting = [*self.unanswered, *(self.unlogged if is_error else ())]
                if call_id not in waiting:
                    return f"no logged call {call_id} waits for a result"
        return None

    def _take(self, event: Event) -> None:
        match event.data:
            case TurnStart(turn=turn):
                self.turn = self.last_turn = turn
                self.step, self.last_step, self.has_error = None, 0, False
            case TurnEnd():
                self.turn = None
                self.asked.clear()
            case StepStart(step=step):
                self.step = self.last_step = step
                self.has_reply = False
                self.unlogged, self.unanswered = [], []
            case StepEnd():
                self.step = None
            case AssistantMessage(content=content, interrupted=interrupted, replaces=None):
                self.has_reply = True
                if not interrupted:
                    self.unlogged = [b.id for b in content if isinstance(b, ToolCall)]
            case ToolCallEvent(call_id=call_id):
                if call_id in self.unlogged:
                    self.unlogged.remove(call_id)
                self.unanswered.append(call_id)
            case ToolResultEvent(call_id=call_id, replaces=None):
                for waiting in (self.unanswered, self.unlogged):
                    if call_id in waiting:
                        waiting.remove(call_id)
                        break
            case ErrorEvent():
                self.has_error = True
            case ApprovalAsked(approval_id=asked):
                self.asked.add(asked)
            case ApprovalDecided(approval_id=asked):
                self.asked.discard(asked)


def _is_replacement(data: object) -> bool:
    """Whether an event only stands in for an older one."""
    return getattr(data, "replaces", None) is not None


def check_status(before: str, after: str) -> None:
    """Raise `InvariantError` for a change of an agent's status that cannot be."""
    if after not in _NEXT_STATUS[before]:
        raise InvariantError(f"an agent that is {before} cannot become {after}")
