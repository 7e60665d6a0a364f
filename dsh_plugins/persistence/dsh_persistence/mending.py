"""Making a log whole again of the events that could be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dsh_core import Event, EventData, ToolCall, closers
from dsh_core.events import (
    AssistantMessage,
    RecordTrigger,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)

LABEL = "dsh sessions repair"


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair came to.

    Args:
        kept_as: Where the session stands as it was; None = nothing was wrong.
        events: How many events the session has now.
        lost: What could not be read, and where.
    """

    kept_as: str | None
    events: int
    lost: tuple[str, ...]


def mend(events: Iterable[Event]) -> list[Event]:
    """Return events numbered anew, each in a turn; turns and steps begin and end.

    What a lost event would have begun is begun before the first that needs it, and ended as after
    a crash. A message that replaced others stays beside them where they are lost.
    """
    mending = _Mending()
    for event in events:
        mending.take(event)
    return mending.events


class _Mending:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers: dict[int, int] = {}
        self._turn: int | None = None
        self._step: int | None = None
        self._was = (0, 0)
        self._owed: list[ToolCall] = []
        self._called: list[str] = []
        self._last_turn = 0
        self._last_step = 0
        self._time = 0.0

    def take(self, event: Event) -> None:
        self._time = event.time
        data: Any = event.data
        self._leave(getattr(data, "turn", 0), getattr(data, "step", 0))
        match data:
            case TurnStart(trigger=trigger):
                self._end_turn()
                self._start_turn(TurnStart(0, trigger), event.seq)
                return
            case TurnEnd():
                if self._turn is not None:
                    self._end_step()
                    self._add(replace(data, turn=self._turn), event.seq)
                    self._turn = None
                return
        if self._turn is None:
            self._start_turn(TurnStart(0, RecordTrigger(LABEL)))
        match data:
            case StepStart():
                self._end_step()
                self._step = self._last_step + 1
            case StepEnd():
                self._end_step()
                return
            case ToolCallEvent() | ToolResultEvent() if not self._is_owed(data):
                return  # the reply that asked for it is lost
            case _ if self._step is None and getattr(data, "step", 0) > 0:
                self._step = self._last_step + 1
                self._add(StepStart(self._turn or 0, self._step))
        if isinstance(data, ToolResultEvent) and data.replaces is None:
            self._settle(data)
        self._add(self._placed(data), event.seq)
        if isinstance(data, AssistantMessage) and data.replaces is None:
            self._owed = [block for block in data.content if isinstance(block, ToolCall)]
            self._called = []
        elif isinstance(data, ToolCallEvent):
            self._called.append(data.call_id)

    def _is_owed(self, data: ToolCallEvent | ToolResultEvent) -> bool:
        """Whether a call, or its result, answers the reply before it."""
        if isinstance(data, ToolResultEvent) and data.replaces is not None:
            return True
        ids = [block.id for block in self._owed]
        if isinstance(data, ToolCallEvent):
            return ids.count(data.call_id) > self._called.count(data.call_id)
        return data.call_id in ids

    def _settle(self, result: ToolResultEvent) -> None:
        """Take a call for answered; where its own event is lost, the reply has what it said."""
        block = next(block for block in self._owed if block.id == result.call_id)
        self._owed.remove(block)
        if block.id in self._called:
            self._called.remove(block.id)
        else:
            turn, step = self._turn or 0, self._step or 0
            self._add(ToolCallEvent(turn, step, block.id, block.name, block.arguments))

    def _leave(self, turn: int, step: int) -> None:
        """End the turn and the step that an event says it does not stand in."""
        was_turn, was_step = self._was
        if self._turn is not None and turn and was_turn and turn != was_turn:
            self._end_turn()
        elif self._step is not None and step and was_step and step != was_step:
            self._end_step()
        self._was = (turn or was_turn, step or was_step)

    def _placed(self, data: EventData) -> EventData:
        """Return an event's data with the turn and step it stands in now."""
        changes: dict[str, Any] = {}
        if hasattr(data, "turn"):
            changes["turn"] = self._turn
        if hasattr(data, "step") and self._step is not None:
            changes["step"] = self._step
        replaces = getattr(data, "replaces", None)
        if replaces is not None:
            first, last = (self._numbers.get(seq) for seq in replaces)
            changes["replaces"] = None if first is None or last is None else (first, last)
        return replace(data, **changes) if changes else data  # type: ignore[type-var]

    def _start_turn(self, data: TurnStart, seq: int | None = None) -> None:
        self._last_turn += 1
        self._last_step = 0
        self._turn = self._last_turn
        self._add(replace(data, turn=self._turn), seq)

    def _end_turn(self) -> None:
        if self._turn is not None:
            for data in closers(self.events):
                self._add(data)
            self._turn = self._step = None
            self._owed = []

    def _end_step(self) -> None:
        """End the open step; calls without a result get one that says so."""
        if self._step is None:
            return
        for data in closers(self.events):
            if isinstance(data, (ToolResultEvent, StepEnd)):
                self._add(data)
        self._last_step, self._step = self._step, None
        self._owed = []

    def _add(self, data: EventData, seq: int | None = None) -> None:
        if seq is not None:
            self._numbers[seq] = len(self.events)
        self.events.append(Event(len(self.events), self._time, data))
