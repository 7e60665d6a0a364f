"""What is said to the model is made blocks, and refused before anything is logged."""

from __future__ import annotations

from typing import Any

import pytest

from dsh_core.content import (
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    UnknownBlock,
    as_blocks,
    clean_block,
    text_of,
)


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        ("hello", (Text("hello"),)),
        (" ", (Text(" "),)),
        (Text("a"), (Text("a"),)),
        ([Text("a"), Image("image/png", "AA==")], (Text("a"), Image("image/png", "AA=="))),
        ((Text(""), Text("b")), (Text(""), Text("b"))),
        (Image("image/png", "AA=="), (Image("image/png", "AA=="),)),
        ((block for block in (Text("a"),)), (Text("a"),)),
        ("half \ud83d", (Text("half \ufffd"),)),
        ("\ud83d\ude00", (Text("😀"),)),
        (Reasoning("\udc00"), (Reasoning("\ufffd"),)),
        (UnknownBlock("gone", {"a": 1}), (UnknownBlock("gone", {"a": 1}),)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_content_becomes_blocks(content: Any, blocks: Any) -> None:
    assert as_blocks(content) == blocks


@pytest.mark.parametrize(
    ("content", "error", "why"),
    [
        ("", ValueError, "empty"),
        ([], ValueError, "empty"),
        ([Text(""), Text("")], ValueError, "empty"),
        (None, TypeError, "NoneType"),
        (b"bytes", TypeError, "not int"),
        (["text"], TypeError, "not str"),
        ([Text("a"), 3], TypeError, "not int"),
        (Text(3), ValueError, "text"),
        (Image("image/png", b"raw"), ValueError, "data: expected text, found bytes"),
        (UnknownBlock("gone", {"a": float("nan")}), ValueError, "nan"),
        (ToolCall("1", "read", "{}"), ValueError, "a tool-call cannot be sent"),
        ([Text("a"), ToolResult("1", (Text("b"),))], ValueError, "a tool-result cannot be sent"),
    ],
    ids=str,
)
def test_what_cannot_be_sent_is_refused(content: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        as_blocks(content)


def test_blocks_without_halves_are_left_alone() -> None:
    for block in (Text("é"), Reasoning("x"), ToolCall("1", "é", "{}"), Image("a", "b")):
        assert clean_block(block) is block


def test_a_call_loses_its_halves_and_keeps_its_arguments_raw() -> None:
    call = ToolCall("id\ud800", "na\ud800me", '{"a": "\\ud83d", "b": "\ud83d\ude00"')

    assert clean_block(call) == ToolCall("id\ufffd", "na\ufffdme", '{"a": "\\ud83d", "b": "😀"')


def test_the_text_of_a_message_is_its_text_blocks() -> None:
    blocks = (Reasoning("hm"), Text("a"), ToolCall("1", "t", "{}"), Text("b"))

    assert text_of(blocks) == "ab"
