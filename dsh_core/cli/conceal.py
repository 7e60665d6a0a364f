"""Keeping keys out of `/proc/<pid>/environ`, where every command an agent runs could read them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from dsh_core.secrets import is_secret_variable


def conceal_environment(holds_secret: Callable[[str], bool]) -> None:
    """Overwrite secret values in the process's own environment block with stars.

    A value is secret by its variable's name, or when `holds_secret` says so.

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
        text = value.decode("utf-8", "replace")
        if value and (is_secret_variable(name.decode("utf-8", "replace")) or holds_secret(text)):
            address = getenv(name)
            if address and ctypes.string_at(address) == value:
                ctypes.memset(address, ord("*"), len(value))
