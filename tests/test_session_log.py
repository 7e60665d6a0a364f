"""The session log takes what fits and can be read back; a refusal leaves it unchanged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from generated import Note, nested
from waterfalls import unplaced

from dsh_core import Event, PluginError, Session, SessionError, SessionHeader, hookimpl
from dsh_core.chunks import BlockEnd, Finish, TextDelta, ToolCallDelta
from dsh_core.content import Text, ToolCall
from dsh_core.errors import LlmFailure, UserError
from dsh_core.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    EventData,
    InjectionTrigger,
    MaintenanceTrigger,
    MessageTrigger,
    RecordTrigger,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UnknownEvent,
    UserMessage,
)
from dsh_core.testing.hooks import HookLab
from dsh_core.testing.log import assert_balanced

START = TurnStart(1, MessageTrigger())
END = TurnEnd(1, Completed())
HELLO = UserMessage((Text("hello"),))


def session(lab: HookLab | None = None, **options: Any) -> Session:
    hooks = (lab or HookLab()).hooks
    return Session(SessionHeader("s1", 0.0), hooks, clock=lambda: 5.0, **options)


def opened(lab: HookLab | None = None) -> Session:
    log = session(lab)
    log.append(START)
    return log


def data_of(log: Session) -> list[EventData]:
    return [event.data for event in log.events]


class Refuses:
    """A plugin that refuses events of some types."""

    def __init__(self, *types: str, error: BaseException | None = None):
        self.types = types
        self.error = error or ValueError("not here")

    @hookimpl
    def session_validate(self, event: Event) -> None:
        if event.type in self.types:
            raise self.error


class Watches:
    """A plugin that remembers every event."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    @hookimpl
    def session_event(self, event: Event) -> None:
        self.seen.append(event)


# ----------------------------------------------------------------------------------- appending


def test_an_event_gets_its_index_and_the_time() -> None:
    log = session()

    first, second = log.append(START), log.append(HELLO)

    assert (first.seq, second.seq, second.time) == (0, 1, 5.0)
    assert list(log.events) == [first, second]


@pytest.mark.parametrize("data", [HELLO, StepStart(1, 1), StepEnd(1, 1), END, Note("x")])
def test_outside_a_turn_only_a_turn_may_start(data: EventData) -> None:
    log = session()

    with pytest.raises(SessionError, match=r"no turn is open; `session.record` wraps"):
        log.append(data)
    assert log.events == []


@pytest.mark.parametrize(
    ("before", "data", "why"),
    [
        ([], TurnStart(2, MessageTrigger()), "bears 2, where 1 is next"),
        ([START], TurnStart(2, MessageTrigger()), "turn 1 is open"),
        ([START], TurnEnd(2, Completed()), "bears 2, where 1"),
        ([START, StepStart(1, 1)], END, "step 1 is open; its turn cannot end"),
        ([START, StepStart(1, 1)], StepStart(1, 2), "step 1 is open"),
        ([START], StepStart(2, 1), "bears 2, where 1"),
        ([START], StepEnd(1, 1), "no step is open"),
        ([START, StepStart(1, 1)], StepEnd(1, 2), r"bears \(1, 2\), where \(1, 1\)"),
        ([START, END], TurnStart(1, MessageTrigger()), "bears 1, where 2"),
    ],
)
def test_turns_and_steps_count_on_and_nest(
    before: list[EventData], data: EventData, why: str
) -> None:
    log = session()
    for earlier in before:
        log.append(earlier)

    with pytest.raises(SessionError, match=why):
        log.append(data)
    assert data_of(log) == before


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (Note("x", extra=float("nan")), "tests/note: extra: nan is not JSON"),
        (Note("x", share=-0.0), "-0.0 is not JSON"),
        (Note("x", extra=circle()), "contains itself"),
        (Note("x", extra=nested(100_000)), "nested deeper"),
        (Note("x", extra=[object()]), "object is not JSON"),
        (Note("half \ud800"), "lone surrogate"),
        (Note("x", fields={"half \udc00": 1}), "lone surrogate"),
        (UserMessage(("text",)), r"user/message: content\[0\]: expected a Block"),
        ("text", "str is no EventData registered"),
        (None, "NoneType is no EventData"),
        (Text("x"), "Text is no EventData"),
    ],
    ids=str.split("nan zero circle deep object half half-key no-block text none block"),
)
def test_what_is_not_plain_data_is_refused(data: Any, why: str) -> None:
    log = opened()

    with pytest.raises(SessionError, match=why):
        log.append(data)
    with pytest.raises(SessionError, match=why):
        log.record(data)
    assert data_of(log) == [START]


def test_the_log_does_not_follow_what_its_events_were_made_of() -> None:
    names, fields = ["a"], {"k": {"deep": [1]}}
    log = opened()
    logged = log.append(Note("x", names=names, fields=fields)).data

    names.append("b")
    fields["k"]["deep"].append(2)

    assert isinstance(logged, Note)
    assert logged.names == ("a",)
    assert log.events[1].to_json()["data"]["fields"] == {"k": {"deep": [1]}}


def test_an_unknown_event_is_appended_as_it_was_read() -> None:
    log = opened()
    log.append(UnknownEvent("gone/thing", {"a": [1]}))

    assert log.events[1].type == "gone/thing"
    assert log.messages() == ()


# ---------------------------------------------------------------------------------- validation


def test_a_plugin_refuses_an_event_and_the_log_is_unchanged() -> None:
    watches = Watches()
    log = opened(HookLab(policy=Refuses("user/message"), watches=watches))

    with pytest.raises(PluginError, match=r"plugin 'policy' in session_validate: .*not here"):
        log.append(HELLO)

    assert data_of(log) == [START]
    assert log.messages() == ()
    assert len(watches.seen) == 1
    log.append(Note("the log goes on"))
    assert [event.seq for event in log.events] == [0, 1]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        UserError("no"),
        LlmFailure("SERVER", "no"),
        SystemExit(3),
        asyncio.CancelledError(),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("owed", ["step/end", "turn/end"])
def test_a_refused_end_is_reported_and_appended_anyway(owed: str, error: BaseException) -> None:
    lab = HookLab(policy=Refuses(owed, error=error))
    log = opened(lab)
    log.append(StepStart(1, 1))

    log.append(StepEnd(1, 1))
    log.append(END)

    assert_balanced(log.events)
    (report,) = lab.reported
    assert report.hook == "session_validate"
    assert log.open_turn is None


def test_a_refused_turn_start_opens_nothing() -> None:
    log = session(HookLab(policy=Refuses("turn/start")))

    with pytest.raises(PluginError):
        log.append(START)

    assert (log.open_turn, log.last_turn, log.events) == (None, 0, [])


def test_every_validator_is_asked_before_the_event_is_in_the_log() -> None:
    class Looks:
        lengths: list[int] = []  # noqa: RUF012

        @hookimpl
        def session_validate(self, session: Session, event: Event) -> None:
            self.lengths.append(len(session.events))
            assert event.seq == len(session.events)

    log = opened(HookLab(a=Looks(), b=Looks()))

    assert Looks.lengths == [0, 0]
    assert len(log.events) == 1


# -------------------------------------------------------------------------------- publication


@pytest.mark.parametrize("hook", ["session_validate", "session_event"])
@pytest.mark.parametrize("how", ["append", "record", "append_chunk_of", "one_shot"])
def test_an_append_from_inside_a_session_hook_is_refused(hook: str, how: str) -> None:
    caught: list[SessionError] = []

    def again(session: Session, event: Event) -> None:
        try:
            if how == "one_shot":
                with session.one_shot(MaintenanceTrigger("x")):
                    pass
            elif how == "append_chunk_of":
                session.append_chunk(1, 1, TextDelta(0, "x"))
            else:
                getattr(session, how)(Note("again"))
        except SessionError as error:
            caught.append(error)

    plugin = type("Again", (), {hook: staticmethod(hookimpl(again))})
    setattr(plugin, hook, hookimpl(lambda self, session, event: again(session, event)))
    log = opened(HookLab(again=plugin()))

    log.append(HELLO)

    assert data_of(log) == [START, HELLO]
    assert len(caught) == 2
    assert "from inside a session hook" in str(caught[0])


def test_an_observer_that_raises_keeps_nobody_from_the_event() -> None:
    class Breaks:
        @hookimpl
        def session_event(self, event: Event) -> None:
            raise RuntimeError("broken")

    watches = Watches()
    lab = HookLab(breaks=Breaks(), watches=watches)
    log = opened(lab)

    log.append(HELLO)

    assert [event.data for event in watches.seen] == [START, HELLO]
    assert unplaced(lab.reports()) == ["plugin 'breaks' in session_event: RuntimeError: broken"]


def test_a_listener_hears_every_event_until_it_is_disposed() -> None:
    log, heard = opened(), []
    dispose = log.subscribe(heard.append)

    log.append(HELLO)
    log.append_chunk(1, 1, TextDelta(0, "x"))
    dispose()
    dispose()
    log.append(END)

    assert [event.type for event in heard] == ["user/message", "assistant/chunk"]


@pytest.mark.parametrize(
    "failure", [RuntimeError, SystemExit, asyncio.CancelledError, GeneratorExit]
)
def test_a_listener_that_raises_or_leaves_keeps_nobody_from_the_event(
    failure: type[BaseException],
) -> None:
    lab = HookLab()
    log, heard = opened(lab), []

    def leaves(event: Event) -> None:
        dispose()
        raise failure("broken")

    dispose = log.subscribe(leaves)
    log.subscribe(heard.append)
    log.append(HELLO)
    log.append(END)

    assert [event.data for event in heard] == [HELLO, END]
    (report,) = lab.reports()
    assert report.startswith("plugin '?' in session.subscribe: ")
    assert report.endswith(f"leaves: {failure.__name__}: broken")


def test_one_function_may_listen_twice() -> None:
    log, heard = opened(), []
    first = log.subscribe(heard.append)
    log.subscribe(heard.append)

    log.append(HELLO)
    first()
    log.append(HELLO)

    assert len(heard) == 3


def test_the_log_cannot_be_changed_through_its_events() -> None:
    log = opened()
    events: Any = log.events
    before = [*events]

    for change in (
        lambda: events.clear(),
        lambda: events.append(before[0]),
        lambda: events.pop(),
        lambda: events.__setitem__(0, before[0]),
        lambda: events.__delitem__(0),
        lambda: events.sort(),
    ):
        with pytest.raises(AttributeError):
            change()
    events[:].clear()

    assert (log.events, log.events is events) == (before, True)
    log.append(HELLO)
    assert [*events, *reversed(events)][1:3] == [log.events[-1]] * 2
    assert (events == before, events[1] in events, events.index(events[1])) == (False, True, 1)


def test_a_listener_cannot_append() -> None:
    log, caught = opened(), []

    def again(event: Event) -> None:
        with pytest.raises(SessionError, match="inside a session hook") as refused:
            log.append(HELLO)
        caught.append(refused)

    log.subscribe(again)
    log.append(HELLO)

    assert (len(caught), len(log.events)) == (1, 2)


# -------------------------------------------------------------------------------------- chunks


def test_a_chunk_is_logged_validated_and_published_as_other_events_are() -> None:
    watches = Watches()
    log = opened(HookLab(policy=Refuses(), watches=watches))
    log.append(StepStart(1, 1))

    chunk = log.append_chunk(1, 1, TextDelta(0, "é"))

    assert watches.seen[-1] is log.events[-1]
    assert log.events[-1].data == AssistantChunk(1, 1, chunk)


def test_a_plugin_may_refuse_a_chunk() -> None:
    log = opened(HookLab(policy=Refuses("assistant/chunk")))

    with pytest.raises(PluginError):
        log.append_chunk(1, 1, TextDelta(0, "x"))
    assert len(log.events) == 1


@pytest.mark.parametrize(
    ("chunk", "logged"),
    [
        (TextDelta(0, "\ud83d"), TextDelta(0, "\ufffd")),
        (ToolCallDelta(0, "1", "a", "\udc00"), ToolCallDelta(0, "1", "a", "\ufffd")),
        (BlockEnd(0, Text("\ud800")), BlockEnd(0, Text("\ufffd"))),
        (Finish("error", LlmFailure("X", "\ud800")), Finish("error", LlmFailure("X", "\ufffd"))),
    ],
)
def test_half_a_character_in_a_chunk_is_logged_as_a_whole_one(chunk: Any, logged: Any) -> None:
    log = opened()

    assert log.append_chunk(1, 1, chunk) == logged
    json.dumps(log.events[-1].to_json(), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "chunk",
    ["text", None, Text("x"), TextDelta(0, None), TextDelta(0, b"x"), TextDelta("0", "é"), HELLO],
    ids=repr,
)
def test_what_is_no_chunk_is_refused(chunk: Any) -> None:
    log = opened()

    with pytest.raises(SessionError):
        log.append_chunk(1, 1, chunk)
    assert len(log.events) == 1


# ----------------------------------------------------------------------------------- one-shots


def test_record_appends_into_the_open_turn() -> None:
    log = opened()

    log.record(Note("x"))

    assert data_of(log) == [START, Note("x", names=())]


def test_record_between_turns_makes_a_turn_of_its_own_and_a_flush() -> None:
    flushed: list[Session] = []
    log = session(flush_soon=flushed.append)

    log.record(Note("x"))
    log.record(Note("y"))

    assert_balanced(log.events)
    assert [event.type for event in log.events] == ["turn/start", "tests/note", "turn/end"] * 2
    assert data_of(log)[0] == TurnStart(1, RecordTrigger("tests/note"))
    assert data_of(log)[-1] == TurnEnd(2, Completed())
    assert flushed == [log, log]


def test_record_of_what_cannot_be_logged_opens_no_turn() -> None:
    flushed: list[Session] = []
    log = session(flush_soon=flushed.append)

    for wrong in (Note("\ud800"), UserMessage((Text("x"),), replaces=(3, 4))):
        with pytest.raises(SessionError):
            log.record(wrong)

    assert (log.events, flushed) == ([], [])


def test_a_refused_record_leaves_a_balanced_turn_that_says_why() -> None:
    log = session(HookLab(policy=Refuses("tests/note")))

    with pytest.raises(PluginError):
        log.record(Note("x"))

    assert_balanced(log.events)
    assert [type(data) for data in data_of(log)] == [TurnStart, ErrorEvent, TurnEnd]


def test_a_refused_one_shot_turn_leaves_nothing_and_owes_no_flush() -> None:
    flushed: list[Session] = []
    log = session(HookLab(policy=Refuses("turn/start")), flush_soon=flushed.append)

    with pytest.raises(PluginError):
        log.record(Note("x"))

    assert (log.events, flushed) == ([], [])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("half \ud800"), Errored("ValueError: half \ufffd")),
        (asyncio.CancelledError(), Aborted("cancelled")),
        (KeyboardInterrupt(), Errored("KeyboardInterrupt")),
    ],
    ids=lambda e: type(e).__name__,
)
def test_what_is_raised_in_a_one_shot_turn_is_its_reason(error: Any, reason: Any) -> None:
    flushed: list[Session] = []
    log = session(flush_soon=flushed.append)

    with pytest.raises(type(error)), log.one_shot(MaintenanceTrigger("x")):  # noqa: PT012
        log.append(StepStart(1, 1))
        raise error

    assert_balanced(log.events)
    assert log.events[-1].data == TurnEnd(1, reason)
    assert flushed == [log]


def test_a_one_shot_turn_cannot_begin_inside_a_turn() -> None:
    log = opened()

    with (
        pytest.raises(SessionError, match="turn 1 is open"),
        log.one_shot(InjectionTrigger()),
    ):
        raise AssertionError("unreachable")
    assert data_of(log) == [START]


def test_a_one_shot_turn_that_somebody_closed_stays_closed() -> None:
    log = session()

    with log.one_shot(MaintenanceTrigger("x")) as turn:
        log.append(TurnEnd(turn, Completed()))

    assert_balanced(log.events)


def test_what_is_owed_is_appended_in_spite_of_a_refusal() -> None:
    lab = HookLab(policy=Refuses("tests/note"))
    log = opened(lab)

    log.append_owed(Note("x"))

    assert data_of(log)[1] == Note("x", names=())
    assert len(lab.reported) == 1
    with pytest.raises(SessionError):
        log.append_owed(Note("\ud800"))


# --------------------------------------------------------------------------------------- seeds


def test_a_step_that_is_closed_early_gives_its_calls_results() -> None:
    log = opened(HookLab(policy=Refuses("tool/result")))
    log.append(StepStart(1, 1))
    calls = tuple(ToolCall(call_id, "read", "{}") for call_id in "ab")
    log.append(AssistantMessage(1, 1, calls))
    log.append(ToolCallEvent(1, 1, "a", "read", "{}"))

    log.close_step()
    log.close_step()
    log.close_turn(1, Completed())
    log.close_turn(1, Completed())

    assert_balanced(log.events)
    results = [data for data in data_of(log) if isinstance(data, ToolResultEvent)]
    assert [result.code for result in results] == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]


def test_a_seed_is_the_beginning_of_the_log() -> None:
    first = opened()
    first.append(HELLO)
    first.append(END)
    watches = Watches()

    second = session(HookLab(watches=watches), seed=first.events)

    assert second.events == first.events
    assert second.messages() == first.messages()
    assert (second.last_turn, second.open_turn) == (1, None)
    assert watches.seen == []
    second.append(TurnStart(2, MessageTrigger()))


def test_a_seed_is_copied_and_numbered_anew() -> None:
    names = ["a"]
    seed = [Event(8, 1.0, START), Event(9, 2.0, Note("x", names=names)), Event(40, 3.0, END)]
    log = session(seed=seed)

    names.append("b")

    assert [(event.seq, event.time) for event in log.events] == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert log.events[1].data == Note("x", names=("a",))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([HELLO], "seed event 0: user/message: no turn is open"),
        ([START, TurnStart(2, MessageTrigger())], "seed event 1: turn 1 is open"),
        ([START, Note("\ud800")], "seed event 1: tests/note: text: a lone surrogate"),
        ([START, UserMessage((Text("x"),), replaces=(0, 0))], "seed event 1: no message"),
    ],
)
def test_a_seed_that_does_not_fit_is_refused_with_its_place(
    events: list[EventData], why: str
) -> None:
    with pytest.raises(SessionError, match=why):
        session(seed=[Event(i, 0.0, data) for i, data in enumerate(events)])
