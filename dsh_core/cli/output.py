"""Where a run's result goes: standard output, kept for it alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class ResultOutput:
    """Writes the result. A reader that went away is told once, and then written to no more.

    Args:
        stream: Where to write.
        is_live: Whether it is a terminal.
    """

    def __init__(self, stream: TextIO, *, is_live: bool = False):
        self._stream = stream
        self.is_live = is_live
        self.is_broken = False
        self.on_broken: Callable[[], None] = lambda: None

    def write(self, text: str) -> None:
        """Write text and flush it."""
        if self.is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the reader left, the disk is full, the stream is closed
            self.is_broken = True
            self.on_broken()


@contextmanager
def result_output(*, as_json: bool) -> Iterator[ResultOutput]:
    """Take standard output for the result.

    On a terminal both streams are one screen, and it is used as it is. Elsewhere whatever else
    prints to standard output, a plugin or a program it starts, goes to standard error.
    """
    if not as_json and sys.stdout is not None and sys.stdout.isatty():
        yield ResultOutput(sys.stdout, is_live=True)
        return
    stream = _own_stdout(as_json=as_json)
    output = ResultOutput(stream)
    try:
        yield output
    finally:
        try:
            stream.close()
        except OSError:
            output.is_broken = True


def _own_stdout(*, as_json: bool) -> TextIO:
    """Return a stream to standard output that nobody else has. A closed one fails on writing."""
    if sys.stdout is None:
        return open(os.devnull, encoding="ascii")
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    encoding = "ascii" if as_json else sys.stdout.encoding
    return os.fdopen(own, "w", encoding=encoding, errors="replace", newline="\n")
