"""The contract of session stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dsh_core.events import Event
from dsh_core.record import record
from dsh_core.session.header import SessionHeader
from dsh_core.session.summary import SessionSummary


@record()
class StoredSession:
    """A session as loaded: its header and every durable event, oldest first."""

    header: SessionHeader
    events: tuple[Event, ...]


@record()
class SessionPage:
    """Some stored sessions, newest first. `cursor` continues the list; None = the end."""

    sessions: tuple[SessionSummary, ...]
    cursor: str | None = None


class SessionLock(Protocol):
    """Held while a process may write a session."""

    async def release(self) -> None:
        """Give the lock back. Safe to call again."""


class Store(Protocol):
    """Where sessions are kept. The core loads, lists, deletes and locks; its plugin appends."""

    async def append(self, header: SessionHeader, events: Sequence[Event]) -> None:
        """Make events durable; `seq` is contiguous with what is stored."""

    async def load(self, session_id: str) -> StoredSession:
        """Return a session. Raises `UserError` when there is none, or it is damaged."""

    async def list(
        self, *, cursor: str | None = None, limit: int = 50, cwd: str | None = None
    ) -> SessionPage:
        """Return a page of sessions, the last updated first; `cwd` = only those of this folder.

        A session that cannot be read is listed with its `problem`.
        """

    async def delete(self, session_id: str) -> None:
        """Forget a session. Raises `UserError` when there is none or it is in use."""

    async def lock(self, session_id: str) -> SessionLock:
        """Become the one writer. Raises `UserError` naming the owner when there is another."""
