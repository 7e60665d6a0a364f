"""Progress of a running call: from any thread into the log, at most ten times a second."""

from __future__ import annotations

import asyncio
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
    """Collects a call's progress; the newest text wins within an interval."""

    def __init__(self, session: Session, call: Call, loop: asyncio.AbstractEventLoop):
        self._session = session
        self._call = call
        self._loop = loop
        self._pending: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def report(self, text: str) -> None:
        """Take a line of progress, from any thread. Never raises."""
        try:
            self._loop.call_soon_threadsafe(self._take, text)
        except RuntimeError:
            return  # the loop is closed: nobody looks any more

    def close(self) -> None:
        """The call ended; what comes now is late."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _take(self, text: str) -> None:
        if self._is_closed:
            return
        self._pending = clean_text(text)[-LIMIT_CHARACTERS:]
        if self._timer is None:
            self._write()
            self._timer = self._loop.call_later(INTERVAL_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._pending is not None and not self._is_closed:
            self._write()
            self._timer = self._loop.call_later(INTERVAL_SECONDS, self._tick)

    def _write(self) -> None:
        text, self._pending = self._pending or "", None
        call = self._call
        try:
            self._session.append(ToolProgress(call.turn, call.step, call.id, text))
        except HarnessError:
            self._is_closed = True  # refused by a plugin, or the turn is over: progress may stop
