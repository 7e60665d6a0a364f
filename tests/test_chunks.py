"""Chunks are folded into the blocks of a reply, by one assembler, whatever their order."""

from __future__ import annotations

from typing import Any

import pytest
from generated import few, texts
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.chunks import (
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UnknownChunk,
    Usage,
    UsageChunk,
    clean_chunk,
)
from dsh_core.content import Reasoning, Text, ToolCall


def assembled(*chunks: Chunk) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler


@pytest.mark.parametrize(
    ("chunks", "blocks"),
    [
        ([], ()),
        ([TextDelta(0, "a"), TextDelta(0, "b")], (Text("ab"),)),
        ([TextDelta(0, "")], ()),
        ([BlockStart(0, "text")], ()),
        ([ReasoningDelta(0, "hm"), TextDelta(1, "a")], (Reasoning("hm"), Text("a"))),
        # in the order in which their index is first seen
        ([TextDelta(5, "a"), TextDelta(1, "b"), TextDelta(5, "c")], (Text("ac"), Text("b"))),
        # a repeated start is ignored, and so is what comes after the end; the first end counts
        ([BlockStart(0, "text"), TextDelta(0, "a"), BlockStart(0, "reasoning")], (Text("a"),)),
        (
            [TextDelta(0, "a"), BlockEnd(0, Text("A")), TextDelta(0, "b"), BlockEnd(0, Text("B"))],
            (Text("A"),),
        ),
        ([BlockEnd(0, Text("whole"))], (Text("whole"),)),
        # parallel calls, interleaved
        (
            [
                ToolCallDelta(0, "1", "read", '{"a'),
                ToolCallDelta(1, "2", "write", '{"b'),
                ToolCallDelta(0, arguments='":1}'),
                ToolCallDelta(1, arguments='":2}'),
            ],
            (ToolCall("1", "read", '{"a":1}'), ToolCall("2", "write", '{"b":2}')),
        ),
        # id and name count where they first are, and a call without an id gets one
        (
            [ToolCallDelta(0, None, "read"), ToolCallDelta(0, "1", "other"), ToolCallDelta(0, "2")],
            (ToolCall("1", "read", ""),),
        ),
        ([ToolCallDelta(3, None, None, "{}")], (ToolCall("call-3", "", "{}"),)),
        ([BlockEnd(2, ToolCall("", "read", "{}"))], (ToolCall("call-2", "read", "{}"),)),
        # kinds of plugins are ignored
        ([TextDelta(0, "a"), UnknownChunk("gone", {}), TextDelta(0, "b")], (Text("ab"),)),
        # halves of a pair in two deltas
        ([TextDelta(0, "\ud83d"), TextDelta(0, "\ude00 ok")], (Text("😀 ok"),)),
        (
            [ToolCallDelta(0, "1", "t", "\ud83d"), ToolCallDelta(0, arguments="\ude00")],
            (ToolCall("1", "t", "😀"),),
        ),
        ([TextDelta(0, "a\ud83d")], (Text("a\ufffd"),)),
    ],
)
def test_chunks_become_blocks(chunks: list[Chunk], blocks: Any) -> None:
    assert assembled(*chunks).blocks() == blocks


def test_the_last_usage_and_the_last_finish_count() -> None:
    done = assembled(
        UsageChunk(Usage(1)), Finish("stop"), UsageChunk(Usage(2)), Finish("max-tokens")
    )

    assert done.usage == Usage(2)
    assert done.finish == Finish("max-tokens")


def test_without_a_finish_there_is_none() -> None:
    assert assembled(TextDelta(0, "a")).finish is None


def test_an_open_block_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="block 0 of type 'video' was never ended"):
        assembled(BlockStart(0, "video")).blocks()


def test_of_an_interrupted_reply_text_and_reasoning_stay() -> None:
    stream = assembled(
        ReasoningDelta(0, "hm"),
        TextDelta(1, "half"),
        TextDelta(2, "  \n"),
        ToolCallDelta(3, "1", "read", "{"),
        BlockStart(4, "video"),
    )

    assert stream.interrupted_blocks() == (Reasoning("hm"), Text("half"))


def test_of_an_interrupted_call_nothing_stays() -> None:
    assert assembled(ToolCallDelta(0, "1", "read", "{}")).interrupted_blocks() == ()


@few
@given(st.lists(st.tuples(st.integers(0, 3), texts), max_size=30))
def test_a_text_is_the_sum_of_its_deltas_however_they_interleave(
    deltas: list[tuple[int, str]],
) -> None:
    done = assembled(*(TextDelta(index, text) for index, text in deltas))
    order = list(dict.fromkeys(index for index, _ in deltas))
    whole = ["".join(text for i, text in deltas if i == index) for index in order]

    assert [block.text for block in done.blocks()] == [text for text in whole if text]


@few
@given(st.text(st.characters()), st.integers(0, 100))
def test_a_text_cut_anywhere_into_deltas_can_be_logged(text: str, cut: int) -> None:
    blocks = assembled(TextDelta(0, text[:cut]), TextDelta(0, text[cut:])).blocks()

    for block in blocks:
        block.text.encode()


@pytest.mark.parametrize(
    ("chunk", "cleaned"),
    [
        (TextDelta(0, "\ud83d"), TextDelta(0, "\ufffd")),
        (ReasoningDelta(0, "a\udc00"), ReasoningDelta(0, "a\ufffd")),
        (ToolCallDelta(0, "\ud800", None, "\ud83d\ude00"), ToolCallDelta(0, "\ufffd", None, "😀")),
        (BlockEnd(0, Text("\ud800")), BlockEnd(0, Text("\ufffd"))),
    ],
)
def test_a_chunk_with_half_a_character_is_cleaned(chunk: Chunk, cleaned: Chunk) -> None:
    assert clean_chunk(chunk) == cleaned


@pytest.mark.parametrize(
    "chunk",
    [
        TextDelta(0, "é"),
        ToolCallDelta(0, "1", "read", "{}"),
        BlockStart(0, "text"),
        BlockEnd(0, Text("a")),
        UsageChunk(Usage(1)),
        Finish("stop"),
        UnknownChunk("gone", {}),
    ],
)
def test_other_chunks_are_left_alone(chunk: Chunk) -> None:
    assert clean_chunk(chunk) == chunk


def test_usage_adds_up() -> None:
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)

    assert total == Usage(11, 22, 33, 44)
    assert total.total_tokens == 110
