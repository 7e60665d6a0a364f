"""Making text of models, tools and files harmless on a terminal."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_LOOKS_EMPTY = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that count as visible, by Unicode's categories, and show nothing."""

MESSAGE_LIMIT = 2_000
"""Characters of a message that are shown: a screen full."""


def printable(text: str) -> str:
    r"""Show control characters as escapes: nothing printed may move the cursor or hide text.

    `\n` and `\t` stay; a carriage return before a line feed is dropped. Where JSON leaves such a
    character as it is, the escape is JSON's own, so JSON stays JSON.
    """
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def visible(text: str) -> str:
    """Show every character that could hide as an escape: what is asked about must be seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char.isprintable() and char not in _LOOKS_EMPTY else _escaped(ord(char))
        for char in text
    )


def one_line(text: str, width: int = 100) -> str:
    """Return the first line, shortened to `width` characters."""
    first, rest, _ = text.strip().partition("\n")
    line = printable(first[: width + 1])
    more = bool(rest) or len(line) > width
    return f"{line[: width - 1]}…" if more else line


def bounded(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a message of any length for a person: the middle of a very long one is left out."""
    if len(text) <= limit:
        return printable(text)
    half = limit // 2
    left_out = f" [… {len(text) - 2 * half} characters …] "
    return printable(text[:half] + left_out + text[-half:])


def columns(text: str) -> int:
    """Return how many columns the text takes at most; terminals disagree about some characters."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def fitted(text: str, room: int) -> str:
    """Return the text in `room` columns at most; what is left out of its middle is counted."""
    if len(text) <= room and columns(text) <= room:
        return text
    mark = f" [… {len(text)} characters …] "
    if len(mark) + 2 > room:
        return _head(text, max(0, room - 1)) + "…"[:room]
    half = (room - columns(mark)) // 2
    head, tail = _head(text, half), _head(text[::-1], half)[::-1]
    left_out = len(text) - len(head) - len(tail)
    return f"{head} [… {left_out} characters …] {tail}"


def _head(text: str, room: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _columns(char)
        if taken > room:
            return text[:index]
    return text


def _columns(char: str) -> int:
    # "A" (ambiguous) is two columns wide in East Asian locales, what is not assigned yet may be.
    narrow = unicodedata.east_asian_width(char) in ("N", "Na", "H")
    return 1 if narrow and unicodedata.category(char) != "Cn" else 2


def _escape(match: re.Match[str]) -> str:
    return _escaped(ord(match.group()))


def _escaped(code: int) -> str:
    if code < 0x20:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
