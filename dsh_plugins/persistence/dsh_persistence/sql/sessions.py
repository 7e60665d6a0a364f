"""The sessions of one database that this process writes. Everything here belongs to one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from dsh_core import Event, SessionHeader, SummaryFold
from dsh_persistence.failures import StoreError, following, no_session, taken
from dsh_persistence.mending import Repair
from dsh_persistence.migrations import Migrations
from dsh_persistence.owner import in_use, signature
from dsh_persistence.redaction import Scrub
from dsh_persistence.sql.database import Database
from dsh_persistence.sql.owners import ConnectionOwner, FileOwner, Owner
from dsh_persistence.sql.repair import repair_rows
from dsh_persistence.sql.rows import Rows, event_rows, session_row
from dsh_persistence.sql.tables import events as event_table
from dsh_persistence.sql.tables import sessions


class SqlSessions:
    """Writes and locks sessions. Methods raise what `SessionStore` says.

    A connection that failed is closed, and all locks with it: the next call begins anew.
    """

    def __init__(self, database: Database, scrub: Scrub, migrations: Migrations):
        self._database = database
        self._scrub = scrub
        self._migrations = migrations
        self._rows = Rows(database.name, migrations)
        self._connection: Connection | None = None
        self._owned: dict[str, Owner] = {}

    # ------------------------------------------------------------------------- events

    def append(self, header: SessionHeader, events: Sequence[Event]) -> None:
        """Write events that are not stored yet, all or none."""
        with self._connected() as connection:
            self._own(header.id, connection)
            with self._database.transaction(connection):
                self._append(connection, header, events)

    def _append(
        self, connection: Connection, header: SessionHeader, events: Sequence[Event]
    ) -> None:
        row = self._row(connection, header)
        count = row.events if row is not None else 0
        new = following(events, count)
        if not new:
            return
        fold = self._rows.fold(row) if row is not None else SummaryFold()
        for event in new:
            fold.feed(event)
        values = session_row(header, count + len(new), fold, self._scrub)
        if row is None:
            connection.execute(insert(sessions).values(**values))
        else:
            self._upgrade(connection, row)
            connection.execute(update(sessions).where(sessions.c.id == header.id).values(**values))
        connection.execute(insert(event_table), event_rows(header.id, new, self._scrub))

    def _upgrade(self, connection: Connection, row: Row[Any]) -> None:
        """Write a session of an older format anew before something is added to it."""
        if self._rows.header(row)[1] == self._migrations.current:
            return
        mine = event_table.c.session == row.id
        lines = connection.execute(select(event_table).where(mine).order_by(event_table.c.seq))
        stored = self._rows.session(row, lines)
        connection.execute(delete(event_table).where(mine))
        connection.execute(insert(event_table), event_rows(row.id, stored.events, self._scrub))

    def count(self, header: SessionHeader) -> int:
        """Return how many events are stored."""
        with self._connected() as connection:
            self._own(header.id, connection)
            row = self._row(connection, header)
        return row.events if row is not None else 0

    def _row(self, connection: Connection, header: SessionHeader) -> Row[Any] | None:
        row = connection.execute(select(sessions).where(sessions.c.id == header.id)).first()
        if row is not None and row.created_at != header.created_at:
            raise taken(header.id, self._database.name)
        if row is not None:
            self._rows.header(row)  # a newer format, or damage, is left alone
        return row

    # -------------------------------------------------------------------------- owning

    def own(self, session_id: str) -> Owner:
        """Take the lock of a stored session."""
        if session_id in self._owned:
            raise in_use(session_id, signature())
        there = select(sessions.c.id).where(sessions.c.id == session_id)
        with self._connected() as connection:
            if connection.execute(there).first() is None:
                raise no_session(session_id)
            return self._own(session_id, connection)

    def _own(self, session_id: str, connection: Connection) -> Owner:
        owner = self._owned.get(session_id)
        if owner is None:
            if self._database.is_sqlite:
                owner = FileOwner(self._database.file, session_id)
            else:
                owner = ConnectionOwner(connection, session_id)
            self._owned[session_id] = owner
        return owner

    def owner(self, session_id: str) -> Owner | None:
        """Return the lock of a session that is written here; may be asked in any thread."""
        return self._owned.get(session_id)

    def disown(self, session_id: str, owner: object) -> None:
        """Give back a lock, unless somebody else took it since."""
        held = self._owned.get(session_id)
        if held is None or held is not owner:
            return
        del self._owned[session_id]
        with self._database.saying():
            held.release()

    def delete(self, session_id: str) -> None:
        """Remove a session."""
        owner = self.own(session_id)
        try:
            with self._connected() as connection, self._database.transaction(connection):
                connection.execute(delete(event_table).where(event_table.c.session == session_id))
                connection.execute(delete(sessions).where(sessions.c.id == session_id))
        finally:
            self.disown(session_id, owner)

    def repair(self, session_id: str) -> Repair:
        """Write a damaged session anew in one transaction."""
        owner = self.own(session_id)
        try:
            with self._connected() as connection, self._database.transaction(connection):
                return repair_rows(connection, session_id, self._rows, self._scrub)
        finally:
            self.disown(session_id, owner)

    # ---------------------------------------------------------------------- connection

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Give the connection; one that fails is dropped."""
        try:
            if self._connection is None:
                self._connection = self._database.connect()
            with self._database.saying():
                yield self._connection
        except StoreError:
            self._drop()
            raise

    def _drop(self) -> None:
        """Begin anew after a failure. Lock files stay: only connections are in doubt."""
        connection, self._connection = self._connection, None
        if not self._database.is_sqlite:
            self._owned.clear()
        if connection is not None:
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Give back all locks and the connection."""
        for session_id, owner in [*self._owned.items()]:
            self.disown(session_id, owner)
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._database.saying():
                connection.close()
