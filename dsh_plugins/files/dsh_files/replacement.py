"""Replacing text in a file's bytes so that every byte not asked for stays as it is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dsh_core import ToolError
from dsh_files.failure import shown
from dsh_files.text import NEWLINE, is_utf8, line_ending, lines_of, with_line_ending


@dataclass(frozen=True, slots=True)
class Replaced:
    """A text after an edit: how often the old string was replaced, and where first."""

    data: bytes
    count: int
    first_line: int


def replace_text(
    data: bytes, old: bytes, new: bytes, *, replace_all: bool, written: str
) -> Replaced:
    """Replace `old` in the bytes of a file.

    A newline in `old` matches the line ending the file has there; new lines get the file's.
    Raises `FS_EDIT_NOT_FOUND`, `FS_AMBIGUOUS_EDIT`.
    """
    pattern = re.compile(rb"\r?\n".join(re.escape(part) for part in NEWLINE.split(old)))
    first = pattern.search(data)
    if first is None:
        raise ToolError(_not_found(data, old, written), code="FS_EDIT_NOT_FOUND")
    if not replace_all and _occurs_again(pattern, data, first):
        count = max(2, sum(1 for _ in pattern.finditer(data)))
        raise ToolError(
            f"old_string occurs {count} times in {shown(written)}. Add lines around it until it is "
            "unique, or set replace_all.",
            code="FS_AMBIGUOUS_EDIT",
        )
    matches = list(pattern.finditer(data)) if replace_all else [first]
    edited = b"".join(_pieces(data, new, matches))
    return Replaced(edited, len(matches), data.count(b"\n", 0, first.start()) + 1)


def _not_found(data: bytes, old: bytes, written: str) -> str:
    text = (
        f"old_string does not occur in {shown(written)}. It has to match exactly, white space "
        "included, without the line numbers that read shows."
    )
    if "\ufffd".encode() in old and not is_utf8(data):
        text += " Characters shown as � are bytes that are not UTF-8: choose text without them."
    return text


def _occurs_again(pattern: re.Pattern[bytes], data: bytes, first: re.Match[bytes]) -> bool:
    """Whether there is another occurrence, one that overlaps with the first included."""
    step = 2 if data.startswith(b"\r\n", first.start()) else 1
    return pattern.search(data, first.start() + step) is not None


def _pieces(data: bytes, new: bytes, matches: list[re.Match[bytes]]) -> Iterator[bytes]:
    ending = line_ending(data)
    if ending is not None:
        new = with_line_ending(new, ending)
    is_mixed = ending is None and b"\n" in data
    position = 0
    for match in matches:
        yield data[position : match.start()]
        yield _aligned(data, match, new) if is_mixed else new
        position = match.end()
    yield data[position:]


def _aligned(data: bytes, match: re.Match[bytes], new: bytes) -> bytes:
    """Give new lines the endings of the lines they replace, in a file that has both kinds.

    Lines of the old text that stand in the new one unchanged keep theirs; an added line ends like
    the one before it.
    """
    raw = lines_of(match.group())
    plain = [with_line_ending(line, b"\n") for line in raw]
    wanted = lines_of(with_line_ending(new, b"\n"))
    ending = _ending_around(data, match)
    result: list[bytes] = []
    matcher = difflib.SequenceMatcher(None, plain, wanted, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            result.extend(raw[start:end])
            ending = _ending_of(raw[end - 1], ending)
            continue
        for offset, line in enumerate(wanted[new_start:new_end], start):
            if offset < end:
                ending = _ending_of(raw[offset], ending)
            result.append(with_line_ending(line, ending))
    return b"".join(result)


def _ending_around(data: bytes, match: re.Match[bytes]) -> bytes:
    """Return the ending of the line before the match, or else of the first line after it."""
    before = data.rfind(b"\n", 0, match.start())
    position = before if before >= 0 else data.find(b"\n", match.start())
    return _ending_of(data[max(0, position - 1) : position + 1], b"\n")


def _ending_of(line: bytes, default: bytes) -> bytes:
    if not line.endswith(b"\n"):
        return default
    return b"\r\n" if line.endswith(b"\r\n") else b"\n"
