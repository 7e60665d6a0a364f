"""Work on the log of an idle agent: a one-shot turn that an abort, or disposal, ends early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dsh_core.errors import AgentError
from dsh_core.events import Trigger, TurnEndReason
from dsh_core.session import Session


class Maintenance:
    """One exclusive section. Made in the task that does the work."""

    def __init__(self, session: Session, trigger: Trigger):
        self._session = session
        self._trigger = trigger
        self._task = asyncio.current_task()
        self._reason: TurnEndReason | None = None

    def abort(self, reason: TurnEndReason) -> None:
        """Cancel the work; it ends with a reason. The first one counts."""
        if self._reason is None and self._task is not None:
            self._reason = reason
            self._task.cancel()

    def abandon(self) -> None:
        """Close the turn of work that ignored its abort, and keep that work out of the log."""
        turn = self._session.open_turn
        if self._task is not None:
            self._session.bar(self._task)
        if turn is not None and self._reason is not None:
            self._session.close_turn(turn, self._reason)

    def __str__(self) -> str:
        return self._trigger.type

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold the turn open. Raises `AgentError` where an abort ended the work."""
        assert self._task is not None
        requests = self._task.cancelling()
        try:
            with self._session.one_shot(self._trigger, aborted=lambda: self._reason):
                yield
                if self._reason is not None:
                    await asyncio.sleep(0)  # the cancellation is still on its way
        except asyncio.CancelledError:
            if self._reason is None or self._task.uncancel() > requests:
                raise
            raise AgentError(f"{self._trigger.type}: ended early: {self._reason.type}") from None
