"""A session store in memory, and the plugin that answers with it."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_core import Event, Harness, SessionHeader, UserError, hookimpl
from dsh_core.session import SessionPage, StoredSession, summarise


class MemoryLock:
    """Held by one owner at a time."""

    def __init__(self, store: MemoryStore, session_id: str):
        self._store = store
        self._id = session_id

    async def release(self) -> None:
        self._store.locked.discard(self._id)


class MemoryStore:
    """Keeps headers and events in dictionaries."""

    def __init__(self) -> None:
        self.headers: dict[str, SessionHeader] = {}
        self.events: dict[str, list[Event]] = {}
        self.locked: set[str] = set()

    @hookimpl
    async def session_store(self, harness: Harness) -> MemoryStore:
        return self

    async def append(self, header: SessionHeader, events: Sequence[Event]) -> None:
        self.headers[header.id] = header
        self.events.setdefault(header.id, []).extend(events)

    async def load(self, session_id: str) -> StoredSession:
        if session_id not in self.headers:
            raise UserError(f"there is no session {session_id!r}")
        return StoredSession(self.headers[session_id], tuple(self.events[session_id]))

    async def list(
        self, *, cursor: str | None = None, limit: int = 50, cwd: str | None = None
    ) -> SessionPage:
        wanted = [header for header in self.headers.values() if cwd in (None, header.cwd)]
        return SessionPage(tuple(summarise(one, self.events[one.id]) for one in wanted[:limit]))

    async def delete(self, session_id: str) -> None:
        del self.headers[session_id], self.events[session_id]

    async def lock(self, session_id: str) -> MemoryLock:
        if session_id in self.locked:
            raise UserError(f"session {session_id!r} is in use by process 1")
        self.locked.add(session_id)
        return MemoryLock(self, session_id)
