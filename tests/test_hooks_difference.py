"""What a plugin changed is told in a few lines, whatever the size of what it changed."""

from __future__ import annotations

import pytest

from dsh_core.content import Text, ToolCall
from dsh_core.hooks.difference import LINE_CHARS, MAX_LINES, difference, outline
from dsh_core.messages import Message
from dsh_core.outcome import ToolOutput
from dsh_core.request import Section, ToolSchema


def said(role: str, text: str) -> Message:
    return Message(role, (Text(text),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("same", "same", []),
        ("a\nb\nc", "a\nB\nc", ["- b", "+ B"]),
        ("a", "a\nnew", ["+ new"]),
        ("", "new", ["- ", "+ new"]),
        (True, False, ["- True", "+ False"]),
        (
            {"temperature": 0.5, "top_p": 1},
            {"temperature": 0.9, "top_p": 1},
            ["- temperature: 0.5", "+ temperature: 0.9"],
        ),
        (
            (said("user", "hi"), said("assistant", "ho")),
            (said("user", "hi"),),
            ["- role: assistant", "- content: ho"],
        ),
        (
            (ToolSchema("a", "A.", {}), ToolSchema("b", "B.", {})),
            (ToolSchema("b", "B.", {}),),
            ["- name: a", "- description: A."],
        ),
        ((Section("x", "one\ntwo"),), (Section("x", "one\n2"),), ["- text: two", "+ text: 2"]),
        (
            said("assistant", "the key is 1234"),
            said("assistant", "the key is ****"),
            ["- content: the key is 1234", "+ content: the key is ****"],
        ),
    ],
)
def test_what_went_and_what_came(before: object, after: object, expected: list[str]) -> None:
    assert list(difference(before, after)) == expected


def test_what_parts_late_in_a_long_line_is_seen() -> None:
    before, after = "x" * 5000 + "old", "x" * 5000 + "new"

    gone, come = difference(before, after)

    assert (gone[-3:], come[-3:]) == ("old", "new")
    assert max(len(gone), len(come)) <= LINE_CHARS + 2


def test_a_great_change_is_counted_not_copied() -> None:
    before = "\n".join(f"{number} {'y' * 10_000}" for number in range(1000))

    lines = difference(before, "gone")

    assert sum(map(len, lines)) < 2 * (MAX_LINES + 1) * (LINE_CHARS + 2)
    assert "- … 994 more lines" in lines
    assert lines[-1] == "+ gone"


def test_an_outline_is_the_beginning() -> None:
    call = ToolCall("call-1", "bash", '{"command": "ls"}')

    assert outline(True) == ("True",)
    assert outline(ToolOutput.of("a\nb")) == ("content: a", "content: b")
    assert "content: name: bash" in outline(Message("assistant", (call,)))
    assert outline("\n".join("abcdefghij")) == (*"abcdef", "…")
    assert outline(object()) == ("object",)
