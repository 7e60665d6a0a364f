"""Secrets that arrive in pieces."""

from __future__ import annotations

import pytest

from dsh_core import Event, ReasoningDelta, Secrets, TextDelta, ToolCallDelta
from dsh_core.chunks import BlockEnd
from dsh_core.content import Text
from dsh_core.events import AssistantChunk
from dsh_persistence.redaction import ready, without_secrets

SECRET = "sk-1234567890"
SECRETS = Secrets([SECRET])


def pieces(*texts, kind=TextDelta, index=0, first=0):
    return [
        Event(first + i, 1.0, AssistantChunk(1, 1, kind(index, text)))
        for i, text in enumerate(texts)
    ]


def calls(*texts):
    return [
        Event(i, 1.0, AssistantChunk(1, 1, ToolCallDelta(0, arguments=text)))
        for i, text in enumerate(texts)
    ]


def text_of(events):
    return "".join(
        getattr(e.data.chunk, "text", None) or getattr(e.data.chunk, "arguments", "")
        for e in events
    )


@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
def test_a_secret_in_two_pieces_is_found(kind):
    events = pieces("It is sk-123", "4567890", ", yes.", kind=kind)
    clean = without_secrets(events, SECRETS.scrub)

    assert text_of(clean) == "It is ***, yes."
    assert [e.seq for e in clean] == [0, 1, 2]


def test_a_secret_in_the_arguments_of_a_call_is_found():
    events = calls('{"key": "sk-', "1234567890", '"}')

    assert text_of(without_secrets(events, SECRETS.scrub)) == '{"key": "***"}'


def test_pieces_of_blocks_that_arrive_by_turns_are_told_apart():
    one, two = pieces("sk-12345", "67890!", index=0), pieces("a ", "b", index=1)
    mixed = [one[0], two[0], one[1], two[1]]
    clean = without_secrets(mixed, SECRETS.scrub)

    assert [e.data.chunk.text for e in clean] == ["***!", "a ", "", "b"]


def test_events_without_secrets_stay_the_same_objects():
    events = pieces("no", "thing")

    assert without_secrets(events, SECRETS.scrub) is events


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (["nothing", " here"], 2),
        (["It is ", "sk-12"], 1),
        (["It is ", "sk", "-1", "2"], 1),
        (["It is s", "k-1"], 0),
        (["sk-1234567890"], 1),
        ([], 0),
    ],
)
def test_what_may_be_the_beginning_of_a_secret_waits(texts, count):
    assert ready(pieces(*texts), SECRETS) == count


def test_nothing_waits_once_the_block_has_ended():
    events = [*pieces("sk-123"), Event(1, 1.0, AssistantChunk(1, 1, BlockEnd(0, Text("sk-123"))))]

    assert ready(events, SECRETS) == 2


def test_nothing_waits_where_no_secret_is_known():
    assert ready(pieces("sk-123"), Secrets()) == 1


@pytest.mark.parametrize("cut", range(len("before sk-1234567890 after") + 1))
def test_no_way_to_cut_a_text_lets_a_secret_through(cut):
    text = f"before {SECRET} after"
    events = pieces(text[:cut], text[cut:])
    written, start = [], 0
    for end in (1, 2):
        count = ready(events[start:end], SECRETS) if end < 2 else end - start
        written += without_secrets(events[start : start + count], SECRETS.scrub)
        start += count

    assert text_of(written) == "before *** after"
