"""Which part goes: cases that a long conversation brings sooner or later."""

from __future__ import annotations

import pytest

from dsh_compaction.choice import choose
from dsh_compaction.view import MARKER, SUMMARY, build, units_of
from dsh_core import Message, Text, ToolCall, ToolResult
from dsh_core.messages import USER


def said(text="x", source=USER):
    return Message("user", (Text(text),), source=source)


def answered():
    return Message("assistant", (Text("so"),))


def called(*ids):
    return Message("assistant", tuple(ToolCall(call_id, "t", "{}") for call_id in ids))


def result(call_id):
    return Message("user", (ToolResult(call_id, (Text("r"),)),))


def view(*messages, cost=100, costs=None, pinned=(0,), fixed=0):
    sources = list(enumerate(messages))
    return build(
        sources, costs or [cost] * len(sources), pinned, fixed=fixed, scale=1.0, generation=0
    )


def segments(*messages, keep=0, largest=0, room=None, **options):
    choice = choose(view(*messages, **options), keep=keep, largest=largest, room=room)
    return None if choice is None else [*choice.segments]


def test_a_reply_and_all_its_results_are_one_unit():
    history = [said(), called("a", "b"), result("a"), result("b"), answered(), said()]

    assert [*units_of(history)] == [(0, 1), (1, 4), (4, 5), (5, 6)]


@pytest.mark.parametrize("keep", range(0, 700, 50))
def test_wherever_the_tail_begins_no_batch_is_cut(keep):
    batch = [called("a", "b"), result("a"), result("b")]
    found = segments(said(), *batch, *batch, keep=keep, largest=5000)

    assert found in ([(1, 7)], [(1, 4)], None)


def test_the_newest_unit_stays_unless_it_takes_most_of_the_window():
    history = [said(), answered(), called("a"), result("a")]

    assert segments(*history, keep=10, largest=200) == [(1, 2)]
    assert segments(*history, keep=10, largest=199) == [(1, 4)]


def test_what_is_pinned_in_the_middle_parts_the_choice():
    history = [said(), answered(), answered(), said(), answered(), answered()]

    assert segments(*history, pinned=(0, 3)) == [(1, 3), (4, 6)]


def test_a_part_that_is_smaller_than_a_marker_stays():
    history = [said(), answered(), said(), answered(), answered()]

    assert segments(*history, pinned=(0, 2), costs=[100, 20, 100, 100, 100]) == [(3, 5)]
    assert segments(*history, pinned=(0, 2), costs=[100, 100, 100, 20, 20]) == [(1, 2)]


def test_what_a_request_has_no_room_for_is_left_for_later():
    history = [said(), *[answered()] * 6]

    assert segments(*history, room=450, fixed=40) == [(1, 4)]
    assert segments(*history, room=120, fixed=40) is None


def test_what_was_summarised_is_not_summarised_again_alone():
    history = [said(), said(source=MARKER), said(), said(source=SUMMARY)]

    assert segments(*history, pinned=(0, 2)) is None
    choice = choose(view(*history, answered(), pinned=(0, 2)), keep=0)
    assert choice.segments == ((1, 2), (3, 5))
    assert (choice.tokens, choice.fresh) == (300, 100)


def test_without_a_request_everything_may_go():
    assert segments(answered(), answered(), pinned=()) == [(0, 2)]


def test_of_an_empty_history_nothing_goes():
    assert choose(view(), keep=0) is None
