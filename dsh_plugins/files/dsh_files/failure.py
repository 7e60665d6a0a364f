"""What goes wrong with a path, in words for the model and a code for programs."""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dsh_core import ToolError

SHOWN_CHARACTERS = 400
"""A path in a message is cut to this: a model can send one of any length."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_INVALID_PATH = "FS_INVALID_PATH"
_BY_ERRNO = {
    errno.ENOENT: ("FS_NOT_FOUND", "does not exist"),
    errno.ENOTDIR: ("FS_NOT_DIRECTORY", "has a part that is not a folder"),
    errno.EISDIR: ("FS_NOT_REGULAR_FILE", "is a folder"),
    errno.ENXIO: ("FS_NOT_REGULAR_FILE", "is not a regular file"),
    errno.EAGAIN: ("FS_NOT_REGULAR_FILE", "has no data to give without waiting"),
    errno.EACCES: ("FS_PERMISSION_DENIED", "may not be used: permission denied"),
    errno.EPERM: ("FS_PERMISSION_DENIED", "may not be used: operation not permitted"),
    errno.EROFS: ("FS_PERMISSION_DENIED", "is on a read-only file system"),
    errno.ENAMETOOLONG: (_INVALID_PATH, "is too long a name"),
    errno.EINVAL: (_INVALID_PATH, "is not a usable name here"),
    errno.ELOOP: (_INVALID_PATH, "is, or goes through, a link that leads in a circle"),
    errno.EBUSY: ("FS_BUSY", "is a mount point or in use by the system and cannot be replaced"),
    errno.ENOSPC: ("FS_NO_SPACE", "cannot be written: no space left on the device"),
    errno.EDQUOT: ("FS_NO_SPACE", "cannot be written: the disk quota is used up"),
    errno.EFBIG: ("FS_NO_SPACE", "cannot be written: too large for this file system"),
}

_KINDS = (
    (stat.S_ISDIR, "a folder (glob lists it)"),
    (stat.S_ISFIFO, "a named pipe (FIFO)"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link that leads in a circle"),
)


def shown(path: str | Path) -> str:
    """Return a path as it can stand in a line of UTF-8 text, whatever bytes it is made of."""
    text = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
    text = _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
    if len(text) > SHOWN_CHARACTERS:
        half = SHOWN_CHARACTERS // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text


def os_failure(error: OSError, written: str | Path) -> ToolError:
    """Return the failure an `OSError` about the path stands for."""
    code, words = _BY_ERRNO.get(
        error.errno or 0, ("FS_IO_ERROR", f"cannot be used: {error.strerror or error}")
    )
    return ToolError(f"{shown(written)} {words}.", code=code)


@contextmanager
def explained(written: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a failure that names the path as it was written."""
    try:
        yield
    except OSError as error:
        raise os_failure(error, written) from error


def refuse_unless_regular(status: os.stat_result, written: str | Path) -> None:
    """Refuse everything but a regular file, by its type."""
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((words for test, words in _KINDS if test(status.st_mode)), "not a regular file")
    raise ToolError(
        f"{shown(written)} is {kind}; only regular files can be used.", code="FS_NOT_REGULAR_FILE"
    )


def stop_if(cancelled: threading.Event) -> None:
    """Raise once the call was cancelled; long loops call it."""
    if cancelled.is_set():
        raise ToolError("The call was cancelled.", code="ABORTED")
