"""Closing what a crash left open: results for calls without one, then step and turn."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_core.content import Text, ToolCall
from dsh_core.events import (
    AssistantMessage,
    Event,
    EventData,
    Interrupted,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)

NOT_STARTED = "TOOL_NOT_STARTED"
OUTCOME_UNKNOWN = "TOOL_OUTCOME_UNKNOWN"
_TEXTS = {
    NOT_STARTED: "Error: the session was interrupted before this call started; it did not run.",
    OUTCOME_UNKNOWN: (
        "Error: the session was interrupted while this call ran; whether it took effect is not "
        "known. Check before you repeat it."
    ),
}


def missing_result(turn: int, step: int, call_id: str, *, started: bool) -> ToolResultEvent:
    """Return the result of a call that an interruption left without one."""
    code = OUTCOME_UNKNOWN if started else NOT_STARTED
    return ToolResultEvent(turn, step, call_id, (Text(_TEXTS[code]),), is_error=True, code=code)


def closers(events: Sequence[Event]) -> list[EventData]:
    """Return the events that close the turn in which `events` ends; none when it is closed."""
    start = _open_turn_start(events)
    if start is None:
        return []
    turn = 0
    step: int | None = None
    calls: list[str] = []
    started: list[str] = []
    for event in events[start:]:
        match event.data:
            case TurnStart() as data:
                turn = data.turn
            case StepStart() as data:
                step, calls, started = data.step, [], []
            case StepEnd():
                step, calls = None, []
            case AssistantMessage(content=content, replaces=None):
                calls = [block.id for block in content if isinstance(block, ToolCall)]
            case ToolCallEvent(call_id=call_id, verdict="allow"):
                started.append(call_id)
            case ToolResultEvent(call_id=call_id, replaces=None) if call_id in calls:
                calls.remove(call_id)
                if call_id in started:
                    started.remove(call_id)
    closing: list[EventData] = []
    if step is not None:
        for call_id in calls:
            was_started = call_id in started
            if was_started:
                started.remove(call_id)
            closing.append(missing_result(turn, step, call_id, started=was_started))
        closing.append(StepEnd(turn, step))
    closing.append(TurnEnd(turn, Interrupted()))
    return closing


def _open_turn_start(events: Sequence[Event]) -> int | None:
    for index in range(len(events) - 1, -1, -1):
        match events[index].data:
            case TurnEnd():
                return None
            case TurnStart():
                return index
    return None
