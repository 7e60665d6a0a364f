"""Locks of sessions in a database.

PostgreSQL's advisory locks belong to a connection, and go when it does, on whatever machine its
owner ran. SQLite has none; a lock file beside it does the same for one machine.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text

from dsh_persistence.failures import InUseError
from dsh_persistence.owner import Ownership, in_use, signature
from dsh_persistence.sql.tables import owners


class Owner(ABC):
    """A taken lock."""

    @abstractmethod
    def release(self) -> None:
        """Give it back. Safe to call again."""


class FileOwner(Owner):
    """A lock file in the folder `DATABASE.locks`."""

    def __init__(self, database: Path, session_id: str):
        folder = database.with_name(f"{database.name}.locks")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = Ownership.take(folder / f"{session_id}.lock", session_id)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()


class ConnectionOwner(Owner):
    """An advisory lock of PostgreSQL."""

    def __init__(self, connection: Connection, session_id: str):
        self._connection: Connection | None = None
        self._key = _key(session_id)
        self._session = session_id
        take = text("SELECT pg_try_advisory_lock(:key)")
        if not connection.execute(take, {"key": self._key}).scalar():
            raise self._refusal(connection)
        self._connection = connection
        connection.execute(delete(owners).where(owners.c.session == session_id))
        signed = json.dumps(signature())
        connection.execute(insert(owners).values(session=session_id, owner=signed))

    def _refusal(self, connection: Connection) -> InUseError:
        wanted = select(owners.c.owner).where(owners.c.session == self._session)
        signed = connection.execute(wanted).scalar()
        owner: dict[str, Any] = json.loads(signed) if signed else {}
        return in_use(self._session, owner)

    def release(self) -> None:
        """Give it back, where the connection lives; with it the lock went anyway."""
        connection, self._connection = self._connection, None
        if connection is None or connection.closed or connection.invalidated:
            return
        connection.execute(delete(owners).where(owners.c.session == self._session))
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": self._key})


def _key(session_id: str) -> int:
    digest = hashlib.sha256(b"dsh session " + session_id.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
