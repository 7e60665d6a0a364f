"""Brings one session's log to the store, a little behind it.

What is still to be written is simply the end of `session.events`: a failed write loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dsh_core import Secrets, Session, error_chain
from dsh_persistence.contract import SessionStore
from dsh_persistence.failures import InUseError, StoreError
from dsh_persistence.redaction import ready, without_secrets

log = logging.getLogger("dsh.persistence")

BATCH_EVENTS = 5_000
"""Events that are encoded at once; bounds the memory a long backlog takes."""


class Writer:
    """Writes behind one live session.

    Args:
        store: Where to.
        session: What.
        secrets: What must not be written.
        window_seconds: How long events are gathered.
        report: Told about failures that nobody waits for, once for each cause in a row.
    """

    def __init__(
        self,
        store: SessionStore,
        session: Session,
        secrets: Secrets,
        window_seconds: float,
        report: Callable[[Session, BaseException], None],
    ):
        self._store = store
        self._session = session
        self._secrets = secrets
        self._window_seconds = window_seconds
        self._report = report
        self._written: int | None = None
        self._owner: object | None = None
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._background: asyncio.Task[None] | None = None
        self._failure = ""
        self.is_stored = False

    def poke(self) -> None:
        """Write soon. Called for every event."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._window_seconds, self._start)

    async def hold(self) -> None:
        """Become the session's one writer, and see that its id is free.

        Raises `InUseError`, `TakenError`, `StoreError`.
        """
        if self._written is None:
            async with self._turn:
                await self._begin()

    async def drain(self, *, flush: bool) -> None:
        """Write all events there are now. Raises what the store raises; they stay to be written."""
        if not flush and self._is_written:
            return
        # Cancelling the caller must not leave it open how far the writing came.
        task = asyncio.ensure_future(self._write(flush=flush))
        task.add_done_callback(_noted)
        await asyncio.shield(task)

    async def close(self) -> None:
        """Write what is left and give the lock back; failures are reported."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._session.events:
                await self.drain(flush=True)
        except Exception as error:  # noqa: BLE001 - reported; the lock must go back
            self._report(self._session, error)
        finally:
            if self._owner is not None:
                await self._store.give_back(self._session.id, self._owner)

    def report_once(self, error: BaseException) -> None:
        """Report a failure unless the last one was the same."""
        said = error_chain(error)
        if said != self._failure:
            self._failure = said
            self._report(self._session, error)

    @property
    def _is_written(self) -> bool:
        return self._written is not None and self._written >= len(self._session.events)

    def _start(self) -> None:
        self._timer = None
        if self._background is None or self._background.done():
            self._background = asyncio.ensure_future(self._write_behind())
        else:
            self.poke()

    async def _write_behind(self) -> None:
        try:
            await self._write(flush=False, may_wait=True)
        except Exception as error:  # noqa: BLE001 - nobody waits: it is reported
            self.report_once(error)

    async def _write(self, *, flush: bool, may_wait: bool = False) -> None:
        async with self._turn:
            try:
                await self._begin()
                await self._append(flush=flush, may_wait=may_wait)
            except BaseException:
                self._written = None  # the store knows how much of it is stored
                raise
        if self._failure:
            self._failure = ""
            log.info("session %s is stored again", self._session.id)

    async def _begin(self) -> None:
        """Take the lock where nobody of ours has it, and ask how much is stored."""
        header = self._session.header
        owner = self._store.owner(header.id)
        if self._written is not None and owner is self._owner:
            return
        if self._owner is not None and owner not in (None, self._owner):
            raise InUseError(f"session {header.id!r} was resumed by another agent meanwhile")
        self._written = await self._store.count(header)
        self._owner = self._store.owner(header.id)
        self.is_stored = self._written > 0

    async def _append(self, *, flush: bool, may_wait: bool) -> None:
        events, header = self._session.events, self._session.header
        assert self._written is not None
        end = len(events)
        while True:
            batch = events[self._written : min(end, self._written + BATCH_EVENTS)]
            is_last = self._written + len(batch) == end
            if not is_last:
                batch = batch[: ready(batch, self._secrets) or len(batch)]
            elif may_wait:
                batch = batch[: ready(batch, self._secrets)]
            if batch or flush:
                clean = without_secrets(batch, self._secrets.scrub)
                await self._store.append(header, clean, flush=flush and is_last)
                self._written += len(batch)
                self.is_stored = self.is_stored or bool(batch)
            if is_last:
                return


def _noted(task: asyncio.Future[None]) -> None:
    """Take note of a failure whose caller was cancelled."""
    if not task.cancelled() and isinstance(error := task.exception(), StoreError):
        log.info("a session was not written: %s", error)
