"""Making text of models, tools and files harmless on a terminal."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Show control characters as escapes: nothing printed may move the cursor or hide text.

    `\n` and `\t` stay; a carriage return before a line feed is dropped.
    """
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, width: int = 100) -> str:
    """Return the first line, shortened to `width` characters."""
    line = printable(text.strip().partition("\n")[0])
    more = "\n" in text.strip() or len(line) > width
    return f"{line[: width - 1]}…" if more else line


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
