"""A limit on silence: cancels the task that waits for the socket when nothing useful comes."""

from __future__ import annotations

import asyncio
from typing import Any


class Watchdog:
    """Watches one stream with one timer, which is moved lazily instead of once per read.

    Set `waiting` to the current task right before it waits for the socket, to None right after:
    time that the consumer takes is not silence. Say `progress` when something useful came and the
    consumer had it.

    Args:
        limit_seconds: Silence allowed; 0 = any.
    """

    __slots__ = (
        "_cancelling",
        "_fired",
        "_handle",
        "_last",
        "_limit",
        "_loop",
        "_now",
        "_owner",
        "waiting",
    )

    def __init__(self, limit_seconds: float):
        self._loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self._cancelling = self._owner.cancelling() if self._owner else 0
        self._fired: asyncio.Task[Any] | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._limit = 0.0
        self.waiting: asyncio.Task[Any] | None = None
        self._now = self._loop.time
        self.limit(limit_seconds)

    def limit(self, seconds: float) -> None:
        """Allow this much silence from now on; 0 = any."""
        self.stop()
        self._limit = seconds
        self._last = self._now()
        if seconds:
            self._handle = self._loop.call_later(seconds, self._check)

    def progress(self) -> None:
        """Count silence from now."""
        self._last = self._now()

    def stop(self) -> None:
        """Watch no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def caught(self) -> bool:
        """Say, on a `CancelledError`, whether it is the watchdog's alone, and take it back if so.

        False where the task was cancelled from elsewhere too: that one goes on.
        """
        task, self._fired = self._fired, None
        if task is None:
            return False
        before = self._cancelling if task is self._owner else 0
        return task.uncancel() <= before

    def _check(self) -> None:
        rest = self._limit
        if self.waiting is not None:
            rest -= self._now() - self._last
        if rest > 0:
            self._handle = self._loop.call_later(rest, self._check)
            return
        self._handle = None
        self._fired = self.waiting
        if self._fired is not None:
            self._fired.cancel()
