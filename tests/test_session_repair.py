"""What a crash left open is closed: results for calls without one, then step and turn."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core import Event, Session, SessionHeader
from dsh_core.content import Text, ToolCall
from dsh_core.events import (
    AssistantMessage,
    Completed,
    EventData,
    Interrupted,
    MessageTrigger,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.session import closers
from dsh_core.testing.hooks import HookLab
from dsh_core.testing.log import assert_balanced

START, STEP = TurnStart(1, MessageTrigger()), StepStart(1, 1)
STEP_END, END = StepEnd(1, 1), TurnEnd(1, Completed())
USER = UserMessage((Text("hi"),))


def reply(*ids: str) -> AssistantMessage:
    return AssistantMessage(1, 1, tuple(ToolCall(call_id, "read", "{}") for call_id in ids))


def called(call_id: str, verdict: str = "allow") -> ToolCallEvent:
    return ToolCallEvent(1, 1, call_id, "read", "{}", verdict)


def result(call_id: str) -> ToolResultEvent:
    return ToolResultEvent(1, 1, call_id, (Text("r"),))


def as_events(*data: EventData) -> list[Event]:
    return [Event(index, float(index), one) for index, one in enumerate(data)]


def closed(*data: EventData) -> list[Any]:
    """What closes these events: the codes of results, and the names of the others."""
    return [
        (d.call_id, d.code.removeprefix("TOOL_") if d.code else None)
        if isinstance(d, ToolResultEvent)
        else d.type
        for d in closers(as_events(*data))
    ]


@pytest.mark.parametrize(
    ("events", "closing"),
    [
        ([], []),
        ([START, USER, END], []),
        ([START], ["turn/end"]),
        ([START, USER], ["turn/end"]),
        ([START, USER, STEP], ["step/end", "turn/end"]),
        ([START, USER, STEP, reply()], ["step/end", "turn/end"]),
        ([START, USER, STEP, reply("a"), called("a"), result("a"), STEP_END], ["turn/end"]),
        (
            [START, STEP, reply("a", "b"), called("a")],
            [("a", "OUTCOME_UNKNOWN"), ("b", "NOT_STARTED"), "step/end", "turn/end"],
        ),
        (
            [START, STEP, reply("a", "b"), called("a"), called("b"), result("a")],
            [("b", "OUTCOME_UNKNOWN"), "step/end", "turn/end"],
        ),
        # a denied call did not run, whenever the crash came
        (
            [START, STEP, reply("a"), called("a", "deny")],
            [("a", "NOT_STARTED"), "step/end", "turn/end"],
        ),
        # one id, three calls: the first is answered, the second started
        (
            [START, STEP, reply("0", "0", "0"), called("0"), result("0"), called("0")],
            [("0", "OUTCOME_UNKNOWN"), ("0", "NOT_STARTED"), "step/end", "turn/end"],
        ),
        # a replacement in the middle of a step is no reply and no result of it
        (
            [
                START,
                USER,
                STEP,
                reply("a"),
                called("a"),
                AssistantMessage(1, 1, (Text("short"),), replaces=(1, 1)),
            ],
            [("a", "OUTCOME_UNKNOWN"), "step/end", "turn/end"],
        ),
        # only the last turn is looked at
        ([START, END, TurnStart(2, MessageTrigger())], ["turn/end"]),
    ],
)
def test_an_open_turn_is_closed(events: list[EventData], closing: list[Any]) -> None:
    assert closed(*events) == closing


def test_a_session_that_is_cut_anywhere_is_whole_again() -> None:
    whole = as_events(
        START,
        USER,
        STEP,
        reply("a", "b"),
        called("a"),
        result("a"),
        called("b"),
        result("b"),
        STEP_END,
        END,
    )
    for cut in range(len(whole) + 1):
        log = Session(SessionHeader("s1", 0.0), HookLab().hooks, seed=whole[:cut])

        assert_balanced(log.events)
        assert list(log.events)[:cut] == whole[:cut]
        assert len(closers(log.events)) == 0
        if 0 < cut < len(whole):
            assert log.events[-1].data == TurnEnd(1, Interrupted())
            assert {event.time for event in log.events[cut:]} == {whole[cut - 1].time}


def test_the_texts_tell_the_model_what_to_do() -> None:
    lost, unstarted = (
        data
        for data in closers(as_events(START, STEP, reply("a", "b"), called("a")))
        if isinstance(data, ToolResultEvent)
    )

    assert "Check before you repeat it" in str(lost.content)
    assert "it did not run" in str(unstarted.content)
    assert lost.is_error
    assert unstarted.is_error
