"""Cutting streamed Markdown: nothing is lost, and nothing is cut that belongs together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsh_terminal.markdown import MarkdownStream

PIECES = st.lists(st.text(alphabet="ab \n`~-1.#|", max_size=12), max_size=30)


def parts(*pieces: str) -> list[str]:
    stream = MarkdownStream()
    found = [done for piece in pieces if (done := stream.feed(piece)) is not None]
    return [*found, stream.finish()]


@given(PIECES)
def test_the_parts_are_the_text(pieces: list[str]) -> None:
    assert "".join(parts(*pieces)) == "".join(pieces)


def test_a_paragraph_is_finished_when_the_next_begins() -> None:
    assert parts("One.\n", "\n", "Two.") == ["One.\n\n", "Two."]


def test_a_fence_stays_whole() -> None:
    code = "```python\na = 1\n\nb = 2\n```\n"

    assert parts(*code, "\n", "After") == [code + "\n", "After"]


def test_a_list_with_blank_lines_stays_whole() -> None:
    text = "1. one\n\n2. two\n\n   more of it\n"

    assert parts(*text, "\n", "After") == [text + "\n", "After"]
