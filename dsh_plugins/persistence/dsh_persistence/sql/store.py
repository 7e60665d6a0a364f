"""Sessions in a database."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, tuple_

from dsh_core import Event, SessionHeader, SessionPage, StoredSession
from dsh_persistence.contract import Held, SessionStore
from dsh_persistence.failures import bad_cursor, no_session
from dsh_persistence.mending import Repair
from dsh_persistence.migrations import Migrations
from dsh_persistence.redaction import Scrub, as_it_is
from dsh_persistence.sql.database import Database
from dsh_persistence.sql.owners import Owner
from dsh_persistence.sql.rows import Rows, folder_key
from dsh_persistence.sql.sessions import SqlSessions
from dsh_persistence.sql.tables import events as event_table
from dsh_persistence.sql.tables import sessions
from dsh_persistence.worker import Worker


class SqlStore(SessionStore):
    """Keeps sessions in SQLite or PostgreSQL. Each append is one transaction.

    Args:
        url: Of the database.
        is_synced: Whether commits are forced to the disk.
        scrub: Takes known secrets out of what is written.
        migrations: How sessions of older formats are read.
    """

    def __init__(
        self,
        url: str,
        *,
        is_synced: bool = True,
        scrub: Scrub = as_it_is,
        migrations: Migrations | None = None,
    ):
        migrations = migrations or Migrations()
        self._database = Database(url, is_synced=is_synced)
        self._sessions = SqlSessions(self._database, scrub, migrations)
        self._rows = Rows(self._database.name, migrations)
        self._writer = Worker("dsh-session-writer")
        self._reader = Worker("dsh-session-reader")

    async def append(
        self, header: SessionHeader, events: Sequence[Event], *, flush: bool = True
    ) -> None:
        """Store events; what is committed is flushed."""
        await self._writer.run(self._sessions.append, header, events)

    async def count(self, header: SessionHeader) -> int:
        """Return how many events are stored; see `SessionStore`."""
        return await self._writer.run(self._sessions.count, header)

    async def load(self, session_id: str) -> StoredSession:
        """Return a session."""
        return await self._reader.run(self._load, session_id)

    async def list(
        self, *, cursor: str | None = None, limit: int = 50, cwd: str | None = None
    ) -> SessionPage:
        """Return a page of sessions."""
        return await self._reader.run(self._list, cursor, max(1, limit), cwd)

    async def delete(self, session_id: str) -> None:
        """Remove a session."""
        await self._writer.run(self._sessions.delete, session_id)

    async def repair(self, session_id: str) -> Repair:
        """Write a damaged session anew; as it was it is kept under another id."""
        return await self._writer.run(self._sessions.repair, session_id)

    async def lock(self, session_id: str) -> Held:
        """Become the one writer."""
        owner = await self._writer.run_or_undo(
            self._sessions.own, self._sessions.disown, session_id
        )
        return Held(self, session_id, owner)

    def owner(self, session_id: str) -> Owner | None:
        """Return the lock that this store has of a session."""
        return self._sessions.owner(session_id)

    async def give_back(self, session_id: str, owner: object) -> None:
        """Give back a lock, unless it was given back and taken anew since."""
        await self._writer.run(self._sessions.disown, session_id, owner)

    async def close(self) -> None:
        """Give back all locks and connections."""
        await self._writer.run(self._sessions.close)
        self._writer.stop()
        self._reader.stop()
        self._database.dispose()

    # -------------------------------------------------------------------------- reading

    def _load(self, session_id: str) -> StoredSession:
        mine = event_table.c.session == session_id
        wanted = select(event_table.c.line).where(mine).order_by(event_table.c.seq)
        with self._database.reader() as connection:
            row = None
            if connection is not None:
                header = select(sessions).where(sessions.c.id == session_id)
                row = connection.execute(header).first()
            if connection is None or row is None:
                raise no_session(session_id)
            return self._rows.session(row, connection.execute(wanted))

    def _list(self, cursor: str | None, limit: int, cwd: str | None) -> SessionPage:
        key = (sessions.c.updated_at, sessions.c.id)
        wanted = select(sessions).order_by(key[0].desc(), key[1].desc()).limit(limit + 1)
        if cwd is not None:
            wanted = wanted.where(sessions.c.folder == folder_key(cwd))
        if cursor is not None:
            wanted = wanted.where(tuple_(*key) < tuple_(*_parsed(cursor)))
        with self._database.reader() as connection:
            rows = connection.execute(wanted).all() if connection is not None else []
        page = rows[:limit]
        rest = f"{page[-1].updated_at!r}:{page[-1].id}" if len(rows) > limit else None
        return SessionPage(tuple(map(self._rows.summary, page)), rest)


def _parsed(cursor: str) -> tuple[float, str]:
    updated_at, _, session_id = cursor.partition(":")
    try:
        return float(updated_at), session_id
    except ValueError:
        raise bad_cursor(cursor) from None
