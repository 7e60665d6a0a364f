"""`openat2(2)`: opening a folder in one step that follows no link, where the kernel has it."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_OPENAT2 = 437
"""The same number on every architecture; Linux 5.6."""

_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    """`struct open_how`."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(folder: int, path: str, flags: int) -> int | None:
    """Open a relative path below a folder; None where that fails, for whatever reason.

    It fails on any link on the way, and on anything that leads out of the folder.
    """
    library = _library()
    if library is None:
        return None
    how = _How(flags | os.O_CLOEXEC, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    number = ctypes.c_long(_OPENAT2)
    name = ctypes.c_char_p(os.fsencode(path))
    found: int = library.syscall(number, ctypes.c_int(folder), name, ctypes.byref(how), size)
    return found if found >= 0 else None


@cache
def _library() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.syscall.restype = ctypes.c_long
    except (OSError, AttributeError):
        return None
    return library
