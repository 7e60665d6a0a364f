"""What the writer of this plugin asks of a store, beside what the core asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from dsh_core import Event, SessionHeader, SessionLock, SessionPage, StoredSession
from dsh_persistence.mending import Repair


class SessionStore(ABC):
    """A `Store` of the core that can also be written behind, and closed.

    Methods raise `StoreError` when the system refuses; what was stored before is whole then.
    Several processes may read while one writes.
    """

    @abstractmethod
    async def append(
        self, header: SessionHeader, events: Sequence[Event], *, flush: bool = True
    ) -> None:
        """Store events. Those that are stored already are skipped; a gap before them is refused.

        Takes the session's lock if nobody has it, as `lock` does. When it returns, the events
        survive the death of the process; with `flush` also a power cut, as far as the settings say
        so. After a failure `count` says what is stored.

        Raises `TakenError` when a stored session has the id, `DamageError` and `InUseError`.
        """

    @abstractmethod
    async def count(self, header: SessionHeader) -> int:
        """Return how many events of a session are stored; 0 = it is not stored.

        Takes the lock as `append` does, and raises the same.
        """

    @abstractmethod
    async def load(self, session_id: str) -> StoredSession:
        """Return a session. Raises `NoSessionError`, `DamageError` or `NewerFormatError`."""

    @abstractmethod
    async def list(
        self, *, cursor: str | None = None, limit: int = 50, cwd: str | None = None
    ) -> SessionPage:
        """Return a page of sessions, the last updated first; `cwd` = only those of this folder."""

    @abstractmethod
    async def delete(self, session_id: str) -> None:
        """Forget a session and all that is kept for it. Raises `NoSessionError`, `InUseError`."""

    @abstractmethod
    async def repair(self, session_id: str) -> Repair:
        """Save what can be read of a damaged session; the damaged one is kept beside it.

        Raises `NoSessionError`, `InUseError`, `NewerFormatError`.
        """

    @abstractmethod
    async def lock(self, session_id: str) -> SessionLock:
        """Become the one writer. Raises `InUseError` naming the owner when there is another."""

    @abstractmethod
    def owner(self, session_id: str) -> object | None:
        """Return what stands for the lock that this store has of a session; None = it has none."""

    @abstractmethod
    async def give_back(self, session_id: str, owner: object) -> None:
        """Give back a lock, unless it was given back and taken anew since."""

    @abstractmethod
    async def close(self) -> None:
        """Give back all locks and files. Safe to call again; a later use opens them anew."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lock as it is handed out."""

    store: SessionStore
    session_id: str
    owner: object

    async def release(self) -> None:
        """Give the lock back. Safe to call again."""
        await self.store.give_back(self.session_id, self.owner)
