"""Sessions in plain text files, one folder per project, one file per session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dsh_core import Event, SessionHeader, SessionPage, StoredSession
from dsh_persistence.contract import Held, SessionStore
from dsh_persistence.disk import Disk
from dsh_persistence.listing import page_of
from dsh_persistence.mending import Repair
from dsh_persistence.migrations import Migrations
from dsh_persistence.owner import Ownership
from dsh_persistence.redaction import Scrub, as_it_is
from dsh_persistence.session_file import Sync, Ways
from dsh_persistence.session_files import SessionFiles
from dsh_persistence.worker import Worker


class JsonlStore(SessionStore):
    """Keeps each session in `ROOT/PROJECT/ID.jsonl`; beside it `ID.lock` while it is written.

    All writing happens in one thread, reading in another.

    Args:
        root: The folder; made when something is stored.
        sync: When files are forced to the disk.
        scrub: Takes known secrets out of what is written.
        disk: What files are written with.
        migrations: How files of older formats are read.
    """

    def __init__(
        self,
        root: Path,
        *,
        sync: Sync = "flush",
        scrub: Scrub = as_it_is,
        disk: Disk | None = None,
        migrations: Migrations | None = None,
    ):
        self.root = root
        self._migrations = migrations or Migrations()
        self._files = SessionFiles(root, Ways(disk or Disk(), sync, scrub), self._migrations)
        self._writer = Worker("dsh-session-writer")
        self._reader = Worker("dsh-session-reader")

    async def append(
        self, header: SessionHeader, events: Sequence[Event], *, flush: bool = True
    ) -> None:
        """Store events; see `SessionStore`."""
        await self._writer.run(self._files.append, header, events, flush=flush)

    async def count(self, header: SessionHeader) -> int:
        """Return how many events are stored; see `SessionStore`."""
        return await self._writer.run(self._files.count, header)

    async def load(self, session_id: str) -> StoredSession:
        """Return a session; nothing is changed, a torn end is left out."""
        found = await self._reader.run(self._files.read, session_id)
        return StoredSession(found.header, found.events)

    async def list(
        self, *, cursor: str | None = None, limit: int = 50, cwd: str | None = None
    ) -> SessionPage:
        """Return a page of sessions; reads the beginning and the end of their files only."""
        return await self._reader.run(page_of, self.root, self._migrations, cursor, limit, cwd)

    async def delete(self, session_id: str) -> None:
        """Remove a session's files."""
        await self._writer.run(self._files.delete, session_id)

    async def repair(self, session_id: str) -> Repair:
        """Write a damaged file anew; as it was it is kept beside it."""
        return await self._writer.run(self._files.repair, session_id)

    async def lock(self, session_id: str) -> Held:
        """Become the one writer."""
        owner = await self._writer.run_or_undo(self._files.own, self._files.disown, session_id)
        return Held(self, session_id, owner)

    def owner(self, session_id: str) -> Ownership | None:
        """Return the lock that this store has of a session."""
        return self._files.owner(session_id)

    async def give_back(self, session_id: str, owner: object) -> None:
        """Give back a lock, unless it was given back and taken anew since."""
        await self._writer.run(self._files.disown, session_id, owner)

    async def close(self) -> None:
        """Give back all locks and files."""
        await self._writer.run(self._files.close)
        self._writer.stop()
        self._reader.stop()
