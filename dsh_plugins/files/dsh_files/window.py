"""Lines out of a stream of bytes: a window of them is kept, all are counted, in constant memory."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

SHOWN_NUL = "␀"


@dataclass(frozen=True, slots=True)
class CutLine:
    """A line too long to be shown whole.

    Args:
        number: Its number, from 1.
        start: Position of its first byte in the stream.
        size_bytes: Its size without the line ending.
    """

    number: int
    start: int
    size_bytes: int


class LineWindow:
    """Collects numbered lines from pieces of a file.

    Args:
        first: Number of the first line to keep, from 1.
        limit_lines: Lines to keep.
        limit_bytes: Bytes of kept lines with their numbers; one line is always kept.
        limit_characters: Characters to keep of a line.
    """

    def __init__(
        self, first: int, *, limit_lines: int, limit_bytes: int, limit_characters: int
    ) -> None:
        self.first = first
        self.lines: list[str] = []
        self.cut: list[CutLine] = []
        self.has_other_bytes = False
        self.has_nul = False
        self.is_full = False
        self._end = first + limit_lines
        self._limit_bytes = limit_bytes
        self._limit_characters = limit_characters
        self._size_bytes = 0
        self._number = 1
        self._position = 0
        self._line_start = 0
        self._kept = bytearray()

    @property
    def total(self) -> int:
        """Lines so far; text after the last newline counts as one."""
        return self._number - (self._position == self._line_start)

    @property
    def ends_with_newline(self) -> bool:
        """Whether the last line has its newline."""
        return self._position == self._line_start

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        index = 0
        while index < len(piece):
            index = self._take(piece, index) if self._is_wanted() else self._skip(piece, index)
        self._position += len(piece)

    def finish(self) -> None:
        """Take the end: a last line without newline is a line."""
        if self._is_wanted() and self._position > self._line_start:
            self._keep_line(self._position - self._line_start)

    def _is_wanted(self) -> bool:
        return self.first <= self._number < self._end and not self.is_full

    def _take(self, piece: bytes, index: int) -> int:
        newline = piece.find(b"\n", index)
        end = len(piece) if newline < 0 else newline
        room = self._limit_characters * 4 + 1 - len(self._kept)
        self._kept += piece[index : min(end, index + room)]
        if newline < 0:
            return len(piece)
        self._keep_line(self._position + newline - self._line_start)
        self._begin_line(newline)
        return newline + 1

    def _skip(self, piece: bytes, index: int) -> int:
        """Go to the end of the piece, or to the first line of the window."""
        count = piece.count(b"\n", index)
        wanted = self.first - self._number
        if wanted <= 0 or count < wanted:
            if count:
                self._number += count - 1
                self._begin_line(piece.rindex(b"\n"))
            return len(piece)
        newline = index - 1
        for _ in range(wanted):
            newline = piece.index(b"\n", newline + 1)
        self._number += wanted - 1
        self._begin_line(newline)
        return newline + 1

    def _begin_line(self, newline: int) -> None:
        self._number += 1
        self._line_start = self._position + newline + 1
        self._kept.clear()

    def _keep_line(self, size_bytes: int) -> None:
        is_whole = size_bytes == len(self._kept)
        raw = bytes(self._kept)
        if is_whole:
            raw = raw.removesuffix(b"\r")
        text = self._decoded(raw, is_whole)
        is_cut = not is_whole or len(text) > self._limit_characters
        if is_cut:
            text = f"{text[: self._limit_characters]}… [cut: the line has {size_bytes:,} bytes]"
        line = f"{self._number}: {text}"
        size = len(line.encode()) + 1
        if self.lines and self._size_bytes + size > self._limit_bytes:
            self.is_full = True
            return
        self._size_bytes += size
        self.lines.append(line)
        if is_cut:
            self.cut.append(CutLine(self._number, self._line_start, size_bytes))

    def _decoded(self, raw: bytes, is_whole: bool) -> str:
        try:
            text = codecs.utf_8_decode(raw, "strict", is_whole)[0]
        except UnicodeDecodeError:
            text = codecs.utf_8_decode(raw, "replace", is_whole)[0]
            self.has_other_bytes = True
        if "\0" in text:
            text = text.replace("\0", SHOWN_NUL)
            self.has_nul = True
        return text
