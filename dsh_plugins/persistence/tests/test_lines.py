"""Lines: the short cut for pieces of text says what the long way says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core import Event, TextDelta
from dsh_core.content import Reasoning
from dsh_core.events import AssistantChunk, AssistantMessage
from dsh_persistence.lines import LineError, event_line, event_of, parse

times = st.one_of(st.integers(0, 2**40), st.floats(0, 4e9, allow_nan=False))
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.integers(0, 10**9), times, st.integers(1, 10**6), st.integers(0, 100), texts)
def test_a_piece_of_text_is_written_and_read_as_any_other_event(seq, time, turn, index, text):
    event = Event(seq, time, AssistantChunk(turn, 1, TextDelta(index, text)))
    line = event_line(event)

    assert json.loads(line) == json.loads(json.dumps(event.to_json()))
    assert line.count("\n") == 1
    read = event_of(parse(line.encode()), seq)
    assert read == event
    assert type(read.time) is type(event.time)


def test_other_events_are_written_as_dsh_run_writes_them(kit):
    for event in kit.log(2):
        assert json.loads(event_line(event)) == event.to_json()


@pytest.mark.parametrize(
    "chunk",
    [
        '{"type":"text-delta","index":0}',
        '{"type":"text-delta","index":"0","text":"x"}',
        '{"type":"text-delta","index":0,"text":7}',
        '{"type":"text-delta","index":0,"text":"x","more":1}',
        '{"type":"text-delta","index":true,"text":"x"}',
        "[]",
    ],
)
def test_odd_pieces_are_judged_by_the_core(chunk):
    line = '{"type":"assistant/chunk","seq":0,"time":1.5,"data":{"turn":1,"step":1,"chunk":%s}}'
    value = parse((line % chunk).encode())
    try:
        expected = Event.from_json(value)
    except Exception:
        with pytest.raises(LineError):
            event_of(value, 0)
    else:
        assert event_of(value, 0) == expected


def test_a_line_names_the_number_that_is_wrong(kit):
    value = kit.log(1)[3].to_json()
    with pytest.raises(LineError, match="it has the number 3, where 2 is next"):
        event_of(value, 2)


def test_no_reasoning_is_lost():
    event = Event(0, 1.0, AssistantMessage(1, 1, (Reasoning("hm"),)))

    assert event_of(parse(event_line(event).encode()), 0) == event
