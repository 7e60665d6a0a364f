"""Objects become JSON and come back; what could not come back is refused at the door."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from generated import Note, event_data, few, nested
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.chunks import Chunk, Finish, TextDelta, UnknownChunk
from dsh_core.codec import DecodeError, case, from_json, seal, sum_type, to_json
from dsh_core.content import Block, Text, ToolResult, UnknownBlock
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    AssistantChunk,
    Errored,
    Event,
    EventData,
    TurnEnd,
    UnknownReason,
    UnknownTrigger,
    UserMessage,
)
from dsh_core.forms import MAX_OBJECT_DEPTH
from dsh_core.messages import Message, UnknownSource
from dsh_core.tagged import Tagged


@dataclass(frozen=True)
class Pair:
    left: int
    right: int


def through_json(event: Event) -> Event:
    return Event.from_json(json.loads(json.dumps(event.to_json())))


# ------------------------------------------------------------------------------- every event


@few
@given(event_data, st.integers(0, 10**6), st.floats(0, 1e10))
def test_every_event_comes_back_from_json_as_it_was_logged(
    data: EventData, seq: int, time: float
) -> None:
    event = Event(seq, time, seal(data))

    assert through_json(event) == event


@few
@given(event_data)
def test_sealing_changes_no_meaning_and_is_done_once(data: EventData) -> None:
    sealed = seal(data)

    assert to_json(sealed) == to_json(data)
    assert seal(sealed) == sealed


def test_every_event_type_is_generated_by_these_tests() -> None:
    assert {"turn/start", "request/messages", "tests/note"} <= set(EventData.cases)


# ------------------------------------------------------------------------------- unknown names


def test_an_unknown_event_is_kept_verbatim() -> None:
    written = {
        "type": "gone/thing",
        "seq": 7,
        "time": 3,
        "data": {"type": "inner", "list": [1, {"deep": None}], "text": "é"},
    }
    event = Event.from_json(written)

    assert event.type == "gone/thing"
    assert event.to_json() == written
    assert json.dumps(event.to_json()) == json.dumps(written)


@pytest.mark.parametrize("name", ["unknown", "turn/start2", ""])
def test_any_unregistered_name_is_unknown(name: str) -> None:
    written = {"type": name, "seq": 0, "time": 0.0, "data": {"name": "x"}}

    assert Event.from_json(written).to_json() == written


@pytest.mark.parametrize(
    ("hint", "unknown"),
    [(Block, UnknownBlock), (Chunk, UnknownChunk)],
)
def test_unknown_cases_of_other_sum_types_are_kept_too(hint: Any, unknown: Any) -> None:
    for name in ("gone", "unknown"):
        written = {"type": name, "a": [1, {"b": None}]}
        value = from_json(hint, written)

        assert type(value) is unknown
        assert to_json(value) == written


def test_an_unknown_case_deep_in_a_known_event_is_kept() -> None:
    written = {
        "type": "user/message",
        "seq": 0,
        "time": 0.0,
        "data": {
            "content": [{"type": "gone/block", "x": 1}],
            "source": {"type": "gone/source", "y": 2},
        },
    }
    event = Event.from_json(written)

    assert isinstance(event.data, UserMessage)
    assert isinstance(event.data.content[0], UnknownBlock)
    assert isinstance(event.data.source, UnknownSource)
    assert event.to_json() == written


def test_unknown_triggers_and_reasons_load() -> None:
    start = {"turn": 1, "trigger": {"type": "gone", "a": 1}}
    end = {"turn": 1, "reason": {"type": "gone", "b": 2}}
    first = Event.from_json({"type": "turn/start", "seq": 0, "time": 0.0, "data": start})
    last = Event.from_json({"type": "turn/end", "seq": 1, "time": 0.0, "data": end})

    assert isinstance(getattr(first.data, "trigger", None), UnknownTrigger)
    assert isinstance(getattr(last.data, "reason", None), UnknownReason)
    assert first.to_json()["data"] == start
    assert last.to_json()["data"] == end


# ------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (None, "not an event"),
        ([], "not an event"),
        ({"type": "turn/end"}, "not an event"),
        ({"type": 3, "seq": 0, "time": 0.0, "data": {}}, "type: expected text"),
        ({"type": ["a"], "seq": 0, "time": 0.0, "data": {}}, "type: expected text"),
        ({"type": "step/end", "seq": "0", "time": 0.0, "data": {"turn": 1, "step": 1}}, "seq"),
        ({"type": "step/end", "seq": 0, "time": "x", "data": {"turn": 1, "step": 1}}, "time"),
        ({"type": "step/end", "seq": 0, "time": 0.0, "data": []}, "step/end: expected a mapping"),
        ({"type": "gone", "seq": 0, "time": 0.0, "data": 3}, "gone: expected a mapping"),
        ({"type": "step/end", "seq": 0, "time": 0.0, "data": {"turn": 1}}, "step: is missing"),
        (
            {"type": "step/end", "seq": 0, "time": 0.0, "data": {"turn": 1, "step": True}},
            "step/end.step: expected an integer, found bool",
        ),
        (
            {"type": "user/message", "seq": 0, "time": 0.0, "data": {"content": [{"type": 3}]}},
            r"user/message.content\[0\]",
        ),
        (
            {
                "type": "user/message",
                "seq": 0,
                "time": 0.0,
                "data": {"content": [{"type": "text", "text": 5}]},
            },
            r"user/message.content\[0\].text: expected text, found int",
        ),
        (
            {
                "type": "assistant/chunk",
                "seq": 0,
                "time": 0.0,
                "data": {
                    "turn": 1,
                    "step": 1,
                    "chunk": {"type": "finish", "reason": "error", "failure": {"message": "x"}},
                },
            },
            "assistant/chunk.chunk.failure: is no failure",
        ),
        ({"type": "x", "seq": 0, "time": 0.0, "data": {"a": float("nan")}}, "nan is not JSON"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_place(value: Any, where: str) -> None:
    with pytest.raises(DecodeError, match=where):
        Event.from_json(value)


def test_json_that_is_too_deep_is_refused() -> None:
    with pytest.raises(DecodeError, match="deeper"):
        Event.from_json({"type": "x", "seq": 0, "time": 0.0, "data": {"a": nested(300)}})


def test_stored_lone_surrogates_are_repaired_when_read() -> None:
    text = '{"type":"user/message","seq":0,"time":0.0,"data":{"content":[%s]}}'
    event = Event.from_json(json.loads(text % '{"type":"text","text":"a\\ud99cb"}'))

    assert getattr(event.data, "content", None) == (Text("a\ufffdb"),)
    json.dumps(event.to_json(), ensure_ascii=False).encode()


def test_a_field_that_is_none_is_written_where_none_is_not_its_default() -> None:
    event = Event(0, 0.0, seal(Note("x", label=None)))

    assert through_json(event) == event
    assert "span" not in event.to_json()["data"]


def test_an_integer_is_a_number() -> None:
    assert from_json(float, 3) == 3.0
    with pytest.raises(DecodeError):
        from_json(float, 10**400)
    with pytest.raises(DecodeError):
        from_json(float, True)


def test_an_annotation_without_a_json_form_is_a_mistake_in_the_program() -> None:
    with pytest.raises(TypeError, match="has no JSON form"):
        from_json(set[int], [1])


# ------------------------------------------------------------------------------------- sealing


def test_lists_and_dicts_of_an_event_are_copied_read_only() -> None:
    names, fields = ["a"], {"k": [1]}
    sealed = seal(Note("x", names=names, fields=fields))

    names.append("b")
    fields["k"].append(2)

    assert sealed.names == ("a",)
    assert to_json(sealed.fields) == {"k": [1]}
    with pytest.raises(TypeError):
        sealed.fields["new"] = 1


def test_what_is_sealed_already_is_not_copied() -> None:
    data = UserMessage((Text("a"), Text("b")))

    assert seal(data) is data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (Note("a\ud800"), "text: a lone surrogate"),
        (Note("x", share=float("nan")), "share: nan is not JSON"),
        (Note("x", share=-0.0), "share: -0.0 is not JSON"),
        (Note("x", extra={"a": [object()]}), "extra: object is not JSON"),
        (Note("x", extra=nested(300)), "extra: nested deeper"),
        (Note(5), "text: expected text, found int"),
        (Note("x", count=True), "count: expected an integer, found bool"),
        (Note("x", count="1"), "count: expected an integer"),
        (Note("x", names="abc"), "names: expected a list, found str"),
        (Note("x", names=["a", 3]), r"names\[1\]: expected text"),
        (Note("x", span=(1, 2, 3)), "span: expected a list of 2"),
        (Note("x", kind="c"), "kind: expected one of"),
        (Note("x", fields=[1]), "fields: expected a mapping"),
        (Note("x", usage={"input_tokens": 1}), "usage: expected a Usage"),
        (Note("x", blocks={"a": "text"}), r"blocks\[0\]: expected a Block"),
        (Note("x", either=1.5), "either: expected an integer"),
        (UserMessage("text"), "content: expected a list, found str"),
        (UserMessage(("text",)), r"content\[0\]: expected a Block"),
        (UserMessage((Text("a\udc00"),)), r"content\[0\].text: a lone surrogate"),
        (TurnEnd(1, "completed"), "reason: expected a TurnEndReason"),
        (TurnEnd(1, Errored("\ud800")), "reason.message: a lone surrogate"),
    ],
)
def test_what_could_not_be_read_back_is_refused_with_its_place(data: EventData, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        seal(data)


def test_blocks_nested_too_deeply_are_refused_without_overflow() -> None:
    block: Block = Text("core")
    for _ in range(5_000):
        block = ToolResult("id", (block,))

    with pytest.raises(ValueError, match=f"deeper than {MAX_OBJECT_DEPTH} objects"):
        seal(UserMessage((block,)))


def test_a_failure_is_logged_without_what_it_keeps_alive() -> None:
    failure = LlmFailure("SERVER", "overloaded \ud800", status=503)
    failure.__cause__ = ValueError("with frames")
    sealed = seal(AssistantChunk(1, 1, Finish("error", failure)))

    assert sealed.chunk.failure == LlmFailure("SERVER", "overloaded \ufffd", status=503)
    assert sealed.chunk.failure is not failure
    assert sealed.chunk.failure.__cause__ is None


def test_a_message_keeps_its_private_cache_out_of_json() -> None:
    message = Message("user", (Text("x"),))
    message.keep_encoded("key", b"bytes")

    assert to_json(message) == {"role": "user", "content": [{"type": "text", "text": "x"}]}
    assert from_json(Message, to_json(message)) == message


# ----------------------------------------------------------------------------------- sum types


def test_a_plugin_adds_a_case() -> None:
    @case("tests/colour")
    class Colour(Block):
        """A block of a plugin."""

        name: str
        shade: Pair = Pair(0, 0)

    block = Colour("red", Pair(1, 2))

    assert to_json(block) == {
        "type": "tests/colour",
        "name": "red",
        "shade": {"left": 1, "right": 2},
    }
    assert from_json(Block, to_json(block)) == block
    assert seal(UserMessage((block,))).content == (block,)


def test_a_taken_name_is_refused_naming_who_has_it() -> None:
    with pytest.raises(TypeError, match=r"'text' is already dsh_core\.content\.Text"):

        @case("text")
        class Other(Block):
            """Another text."""


def test_a_reloaded_module_may_register_again() -> None:
    for _ in range(2):

        @case("tests/again")
        class Again(Block):
            """The same class of the same place."""

            text: str

    assert from_json(Block, {"type": "tests/again", "text": "x"}) == Again("x")


def test_a_field_called_type_is_refused() -> None:
    with pytest.raises(TypeError, match="taken by the tag"):

        @case("tests/type")
        class Typed(EventData):
            """Its field would hide the tag."""

            type: str


def test_a_class_outside_every_sum_type_is_refused() -> None:
    with pytest.raises(TypeError, match="extends no sum type"):

        @case("tests/stray")
        class Stray:
            """Extends nothing."""


def test_a_class_that_is_not_registered_cannot_be_logged() -> None:
    @dataclass(frozen=True)
    class Loud(Text):
        volume: int = 11

    with pytest.raises(ValueError, match="Loud is not registered with @case"):
        seal(UserMessage((Loud("x"),)))


def test_a_mutable_dataclass_in_an_event_is_refused() -> None:
    @dataclass
    class Loose:
        items: list[int]

    globals()["Loose"] = Loose

    @case("tests/loose")
    class Holder(EventData):
        """Holds something that can change."""

        loose: Loose

    with pytest.raises(ValueError, match=r"loose: .*Loose is a dataclass that is not frozen"):
        seal(Holder(Loose([1])))


def test_an_annotation_nobody_can_resolve_is_named() -> None:
    @case("tests/unresolved")
    class Unresolved(EventData):
        """Its annotation names nothing."""

        what: Nowhere  # noqa: F821

    with pytest.raises(ValueError, match=r"Unresolved: name 'Nowhere' is not defined"):
        seal(Unresolved(1))
    with pytest.raises(DecodeError, match="Nowhere"):
        from_json(EventData, {"type": "tests/unresolved", "what": 1})


def test_a_sum_type_of_a_plugin_without_an_unknown_case_refuses_unknown_names() -> None:
    @sum_type
    class Shape(Tagged):
        """A sum type of a plugin."""

        __slots__ = ()

    @case("circle")
    class Circle(Shape):
        """One of its cases."""

        radius: float

    assert from_json(Shape, to_json(Circle(2.0))) == Circle(2.0)
    with pytest.raises(DecodeError, match="there is no Shape of type 'square'"):
        from_json(Shape, {"type": "square"})


def test_the_quick_constructor_behaves_as_that_of_a_dataclass() -> None:
    @case("tests/made")
    class Made(EventData):
        """Every kind of default."""

        first: int
        second: str = "two"
        third: tuple[int, ...] = field(default_factory=tuple)
        fourth: int = field(default=4, init=False)

    made = Made(1)

    assert (made.first, made.second, made.third, made.fourth) == (1, "two", (), 4)
    assert Made(second="x", first=2) == Made(2, "x")
    with pytest.raises(TypeError):
        Made()
    with pytest.raises(AttributeError):
        made.first = 2


def test_keyword_only_fields_keep_their_meaning() -> None:
    @case("tests/keywords")
    class Keywords(EventData):
        """Some fields are named."""

        first: int
        named: int = field(kw_only=True)

    assert Keywords(1, named=2).named == 2
    with pytest.raises(TypeError):
        Keywords(1, 2)


def test_a_chunk_of_a_plugin_that_is_gone_loads() -> None:
    written = {"turn": 1, "step": 1, "chunk": {"type": "gone/chunk", "x": 1}}
    event = Event.from_json({"type": "assistant/chunk", "seq": 0, "time": 0.0, "data": written})

    assert event.to_json()["data"] == written
    assert to_json(TextDelta(0, "x")) == {"type": "text-delta", "index": 0, "text": "x"}
