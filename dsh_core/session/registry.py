"""The live sessions of a harness, and forking."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dsh_core import hookspecs
from dsh_core.errors import SessionError, UserError
from dsh_core.events import Event, TurnEnd
from dsh_core.hooks import Hooks
from dsh_core.session.header import FORMAT_VERSION, SessionHeader
from dsh_core.session.log import Session
from dsh_core.session.store import Store, StoredSession

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Sessions:
    """Creates, finds and forks sessions.

    Args:
        hooks: The harness's hooks, for sessions without an agent.
        store: Returns the store, or None when nobody stores sessions.

    """

    def __init__(self, hooks: Hooks, store: Callable[[], Store | None]):
        self._hooks = hooks
        self._store = store
        self._live: dict[str, Session] = {}
        self._flushes: dict[asyncio.Task[None], Session] = {}

    def get(self, session_id: str) -> Session | None:
        """Return a live session."""
        return self._live.get(session_id)

    def list(self) -> list[Session]:
        """Return the live sessions, oldest first."""
        return list(self._live.values())

    def create(
        self,
        session_id: str | None = None,
        *,
        seed: Sequence[Event] = (),
        cwd: Path | None = None,
        agent: str | None = None,
        parent: str | None = None,
        hooks: Hooks | None = None,
        header: SessionHeader | None = None,
        is_announced: bool = True,
    ) -> Session:
        """Make a live session. Sync and without I/O.

        `is_announced=False` leaves `session_created` to the caller. Raises `SessionError` when a
        live session has the id, `UserError` for an id that no file could have.
        """
        session_id = checked_id(session_id or new_session_id())
        if session_id in self._live:
            raise SessionError(f"session {session_id!r} is live already")
        header = header or SessionHeader(
            session_id,
            time.time(),
            cwd=str(cwd) if cwd else None,
            agent=agent,
            parent=parent,
            seed_length=len(seed),
        )
        session = Session(header, hooks or self._hooks, seed=seed, flush_soon=self.flush_soon)
        self._live[session_id] = session
        if is_announced:
            self.announce(session)
        return session

    def announce(self, session: Session) -> None:
        """Emit `session_created`."""
        session.hooks.emit(hookspecs.session_created, session=session)

    def forget(self, session: Session) -> None:
        """Take a session out of the live ones; a successor with the same id stays."""
        if self._live.get(session.id) is session:
            del self._live[session.id]

    async def fork(
        self, session_id: str, *, at_turn: int | None = None, new_id: str | None = None
    ) -> Session:
        """Make a live session that starts with another's turns; see `branch`."""
        child = await self.branch(session_id, at_turn=at_turn, new_id=new_id)
        return self.create(child.header.id, seed=child.events, header=child.header)

    async def branch(
        self, session_id: str, *, at_turn: int | None = None, new_id: str | None = None
    ) -> StoredSession:
        """Return header and events of a fork, up to and including `at_turn`; makes nothing live.

        Works on live and stored sessions; the parent is not touched. Raises `UserError` when
        there is no such session, or no completed turn of that number, or the id cannot be one.
        """
        header, events = await self._source(session_id)
        seed = until_turn(events, at_turn, session_id)
        child = replace(
            header,
            id=checked_id(new_id or new_session_id()),
            created_at=time.time(),
            parent=session_id,
            seed_length=len(seed),
            version=FORMAT_VERSION,
        )
        return StoredSession(child, tuple(seed))

    async def _source(self, session_id: str) -> tuple[SessionHeader, Sequence[Event]]:
        live = self._live.get(session_id)
        if live is not None:
            return live.header, live.events
        store = self._store()
        if store is None:
            raise UserError(
                f"there is no session {session_id!r}",
                remedy="Nothing stores sessions here: pip install dsh-persistence.",
            )
        stored = await store.load(session_id)
        return stored.header, stored.events

    def flush_soon(self, session: Session) -> None:
        """Start a `session_flush` that `settle` waits for."""
        if not session.hooks.has(hookspecs.session_flush):
            return
        task = asyncio.get_running_loop().create_task(self.flush(session))
        self._flushes[task] = session
        task.add_done_callback(self._flushes.pop)

    async def flush(self, session: Session) -> None:
        """Make the log durable; failures are reported."""
        await session.hooks.parallel(hookspecs.session_flush, session=session)

    async def settle(self, session: Session | None = None) -> None:
        """Wait for the flushes that `flush_soon` started, of one session or of all."""
        while flushes := {t for t, of in self._flushes.items() if session in (None, of)}:
            await asyncio.wait(flushes)


def until_turn(events: Sequence[Event], at_turn: int | None, session_id: str) -> list[Event]:
    """Return the events up to the end of a turn; None = the last turn that ended."""
    for index in range(len(events) - 1, -1, -1):
        data = events[index].data
        if isinstance(data, TurnEnd) and at_turn in (None, data.turn):
            return list(events[: index + 1])
    if at_turn is None:
        return []
    raise UserError(
        f"session {session_id!r} has no completed turn {at_turn}",
        remedy="Fork at the number of a turn that has ended.",
    )


def checked_id(session_id: str) -> str:
    """Return an id that can be a file's name. Raises `UserError` for others."""
    if not _ID.fullmatch(session_id):
        raise UserError(
            f"{session_id!r} cannot be a session id",
            remedy="Use up to 128 letters, digits, `.`, `_` and `-`.",
        )
    return session_id


def new_session_id() -> str:
    """Return an id that sorts by time: seconds, then random."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(4).hex()}"
