"""Progress of a running call: from any thread into the log, at most ten times a second."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from dsh_core.codec import clean_text
from dsh_core.errors import HarnessError
from dsh_core.events import ToolProgress
from dsh_core.policy import Call

if TYPE_CHECKING:
    from dsh_core.session import Session

INTERVAL_SECONDS = 0.1
LIMIT_CHARACTERS = 500


class Progress:
    """Collects a call's progress; the newest text wins within an interval.

    Made on the event loop's thread. Nothing is written after `close`.
    """

    def __init__(self, session: Session, call: Call):
        self._session = session
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._newest: deque[str] = deque(maxlen=1)  # threads append, the loop pops: both atomic
        self._is_awaited = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def report(self, text: str) -> None:
        """Take a line of progress, from any thread. Never raises."""
        self._newest.append(text if isinstance(text, str) else f"({type(text).__name__})")
        if self._is_awaited or self._is_closed:
            return  # whoever looks next takes the newest text
        self._is_awaited = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            return  # the loop is closed: nobody looks any more

    def close(self) -> None:
        """The call ended; what comes now is late."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        """Write the newest text; look again after the interval, until there is none."""
        self._timer = None
        self._is_awaited = False  # before the look: a text that comes from now on is announced
        if self._is_closed or not self._newest:
            return
        self._is_awaited = True
        self._timer = self._loop.call_later(INTERVAL_SECONDS, self._tick)
        self._write(clean_text(self._newest.pop())[-LIMIT_CHARACTERS:])

    def _write(self, text: str) -> None:
        call = self._call
        try:
            self._session.append(ToolProgress(call.turn, call.step, call.id, text))
        except HarnessError:
            self.close()  # refused by a plugin, or the turn is over: progress may stop
