"""Who writes a session: one process at a time, by an advisory lock that dies with its owner.

The system takes the lock back when the process ends, however it ends; what stands in the file only
says who holds it. The file is removed while it is locked, so whoever waited for a removed one looks
again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from dsh_persistence.failures import InUseError, storing


class Ownership:
    """A taken lock.

    Args:
        path: The lock's file.
        file: Its descriptor, locked.
    """

    def __init__(self, path: Path, file: int):
        self._path = path
        self._file: int | None = file

    @classmethod
    def take(cls, path: Path, session_id: str) -> Ownership:
        """Take the lock. Raises `InUseError` naming the owner, and `StoreError`."""
        with storing(path):
            while True:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_still_there(path, file):
                        _sign(file)
                        return cls(path, file)
                except BlockingIOError:
                    raise in_use(session_id, _signature(file)) from None
                except BaseException:
                    os.close(file)
                    raise
                os.close(file)

    def release(self) -> None:
        """Give the lock back. Safe to call again."""
        file, self._file = self._file, None
        if file is None:
            return
        with contextlib.suppress(OSError):  # a file that stays is empty of meaning
            self._path.unlink()
        os.close(file)


def in_use(session_id: str, owner: dict[str, Any]) -> InUseError:
    """Return the error that names who writes a session."""
    who = f"process {owner['pid']} on {owner['host']}" if owner else "another process"
    since = owner.get("since")
    when = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(since)) if since else ""
    return InUseError(
        f"session {session_id!r} is in use by {who}{when}",
        remedy=(
            f"Wait until it ends, or go on with a copy: dsh sessions fork {session_id}. "
            "`dsh sessions show` reads it meanwhile."
        ),
    )


def signature() -> dict[str, Any]:
    """Return what this process says of itself as an owner."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}


def _sign(file: int) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(signature()).encode() + b"\n", 0)


def _signature(file: int) -> dict[str, Any]:
    """Return who holds a lock, and close its file; empty while the owner is still signing."""
    try:
        owner = json.loads(os.pread(file, 4096, 0))
        return {"pid": int(owner["pid"]), "host": str(owner["host"]), "since": owner["since"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    finally:
        os.close(file)


def _is_still_there(path: Path, file: int) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(file)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
