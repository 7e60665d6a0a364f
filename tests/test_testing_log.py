import pytest

from dsh_core.chunks import Finish, TextDelta, Usage, UsageChunk
from dsh_core.content import Image, Reasoning, Text, ToolCall
from dsh_core.events import (
    Aborted,
    ApprovalAsked,
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    Event,
    EventData,
    Interrupted,
    LlmRetry,
    MaintenanceTrigger,
    MessageTrigger,
    RequestHeader,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UnknownEvent,
    UsageEvent,
    UserMessage,
)
from dsh_core.request import ToolSchema
from dsh_core.testing.log import assert_balanced, render_log

START = TurnStart(1, MessageTrigger())
END = TurnEnd(1, Completed())
STEP = StepStart(1, 1)
STEP_END = StepEnd(1, 1)
HI = UserMessage((Text("hi"),), message_id="0a1b")


def log(*data: EventData, first: int = 0) -> list[Event]:
    return [Event(first + index, 1700000000.5 + index, item) for index, item in enumerate(data)]


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage(1, 1, tuple(ToolCall(call_id, "read", "{}") for call_id in ids))


def judged(call_id: str, verdict: str = "allow") -> ToolCallEvent:
    return ToolCallEvent(1, 1, call_id, "read", "{}", verdict)


def result(call_id: str, *, is_error: bool = False) -> ToolResultEvent:
    return ToolResultEvent(1, 1, call_id, (Text("ok"),), is_error)


def in_step(*data: EventData) -> list[Event]:
    return log(START, STEP, *data, STEP_END, END)


BALANCED = {
    "an empty log": [],
    "a turn that called tools": log(
        START,
        HI,
        STEP,
        RequestHeader(1, 1, "m/x", "", (), {}),
        AssistantChunk(1, 1, TextDelta(0, "a")),
        AssistantChunk(1, 1, UsageChunk(Usage(1))),
        AssistantChunk(1, 1, Finish("tool-calls")),
        calls("a", "b", "c"),
        UsageEvent(1, 1, Usage(1)),
        judged("a"),
        judged("b"),
        ToolProgress(1, 1, "b", "half"),
        result("a"),
        result("b"),
        ApprovalAsked("p", "c", "read", "may I?"),
        ApprovalDecided("p", False),
        judged("c", "deny"),
        result("c", is_error=True),
        STEP_END,
        SteeringMessage(1, (Text("wait"),)),
        StepStart(1, 2),
        StepEnd(1, 2),
        END,
        TurnStart(2, MessageTrigger()),
        TurnEnd(2, Aborted()),
    ),
    "a call that was aborted before it was judged": in_step(
        calls("a", "b"), judged("a"), result("a"), result("b", is_error=True)
    ),
    "two calls with one id": in_step(
        calls("a", "a"), judged("a"), judged("a"), result("a"), result("a")
    ),
    "a retry after a failed stream": in_step(
        AssistantChunk(1, 1, Finish("error")),
        LlmRetry(1, 1, 1, 0.5, "SERVER", "500"),
        AssistantChunk(1, 1, TextDelta(0, "a")),
    ),
    "an error and its reason": log(START, ErrorEvent(1, 0, "no"), TurnEnd(1, Errored("no"))),
    "a crash after an error": log(START, ErrorEvent(1, 0, "no"), TurnEnd(1, Interrupted())),
    "the tail of a log": log(TurnStart(7, MessageTrigger()), TurnEnd(7, Completed()), first=90),
    "a pruned result in a turn of its own": log(
        TurnStart(1, MaintenanceTrigger("prune")),
        ToolResultEvent(9, 9, "old", (Text("short"),), replaces=(3, 3)),
        END,
    ),
    "an event of a plugin that is gone": log(START, UnknownEvent("x/y", {"turn": 4}), END),
}


@pytest.mark.parametrize("events", BALANCED.values(), ids=BALANCED)
def test_a_balanced_log_passes(events):
    assert_balanced(events)


BROKEN = {
    "lies outside every turn": (0, log(HI)),
    "turn 1 is still open": (1, log(START, TurnStart(2, MessageTrigger()))),
    "turn 3 follows turn 1": (2, log(START, END, TurnStart(3, MessageTrigger()))),
    "turn 2 follows turn 0": (0, log(TurnStart(2, MessageTrigger()))),
    "ends turn 2 while turn 1 is open": (1, log(START, TurnEnd(2, Completed()))),
    "the log ends inside turn 1": (1, log(START, HI)),
    "seq follows 0": (1, [*log(START), *log(END, first=2)]),
    "step 1 is still open": (2, log(START, STEP, END)),
    "expected turn 1 step 1": (1, log(START, StepStart(1, 2))),
    "bears 1.2 inside 1.1": (2, log(START, STEP, StepEnd(1, 2))),
    "lies outside every step": (1, log(START, UsageEvent(1, 1, Usage()))),
    "bears 2.1 inside 1.1": (2, in_step(UsageEvent(2, 1, Usage()))),
    "bears turn 2 inside turn 1": (1, log(START, SteeringMessage(2, (Text("x"),)))),
    "no result for b": (5, in_step(calls("a", "b"), judged("a"), result("a"))),
    "the next result in the model's order is that of a, not b": (
        5,
        in_step(calls("a", "b"), judged("a"), judged("b"), result("b")),
    ),
    "no call waits for a": (5, in_step(calls("a"), judged("a"), result("a"), result("a"))),
    "a succeeded, but its verdict is: deny": (
        4,
        in_step(calls("a"), judged("a", "deny"), result("a")),
    ),
    "a succeeded, but its verdict is: never judged": (3, in_step(calls("a"), result("a"))),
    "a is not among the calls still to come: []": (
        4,
        in_step(calls("a"), judged("a"), judged("a")),
    ),
    "x is not among the calls still to come: ['a']": (3, in_step(calls("a"), judged("x"))),
    "progress of a, which is not running": (
        5,
        in_step(calls("a"), judged("a"), result("a"), ToolProgress(1, 1, "a", "x")),
    ),
    "is the second assistant message of its step": (3, in_step(calls(), calls())),
    "streams after the assistant message of its step": (
        3,
        in_step(calls(), AssistantChunk(1, 1, TextDelta(0, "x"))),
    ),
    "streams after finish": (
        3,
        in_step(AssistantChunk(1, 1, Finish("stop")), AssistantChunk(1, 1, UsageChunk(Usage()))),
    ),
    "the turn has an error already": (
        2,
        log(START, ErrorEvent(1, 0, "a"), ErrorEvent(1, 0, "b")),
    ),
    "the reason is error, but the turn has no error event": (
        1,
        log(START, TurnEnd(1, Errored("x"))),
    ),
    "the reason is completed, but the turn has an error event": (
        2,
        log(START, ErrorEvent(1, 0, "a"), END),
    ),
    "p was never asked": (1, log(START, ApprovalDecided("p", True))),
    "p was asked already": (
        2,
        log(START, ApprovalAsked("p", "a", "read", ""), ApprovalAsked("p", "a", "read", "")),
    ),
    "p was decided already": (
        3,
        log(
            START,
            ApprovalAsked("p", "a", "read", ""),
            ApprovalDecided("p", True),
            ApprovalDecided("p", True),
        ),
    ),
}


@pytest.mark.parametrize(("problem", "where"), BROKEN.items(), ids=BROKEN)
def test_a_broken_log_is_refused_at_the_event_that_breaks_it(problem, where):
    index, events = where

    with pytest.raises(AssertionError) as failure:
        assert_balanced(events)

    first, *shown = str(failure.value).split("\n")
    assert first == f"event {events[index].seq} {events[index].type}: {problem}"
    assert [line[0] for line in shown].index(">") == index


def test_a_failure_shows_only_what_is_near():
    many = [UserMessage((Text(f"line {n}"),)) for n in range(100)]

    with pytest.raises(AssertionError) as failure:
        assert_balanced(log(START, *many, STEP_END, *many, END))

    shown = str(failure.value)
    assert '"line 99"' in shown
    assert '"line 0"' in shown
    assert '"line 50"' not in shown


def test_a_log_reads_one_line_per_event_without_times_and_raw_ids():
    events = log(
        START,
        HI,
        STEP,
        RequestHeader(1, 1, "m/x", "Be brief.", (ToolSchema("read", "Read.", {}),), {"n": 1}),
        AssistantChunk(1, 1, TextDelta(0, "a")),
        AssistantMessage(
            1, 1, (Reasoning("hm"), Text("I\nread"), ToolCall("z9", "read", '{"path": "a\n"}'))
        ),
        ToolCallEvent(1, 1, "z9", "read", '{"path": "a"}'),
        ToolResultEvent(1, 1, "z9", (Text("no"), Image("image/png", "QUJD")), True, "FS"),
        LlmRetry(1, 1, 2, 0.731, "SERVER", "500"),
        STEP_END,
        UnknownEvent("todo/write", {"turn": 1, "item_id": "q", "items": ["a", {"b": 1}]}),
        UserMessage((Text("again"),), message_id="0a1b"),
        TurnEnd(1, Errored("broke", "SERVER")),
    )

    assert render_log(events) == "\n".join(
        [
            "  0 turn/start 1 trigger=message",
            '  1 user/message "hi" message_id=message-1',
            "  2 step/start 1.1",
            '  3 request/header 1.1 model="m/x" system="Be brief." tools=[read] parameters={n=1}',
            '  4 assistant/chunk 1.1 text-delta(index=0 text="a")',
            '  5 assistant/message 1.1 thought "hm" "I\\nread" call-1 read({"path": "a\\n"})',
            '  6 tool/call 1.1 call_id=call-1 name="read" arguments={"path": "a"}',
            '  7 tool/result 1.1 call_id=call-1 "no" image/png[4] is_error=true code="FS"',
            '  8 llm/retry 1.1 attempt=2 delay_seconds=~ code="SERVER" message="500"',
            "  9 step/end 1.1",
            ' 10 todo/write 1 item_id=item-1 items=["a" {b=1}]',
            ' 11 user/message "again" message_id=message-1',
            ' 12 turn/end 1 reason=error(message="broke" code="SERVER")',
        ]
    )


def test_text_is_replaced_before_it_is_cut():
    short, long = "/t/1", "/temporary/folder/of/this/run"

    rendered = [
        render_log(log(UserMessage((Text(f"{path}/file {'x' * 80}"),))), replace={path: "<cwd>"})
        for path in (short, long)
    ]

    assert rendered[0] == rendered[1]
    assert "<cwd>/file" in rendered[0]


@pytest.mark.parametrize("breaker", ["\n", "\r", "\x85", "\u2028", "\ud800", "\x1b"])
def test_an_event_stays_on_its_line_whatever_it_says(breaker):
    (line,) = render_log(log(UserMessage((Text(f"a{breaker}b"),)))).splitlines()

    assert line.isprintable()
