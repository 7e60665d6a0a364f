"""One output stream of a command: bytes go in, bounded and readable text comes out."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from dsh_shell.spill import Spill
from dsh_shell.terminal import Terminal

_HEAD_SHARE = 4
"""One part in four of what is kept is the start: it says what ran; the end says how it went."""

_WHOLE_LINE_BYTES = 1024
"""A cut is moved to the next end of line, if that is this near."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is kept of a stream.

    Args:
        text: The text; where `left_out_bytes` is not 0, a line in it says what is missing.
        left_out_bytes: Size of what is missing, in UTF-8.

    """

    text: str
    left_out_bytes: int = 0


class HeadAndTail:
    """The first and the last bytes of a text, whatever its length."""

    def __init__(self, limit_bytes: int):
        self._head_limit = limit_bytes // _HEAD_SHARE
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._size_bytes = 0

    def write(self, text: str) -> None:
        """Take the next piece."""
        data = text.encode()
        self._size_bytes += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Cut rarely: each cut moves the whole tail.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def take(self) -> tuple[str, str, int]:
        """Return head, tail and the bytes missing between them, and start again."""
        tail = self._tail[-self._tail_limit :]
        missing = self._size_bytes - len(self._head) - len(tail)
        head = self._head
        if missing:
            head, tail = _up_to_line_end(head), _from_line_start(tail)
            missing = self._size_bytes - len(head) - len(tail)
        else:
            head, tail = head + tail, bytearray()
        self._head, self._tail, self._size_bytes = bytearray(), bytearray(), 0
        return head.decode(errors="ignore"), tail.decode(errors="ignore"), missing


class Capture:
    """Decodes and cleans a stream as it comes, and keeps what `take` returns.

    Args:
        limit_bytes: What is kept of the cleaned text between two calls of `take`.
        spill: Gets the raw bytes.

    """

    def __init__(self, limit_bytes: int, spill: Spill):
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = HeadAndTail(limit_bytes)
        self._terminal = Terminal(self._kept.write)
        self._spill = spill
        self._was_cut = False

    @property
    def last_row(self) -> str:
        """The last line, as a terminal shows it now."""
        return self._terminal.last_row

    def feed(self, data: bytes) -> None:
        """Take bytes as they were read."""
        self._spill.write(data)
        self._terminal.feed(self._decoder.decode(data))

    def take(self) -> Excerpt:
        """Return what came since the last call."""
        self._terminal.flush()
        head, tail, missing = self._kept.take()
        if not missing:
            return Excerpt(head)
        self._was_cut = True
        self._spill.open()
        return Excerpt(f"{head.rstrip()}\n{self._cut_line(missing)}\n{tail}", missing)

    def finish(self) -> None:
        """Take the end of the stream; `take` can still be called."""
        self._terminal.feed(self._decoder.decode(b"", final=True))
        self._terminal.close()

    def close(self) -> None:
        """Close the file; keep it if `take` spoke of it."""
        self._spill.close(keep=self._was_cut)

    def _cut_line(self, missing: int) -> str:
        spill = self._spill
        if spill.path is None:
            return f"[... {missing} bytes left out; they could not be saved: {spill.problem} ...]"
        if spill.is_complete:
            where = f"the whole output is in {spill.path}"
        elif spill.problem:
            where = f"what could be saved is in {spill.path} ({spill.problem})"
        else:
            where = f"the start of the output is in {spill.path}, the rest was too much to save"
        return f"[... {missing} bytes left out; {where} ...]"


def _up_to_line_end(head: bytearray) -> bytearray:
    end = head.rfind(b"\n", max(0, len(head) - _WHOLE_LINE_BYTES))
    return head if end < 0 else head[: end + 1]


def _from_line_start(tail: bytearray) -> bytearray:
    end = tail.find(b"\n", 0, _WHOLE_LINE_BYTES)
    return tail if end < 0 else tail[end + 1 :]
