"""The three standard streams: open from the first line on, and whole at the end."""

from __future__ import annotations

import errno
import os
import sys
from typing import Literal, TextIO

from dsh_core.cli.screen import printable

_MODES = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)
"""Nothing comes from a closed input and notes are lost; a result that is lost is a failure, and
writing to what is open for reading fails."""

_LOST = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE}


def open_closed_streams() -> None:
    """Open what the caller closed (`<&-`, `2>&-`) on the null device.

    Else the next file that is opened gets the number, and output meant for people goes there.
    """
    for number, mode in enumerate(_MODES):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")


def say(text: str) -> None:
    """Write a line for the person to standard error; control characters are shown, not sent.

    Where nobody can read it any more, as on a full disk, nobody is left to be told so.
    """
    try:
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        mute(sys.stderr)


def survive_any_locale() -> None:
    """Printing never fails, whatever the locale can show."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def is_lost_output(error: OSError) -> bool:
    """Whether an error comes from writing to an open stream; one about a file would name it."""
    return error.filename is None and error.errno in _LOST


def lost_output() -> OSError | None:
    """Write out what is buffered; return why standard output could not take it.

    A stream that failed is quiet after this: the interpreter's exit would say it once more.
    """
    try:
        sys.stderr.flush()
    except OSError:
        mute(sys.stderr)
    try:
        sys.stdout.flush()
    except OSError as error:
        mute(sys.stdout)
        return error
    return None


def mute(stream: TextIO) -> None:
    """Let a stream that cannot be written lead to the null device, its buffered rest too."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
    stream.flush()


def _stream(number: int, mode: Literal["r", "w"]) -> TextIO:
    return os.fdopen(number, mode, buffering=1, encoding="utf-8", errors="replace", closefd=False)
