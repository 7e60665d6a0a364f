"""Keeping keys out of `/proc/<pid>/environ`, where every command an agent runs could read them."""

from __future__ import annotations

import ctypes
import os
import re

_SECRET = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE
)


def conceal_environment() -> None:
    """Overwrite secret values in the process's own environment block with stars.

    The kernel shows that block as it lies in memory. Python copied it when it started, so
    `os.environ` keeps the values; programs that inherit the block see stars. Does nothing where
    the C library cannot be reached.
    """
    try:
        getenv = ctypes.CDLL(None).getenv
    except (OSError, AttributeError, TypeError):
        return
    getenv.restype = ctypes.c_void_p
    getenv.argtypes = [ctypes.c_char_p]
    for name, value in os.environb.items():
        if value and _SECRET.search(name.decode("utf-8", "replace")):
            address = getenv(name)
            if address and ctypes.string_at(address) == value:
                ctypes.memset(address, ord("*"), len(value))
