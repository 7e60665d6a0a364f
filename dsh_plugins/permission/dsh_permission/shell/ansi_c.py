"""`$'…'`: the escapes bash decodes (Bash Reference Manual, "ANSI-C Quoting")."""

from __future__ import annotations

import re

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def decoded(text: str) -> str:
    """Return what bash makes of the inside of `$'…'`; it ends at a NUL."""
    made = bytearray()
    place = 0
    for match in _ESCAPE.finditer(text):
        made += _encoded(text[place : match.start()]) + _bytes_of(match)
        place = match.end()
    made += _encoded(text[place:])
    return bytes(made).partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bytes_of(match: re.Match[str]) -> bytes:
    byte, short, long, octal, control, simple = match.groups()
    if byte is not None:
        return bytes([int(byte, 16)])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if control is not None:
        return bytes([ord(control) & 0x1F])
    code = short or long
    if code is not None:
        number = int(code, 16)
        return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"?"
    return _encoded(_SIMPLE.get(simple, "\\" + simple))
