"""What bytes are as text: which encoding, whether a byte order mark, which line endings."""

from __future__ import annotations

import codecs
import re

from dsh_core import ToolError
from dsh_files.failure import shown

SNIFFED_BYTES = 8_192
"""How much of a file decides whether it is text; git looks at 8,000 bytes."""

BOM = codecs.BOM_UTF8
_OTHER_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32 (little endian)"),
    (codecs.BOM_UTF32_BE, "UTF-32 (big endian)"),
    (codecs.BOM_UTF16_LE, "UTF-16 (little endian)"),
    (codecs.BOM_UTF16_BE, "UTF-16 (big endian)"),
)
NEWLINE = re.compile(rb"\r?\n")


def refuse_unless_text(head: bytes, written: str) -> None:
    """Refuse a file by its first bytes: UTF-16, UTF-32, or a NUL, which no text has."""
    for mark, name in _OTHER_BOMS:
        if head.startswith(mark):
            raise ToolError(
                f"{shown(written)} is {name} text; these tools handle UTF-8. "
                "Convert it first, as with iconv.",
                code="FS_NOT_TEXT",
            )
    position = head[:SNIFFED_BYTES].find(b"\0")
    if position >= 0:
        raise ToolError(
            f"{shown(written)} is not text: there is a NUL byte at position {position}.",
            code="FS_NOT_TEXT",
        )


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8 throughout."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_mostly_utf8(data: bytes) -> bool:
    """Whether text may be added as UTF-8: what is not ASCII is UTF-8 more often than not.

    False for Latin-1, GBK or Shift-JIS, where some pairs of bytes look like UTF-8 by accident.
    """
    special = [character for character in data.decode("utf-8", "replace") if character > "\x7f"]
    wrong = special.count("\ufffd")
    return wrong == 0 or len(special) - wrong > wrong


def encoded(text: str, argument: str) -> bytes:
    """Return the text as UTF-8. Raises `INVALID_ARGS` for lone surrogates, naming the argument."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{argument} holds a lone surrogate at character {error.start}, which is not text.",
            code="INVALID_ARGS",
        ) from error


def line_ending(data: bytes) -> bytes | None:
    r"""Return the one line ending the data uses, `\n` or `\r\n`; None for none or both."""
    windows = data.count(b"\r\n")
    unix = data.count(b"\n") - windows
    if windows and not unix:
        return b"\r\n"
    return b"\n" if unix and not windows else None


def with_line_ending(data: bytes, ending: bytes) -> bytes:
    r"""Return the data with every `\n` and `\r\n` written as `ending`."""
    return NEWLINE.sub(lambda _: ending, data)


def lines_of(data: bytes) -> list[bytes]:
    r"""Split at `\n` only, keeping it; other characters that end lines in Unicode do not here."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [*(line + b"\n" for line in lines), *([last] if last else [])]


def counted(lines: int) -> str:
    """Say a number of lines."""
    return "1 line" if lines == 1 else f"{lines:,} lines"
