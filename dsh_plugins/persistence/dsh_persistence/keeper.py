"""All writers of a harness: one for each live session."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dsh_core import Agent, Session, ToolOutput, error_chain
from dsh_persistence.contract import SessionStore
from dsh_persistence.failures import StoreError
from dsh_persistence.settings import Settings
from dsh_persistence.writer import Writer

if TYPE_CHECKING:
    from dsh_core import Harness

log = logging.getLogger("dsh.persistence")

NOT_STORED = "SESSION_NOT_STORED"


class Keeper:
    """Starts, finds and ends writers. Idle while somebody else stores the sessions."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._harness: Harness | None = None
        self._store: SessionStore | None = None
        self._writers: dict[Session, Writer] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, harness: Harness) -> None:
        """Begin to write what is live already, and what comes."""
        self._harness = harness
        self._store = harness.store if isinstance(harness.store, SessionStore) else None
        for session in harness.sessions.list():
            self.notice(session)

    def notice(self, session: Session) -> None:
        """Write a session's new events soon. Called for every event."""
        writer = self._writers.get(session) or self._begin(session)
        if writer is not None:
            writer.poke()

    async def hold(self, session: Session) -> None:
        """Become the one writer of a session, or raise what forbids it.

        Where the system fails us the session goes on in memory, and the failure is reported.
        """
        writer = self._writers.get(session) or self._begin(session)
        if writer is None:
            return
        try:
            await writer.hold()
        except StoreError as error:
            writer.report_once(error)

    async def checkpoint(self, agent: Agent) -> ToolOutput | None:
        """Write everything up to the call that is about to run; an output forbids it to run.

        A session of which nothing could be stored yet lives in memory, calls and all. One that is
        stored must not fall behind what its calls do.
        """
        writer = self._writers.get(agent.session)
        if writer is None or not self._settings.checkpoint:
            return None
        try:
            await writer.drain(flush=False)
        except StoreError as error:
            writer.report_once(error)
            if not writer.is_stored:
                return None
            text = f"The call did not run, because it could not be recorded: {error.message}."
            return ToolOutput.error(NOT_STORED, text)
        return None

    async def flush(self, session: Session) -> None:
        """Make everything that is in the log now durable, or raise why it is not."""
        writer = self._writers.get(session) or self._begin(session)
        if writer is not None and session.events:
            await writer.drain(flush=True)

    def end(self, session: Session) -> None:
        """Write what is left of a session and give its lock back, soon."""
        writer = self._writers.pop(session, None)
        if writer is not None:
            task = asyncio.get_running_loop().create_task(writer.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        """End all writers and close the store."""
        for session in [*self._writers]:
            self.end(session)
        while self._closing:
            await asyncio.wait(self._closing)
        if self._store is not None:
            await self._store.close()

    def _begin(self, session: Session) -> Writer | None:
        if self._store is None or self._harness is None:
            return None
        writer = Writer(
            self._store,
            session,
            self._harness.secrets,
            self._settings.window_seconds,
            self._report,
        )
        self._writers[session] = writer
        return writer

    def _report(self, session: Session, error: BaseException) -> None:
        assert self._harness is not None
        agent = self._harness.agents.get(session.id)
        if agent is None:
            log.error("%s", error_chain(error))
            return
        turn, step = session.open_turn or 0, session.open_step or 0
        self._harness.report_error(agent, turn, step, error)
