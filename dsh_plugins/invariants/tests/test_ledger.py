"""The rules, one by one: a log that keeps them passes, the event that breaks one is named."""

from __future__ import annotations

import pytest

from dsh_core import Event, EventData, Text, ToolCall, Usage
from dsh_core.events import (
    Aborted,
    ApprovalAsked,
    ApprovalDecided,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    MessageTrigger,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UsageEvent,
    UserMessage,
)
from dsh_invariants import InvariantError, Ledger
from dsh_invariants.ledger import check_status

TURN = TurnStart(1, MessageTrigger())
HELLO = UserMessage((Text("hello"),))
STEP = StepStart(1, 1)
CALLS = AssistantMessage(1, 1, (ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")))
ANSWER = AssistantMessage(1, 1, (Text("hi"),))


def called(call_id: str) -> EventData:
    return ToolCallEvent(1, 1, call_id, "t", "{}")


def result(call_id: str) -> EventData:
    return ToolResultEvent(1, 1, call_id, (Text("ok"),))


def play(*data: EventData) -> None:
    ledger, log = Ledger(), []
    for each in data:
        event = Event(len(log), 0.0, each)
        ledger.catch_up(log)
        ledger.check(event)
        log.append(event)


GOOD = {
    "an answer": (TURN, HELLO, STEP, ANSWER, UsageEvent(1, 1, Usage(1, 1)), StepEnd(1, 1),
                  TurnEnd(1, Completed())),
    "calls": (TURN, HELLO, STEP, CALLS, called("a"), called("b"), result("a"), result("b"),
              StepEnd(1, 1), StepStart(1, 2), StepEnd(1, 2), TurnEnd(1, Completed()),
              TurnStart(2, MessageTrigger())),
    "one after another": (TURN, STEP, CALLS, called("a"), result("a"), called("b"), result("b"),
                          StepEnd(1, 1)),
    "an approval": (TURN, STEP, CALLS, ApprovalAsked("q", "a", "t", "?"),
                    ApprovalDecided("q", allowed=True), called("a")),
    "an error": (TURN, STEP, ErrorEvent(1, 1, "no"), StepEnd(1, 1), TurnEnd(1, Errored("no"))),
    "a one-shot turn": (TURN, HELLO, TurnEnd(1, Completed())),
}  # fmt: skip


@pytest.mark.parametrize("log", GOOD.values(), ids=GOOD.keys())
def test_a_log_that_keeps_the_rules_passes(log: tuple[EventData, ...]) -> None:
    play(*log)


BAD = {
    "lies in no turn": (HELLO,),
    "turn 1 is open": (TURN, TurnStart(2, MessageTrigger())),
    "the next turn is 1, not 2": (TurnStart(2, MessageTrigger()),),
    "turn 1 is open, not 2": (TURN, TurnEnd(2, Completed())),
    "step 1 is open": (TURN, STEP, TurnEnd(1, Completed())),
    "the next step is 1.1": (TURN, StepStart(1, 2)),
    "step 1.1 is open": (TURN, STEP, StepEnd(1, 2)),
    "belongs to step 1.1": (TURN, ANSWER),
    "the step has its reply already": (TURN, STEP, ANSWER, ANSWER),
    "the reply's next call is a, not b": (TURN, STEP, CALLS, called("b")),
    "the reply's next call is none": (TURN, STEP, ANSWER, called("a")),
    "no logged call a waits": (TURN, STEP, CALLS, result("a")),
    "no logged call b waits": (TURN, STEP, CALLS, called("a"), result("a"), result("b")),
    "calls without a result: a, b": (TURN, STEP, CALLS, called("a"), StepEnd(1, 1)),
    "nothing was asked as q": (TURN, STEP, CALLS, ApprovalDecided("q", allowed=True)),
    "has an error already": (TURN, ErrorEvent(1, 0, "no"), ErrorEvent(1, 0, "no")),
    "it cannot end aborted": (TURN, ErrorEvent(1, 0, "no"), TurnEnd(1, Aborted())),
}


@pytest.mark.parametrize(("words", "log"), BAD.items(), ids=BAD.keys())
def test_the_event_that_breaks_a_rule_is_refused(words: str, log: tuple[EventData, ...]) -> None:
    play(*log[:-1])

    with pytest.raises(InvariantError) as error:
        play(*log)
    assert words in str(error.value)
    assert log[-1].type in str(error.value)


def test_sequence_numbers_have_no_gaps() -> None:
    with pytest.raises(InvariantError, match="seq must be 0"):
        Ledger().check(Event(1, 0.0, TURN))


@pytest.mark.parametrize(
    ("before", "after"), [("idle", "idle"), ("disposed", "idle"), ("running", "running")]
)
def test_a_status_that_cannot_follow_is_refused(before: str, after: str) -> None:
    check_status("idle", "running")
    check_status("running", "disposed")

    with pytest.raises(InvariantError):
        check_status(before, after)
