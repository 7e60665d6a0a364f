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
        self.problem: OSError | ValueError | None = None
        self.on_broken: Callable[[str], None] = lambda why: None

    @property
    def is_broken(self) -> bool:
        """Whether something could not be written."""
        return self.problem is not None

    @property
    def why_broken(self) -> str:
        """What went wrong, in a few words."""
        if isinstance(self.problem, BrokenPipeError):
            return "nobody reads the output"
        reason = getattr(self.problem, "strerror", None) or self.problem
        return f"the output could not be written: {reason}"

    def write(self, text: str) -> None:
        """Write text and flush it."""
        if self.is_broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError) as error:  # no reader, a full disk, a closed stream
            self.problem = error
            self.on_broken(self.why_broken)


@contextmanager
def result_output(*, as_json: bool) -> Iterator[ResultOutput]:
    """Take standard output for the result.

    On a terminal both streams are one screen, and it is used as it is. Elsewhere whatever else
    prints to standard output, a plugin or a program it starts, goes to standard error.
    """
    if not as_json and sys.stdout.isatty():
        yield ResultOutput(sys.stdout, is_live=True)
        return
    stream = _own_stdout(as_json=as_json)
    output = ResultOutput(stream)
    try:
        yield output
    finally:
        try:
            stream.close()
        except OSError as error:
            output.problem = output.problem or error


def _own_stdout(*, as_json: bool) -> TextIO:
    """Return a stream to standard output that nobody else has."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    encoding = "ascii" if as_json else sys.stdout.encoding
    return os.fdopen(own, "w", encoding=encoding, errors="replace", newline="\n")
