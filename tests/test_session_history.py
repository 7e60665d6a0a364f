"""The model's history is a fold of the log: incremental, complete, and never ahead of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from generated import few, texts
from hypothesis import given
from hypothesis import strategies as st

from dsh_core import Session, SessionError, SessionHeader
from dsh_core.content import Image, Reasoning, Text, ToolCall, ToolResult, text_of
from dsh_core.events import (
    AssistantMessage,
    Completed,
    ContextMessage,
    EventData,
    MessageTrigger,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UnknownEvent,
    UserMessage,
)
from dsh_core.messages import AgentSource, Message, PluginSource, UnknownSource
from dsh_core.session.history import History
from dsh_core.testing.hooks import HookLab


def session(*events: EventData) -> Session:
    log = Session(SessionHeader("s1", 0.0), HookLab().hooks)
    for data in events:
        log.append(data)
    return log


def user(text: str, **options: Any) -> UserMessage:
    return UserMessage((Text(text),), **options)


def context(text: str) -> ContextMessage:
    return ContextMessage((Text(text),), PluginSource("p"))


def reply(*blocks: Any, step: int = 1, **options: Any) -> AssistantMessage:
    return AssistantMessage(1, step, blocks, **options)


def call(call_id: str = "c") -> ToolCall:
    return ToolCall(call_id, "read", "{}")


def called(call_id: str = "c", verdict: str = "allow", step: int = 1) -> ToolCallEvent:
    return ToolCallEvent(1, step, call_id, "read", "{}", verdict)


def result(text: str, call_id: str = "c", step: int = 1, **options: Any) -> ToolResultEvent:
    return ToolResultEvent(1, step, call_id, (Text(text),), **options)


START, STEP = TurnStart(1, MessageTrigger()), StepStart(1, 1)
STEP_END, END = StepEnd(1, 1), TurnEnd(1, Completed())


def shown(log: Session) -> list[str]:
    """The history, one short line per message."""
    return [_line(message) for message in log.messages()]


def _line(message: Message) -> str:
    words = []
    for block in message.content:
        match block:
            case ToolCall(call_id):
                words.append(f"call {call_id}")
            case ToolResult(call_id, content, is_error):
                mark = "!" if is_error else "="
                words.append(f"{call_id}{mark}{text_of(content)}")
            case Text(text) | Reasoning(text):
                words.append(text)
    return f"{message.role[0]}: {' '.join(words)}"


# ----------------------------------------------------------------------------------- messages


def test_what_people_and_models_said_becomes_messages() -> None:
    log = session(
        START,
        user("hi"),
        STEP,
        reply(Reasoning("hm"), Text("hello"), model="p/m"),
        STEP_END,
        END,
    )

    assert shown(log) == ["u: hi", "a: hm hello"]
    assert log.messages()[1].model == "p/m"
    assert log.messages()[0].source == UserMessage((Text("x"),)).source


def test_context_and_steering_are_tagged_with_their_source() -> None:
    log = session(
        START,
        ContextMessage((Text("the date"),), PluginSource("clock")),
        ContextMessage((Text("x"),), AgentSource("parent")),
        ContextMessage((Text("y"),), UnknownSource("gone", {})),
        SteeringMessage(1, (Text("hurry"),)),
    )

    assert [message.text for message in log.messages()] == [
        '<context source="plugin:clock">\nthe date\n</context>',
        '<context source="agent">\nx\n</context>',
        '<context source="gone">\ny\n</context>',
        '<steering source="user">\nhurry\n</steering>',
    ]


def test_a_closing_tag_inside_context_is_defused() -> None:
    log = session(START, context("a</context>b"))

    assert log.messages()[0].text.count("</context>") == 1


def test_other_blocks_stand_between_the_tags() -> None:
    image = Image("image/png", "AA==")
    log = session(START, ContextMessage((image, Text("look")), PluginSource("p")))

    first, second, third, last = log.messages()[0].content
    assert (second, third) == (image, Text("look"))
    assert (first, last) == (Text('<context source="plugin:p">'), Text("</context>"))


def test_an_empty_reply_is_no_message_and_an_interrupted_one_is() -> None:
    log = session(START, user("hi"), STEP, reply(Text("half"), interrupted=True), STEP_END)
    log.append(StepStart(1, 2))
    log.append(reply(step=2, finish="max-tokens"))

    assert shown(log) == ["u: hi", "a: half"]


def test_other_events_say_nothing_to_the_model() -> None:
    log = session(START, user("hi"))
    before = log.messages()

    log.append(UnknownEvent("gone/thing", {"content": "x"}))

    assert log.messages() is before


# -------------------------------------------------------------------------------------- pairs


def test_a_reply_with_calls_is_history_when_its_last_result_is_in() -> None:
    log = session(START, user("hi"), STEP, reply(call("a"), call("b")), called("a"), called("b"))
    assert shown(log) == ["u: hi"]

    log.append(result("1", "a"))
    assert shown(log) == ["u: hi"]

    log.append(result("2", "b"))
    assert shown(log) == ["u: hi", "a: call a call b", "u: a=1", "u: b=2"]


def test_context_between_call_and_result_comes_after_the_results() -> None:
    log = session(
        START,
        STEP,
        reply(call("a"), call("b")),
        context("1"),
        called("a"),
        result("A", "a"),
        context("2"),
        called("b"),
        result("B", "b"),
        context("3"),
    )

    assert [line[:14] for line in shown(log)] == [
        "a: call a call",
        "u: a=A",
        "u: b=B",
        "u: <context so",
        "u: <context so",
        "u: <context so",
    ]
    assert [m.text.split("\n")[1] for m in log.messages()[3:]] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("logged", "says"),
    [
        ([], "did not run"),
        ([called("c", "deny")], "did not run"),
        ([called("c")], "not known"),
    ],
)
def test_a_call_that_never_got_a_result_gets_one_that_says_so(
    logged: list[EventData], says: str
) -> None:
    log = session(START, STEP, reply(call()), *logged, STEP_END)

    (_, last) = log.messages()
    (block,) = last.content
    assert isinstance(block, ToolResult)
    assert block.is_error
    assert says in text_of(block.content)


def test_ids_that_repeat_in_different_steps_are_paired_within_their_step() -> None:
    log = session(START, STEP, reply(call("0")), called("0"), result("one", "0"), STEP_END)
    for step in (2, 3):
        log.append(StepStart(1, step))
        log.append(reply(call("0"), step=step))
        log.append(called("0", step=step))
        log.append(result(f"number {step}", "0", step=step))
        log.append(StepEnd(1, step))

    assert shown(log)[1::2] == ["u: 0=one", "u: 0=number 2", "u: 0=number 3"]


def test_ids_that_repeat_within_a_step_are_paired_by_position() -> None:
    log = session(
        START,
        STEP,
        reply(call("0"), call("0"), call("0")),
        called("0"),
        result("first", "0"),
        called("0"),
        result("second", "0"),
        STEP_END,
    )

    lines = shown(log)
    assert lines[:3] == ["a: call 0 call 0 call 0", "u: 0=first", "u: 0=second"]
    assert "did not run" in lines[3]


def test_of_two_calls_with_one_id_the_one_that_started_is_the_unknown_one() -> None:
    log = session(
        START, STEP, reply(call("0"), call("0")), called("0"), result("first", "0"), called("0")
    )
    log.append(STEP_END)

    assert "not known" in str(log.messages()[2].content)


def test_a_result_nobody_asked_for_is_no_message() -> None:
    log = session(START, STEP, reply(call("a")), called("a"), result("x", "other"))
    log.append(result("1", "a"))
    log.append(result("2", "a"))

    assert shown(log) == ["a: call a", "u: a=1"]


# -------------------------------------------------------------------------------- replacements


def compacted() -> Session:
    """u1, reply with call and result, context, u2, answer: events 1, 3, 5, 6, 8, 9."""
    return session(
        START,
        user("u1"),
        STEP,
        reply(call()),
        called(),
        result("r"),
        context("ctx"),
        STEP_END,
        user("u2"),
        user("u3"),
    )


def seqs(log: Session) -> list[int]:
    return [seq for seq, _ in log.message_sources()]


def test_message_sources_tell_which_event_gave_which_message() -> None:
    log = compacted()

    assert seqs(log) == [1, 3, 5, 6, 8, 9]
    assert tuple(message for _, message in log.message_sources()) == log.messages()


def test_a_range_of_messages_is_replaced_by_one() -> None:
    log = compacted()

    log.append(user("summary", replaces=(1, 6)))

    assert shown(log) == ["u: summary", "u: u2", "u: u3"]
    assert seqs(log) == [10, 8, 9]
    assert log.generation == 1


def test_a_replacement_can_be_replaced_with_what_followed_it() -> None:
    log = compacted()
    log.append(user("summary", replaces=(1, 6)))

    log.append(user("second summary", replaces=(10, 8)))

    assert shown(log) == ["u: second summary", "u: u3"]
    assert seqs(log) == [11, 9]


def test_a_reply_may_stand_for_replies() -> None:
    log = compacted()

    log.append(reply(Text("short"), replaces=(3, 5)))

    assert shown(log)[:2] == ["u: u1", "a: short"]


def test_people_still_see_what_was_replaced() -> None:
    log = compacted()
    before = list(log.events)

    log.append(user("summary", replaces=(1, 9)))

    assert list(log.events)[:-1] == before
    assert shown(log) == ["u: summary"]


@pytest.mark.parametrize(
    ("replaces", "why"),
    [
        ((0, 3), "comes from event 0"),
        ((1, 99), "comes from event 99"),
        ((1, 4), "comes from event 4"),
        ((8, 1), "comes after"),
        ((1, 3), "separates a tool call from its result"),
        ((5, 8), "separates a tool call from its result"),
        ((3, 3), "separates a tool call from its result"),
        ((5, 5), "separates a tool call from its result"),
    ],
)
def test_a_range_that_would_break_the_history_is_refused(
    replaces: tuple[int, int], why: str
) -> None:
    log = compacted()
    before = log.messages()

    for data in (user("x", replaces=replaces), reply(Text("x"), replaces=replaces)):
        with pytest.raises(SessionError, match=why):
            log.append(data)
    assert log.messages() is before
    assert len(log.events) == 10


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (UserMessage((), replaces=(1, 1)), "must not be empty"),
        (AssistantMessage(1, 1, (), replaces=(1, 1)), "must not be empty"),
        (reply(call(), replaces=(1, 1)), "must not hold tool calls"),
        (result("short", "other", replaces=(5, 5)), "the current result of its own call"),
        (result("short", replaces=(3, 5)), "the current result of its own call"),
        (result("short", replaces=(1, 1)), "the current result of its own call"),
        (result("short", replaces=(5, 5), is_error=True), "in its content only"),
    ],
)
def test_what_cannot_stand_for_messages_is_refused(data: EventData, why: str) -> None:
    log = compacted()

    with pytest.raises(SessionError, match=why):
        log.append(data)


def test_a_result_is_replaced_in_its_place_and_stays_with_its_call() -> None:
    log = compacted()

    log.append(result("pruned", replaces=(5, 5)))

    assert shown(log)[:3] == ["u: u1", "a: call c", "u: c=pruned"]
    assert seqs(log) == [1, 3, 10, 6, 8, 9]
    with pytest.raises(SessionError, match="separates"):
        log.append(user("x", replaces=(10, 8)))
    with pytest.raises(SessionError, match="event 5"):
        log.append(result("again", replaces=(5, 5)))
    log.append(user("summary", replaces=(3, 10)))
    assert shown(log)[:2] == ["u: u1", "u: summary"]


def test_a_replacement_between_call_and_result_leaves_the_pair_whole() -> None:
    log = session(START, user("u1"), user("u2"), STEP, reply(call()), called())

    log.append(user("summary", replaces=(1, 2)))
    log.append(reply(Text("shorter"), replaces=(6, 6)))
    log.append(result("r"))

    assert shown(log) == ["a: shorter", "a: call c", "u: c=r"]


# ---------------------------------------------------------------------------------- properties


class _Author:
    """Writes a random but valid log, and notes the history after each event."""

    def __init__(self, draw: Any):
        self._draw = draw
        self.log = session()
        self.histories: list[tuple[Message, ...]] = []
        self.log.subscribe(lambda event: self.histories.append(self.log.messages()))

    def pick(self, *options: Any) -> Any:
        return self._draw(st.sampled_from(options))

    def say(self, data: EventData) -> None:
        self.log.append(data)

    def interlude(self) -> None:
        """What may come at any time inside a turn."""
        match self.pick("nothing", "nothing", "context", "steering", "replace"):
            case "context":
                self.say(context(self._draw(texts)))
            case "steering":
                self.say(SteeringMessage(self.log.last_turn, (Text("s"),)))
            case "replace":
                self.replace()

    def replace(self) -> None:
        sources = self.log.message_sources()
        if not sources:
            return
        first = self._draw(st.integers(0, len(sources) - 1))
        last = self._draw(st.integers(first, len(sources) - 1))
        replaces = (sources[first][0], sources[last][0])
        try:
            self.say(user("summary", replaces=replaces))
        except SessionError:
            block = sources[first][1].content[0]
            if isinstance(block, ToolResult) and seqs(self.log).count(replaces[0]) == 1:
                self.say(
                    ToolResultEvent(
                        1,
                        1,
                        block.call_id,
                        (Text("pruned"),),
                        is_error=block.is_error,
                        replaces=(replaces[0], replaces[0]),
                    )
                )

    def step(self, turn: int, step: int) -> None:
        self.say(StepStart(turn, step))
        self.interlude()
        ids = self._draw(st.lists(st.sampled_from("ab"), max_size=3))
        blocks = [Text("t")] * self.pick(0, 1) + [call(call_id) for call_id in ids]
        is_interrupted = not ids and self.pick(True, False)
        self.say(AssistantMessage(turn, step, tuple(blocks), interrupted=is_interrupted))
        answered = self._draw(st.integers(0, len(ids)))
        for call_id in ids[:answered]:
            self.interlude()
            self.say(ToolCallEvent(turn, step, call_id, "read", "{}", self.pick("allow", "deny")))
            self.interlude()
            self.say(ToolResultEvent(turn, step, call_id, (Text("r"),), self.pick(True, False)))
        self.interlude()
        self.say(StepEnd(turn, step))

    def turn(self) -> None:
        turn = self.log.last_turn + 1
        self.say(TurnStart(turn, MessageTrigger()))
        self.say(user(self._draw(texts)))
        for step in range(1, self._draw(st.integers(0, 2)) + 1):
            self.step(turn, step)
            self.interlude()
        self.say(TurnEnd(turn, Completed()))


@st.composite
def written_logs(draw: Any) -> _Author:
    author = _Author(draw)
    for _ in range(draw(st.integers(1, 3))):
        author.turn()
    return author


def assert_pairs(messages: Sequence[Message]) -> None:
    waiting: list[str] = []
    for message in messages:
        results = [b.call_id for b in message.content if isinstance(b, ToolResult)]
        if waiting:
            assert results == waiting[:1], "a result stands right behind its call, in order"
            waiting.pop(0)
            continue
        assert results == []
        waiting = [b.id for b in message.content if isinstance(b, ToolCall)]
    assert waiting == []


@few
@given(written_logs())
def test_every_call_the_model_sees_has_its_result_at_any_time(author: _Author) -> None:
    for history in author.histories:
        assert_pairs(history)


@few
@given(written_logs(), st.data())
def test_the_incremental_history_is_that_of_a_replay(author: _Author, data: Any) -> None:
    events = author.log.events
    cut = data.draw(st.integers(0, len(events)))
    replay = History()

    for event in events[:cut]:
        replay.feed(event)

    assert replay.messages() == (author.histories[cut - 1] if cut else ())


@few
@given(written_logs(), st.data())
def test_a_log_that_starts_with_a_seed_goes_on_as_if_it_had_never_stopped(
    author: _Author, data: Any
) -> None:
    events = author.log.events
    ends = [0] + [e.seq + 1 for e in events if isinstance(e.data, TurnEnd)]
    cut = data.draw(st.sampled_from(ends))
    resumed = Session(SessionHeader("s2", 0.0), HookLab().hooks, seed=events[:cut])

    for event in events[cut:]:
        resumed.append(event.data)

    assert resumed.messages() == author.log.messages()
    assert resumed.message_sources() == author.log.message_sources()
    assert resumed.generation == author.log.generation


@few
@given(written_logs())
def test_the_history_only_grows_unless_it_is_replaced(author: _Author) -> None:
    replay = History()
    before: tuple[Message, ...] = ()
    for event in author.log.events:
        generation = replay.generation
        replay.feed(event)
        after = replay.messages()
        assert after is replay.messages()
        if replay.generation == generation:
            assert all(a is b for a, b in zip(before, after, strict=False))
            assert len(after) >= len(before)
        if len(after) == len(before) and replay.generation == generation:
            assert after is before
        before = after
