"""Sessions that survive: written behind as they grow, loaded again by `dsh run --resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core import hookimpl
from dsh_persistence.keeper import Keeper
from dsh_persistence.settings import Settings as PersistenceSettings
from dsh_persistence.stores import open_store

if TYPE_CHECKING:
    from dsh_core import Agent, Call, Harness, Session, Store, ToolOutput
    from dsh_persistence.contract import SessionStore

__all__ = ["Persistence"]


class Persistence:
    """Stores every session, in plain files or in a database."""

    Settings = PersistenceSettings

    def __init__(self, settings: PersistenceSettings | None = None):
        self._settings = settings or PersistenceSettings()
        self._keeper = Keeper(self._settings)
        self._store: SessionStore | None = None

    @hookimpl
    async def session_store(self, harness: Harness) -> Store:
        """Answer with the store that the settings name."""
        if self._store is None:
            self._store = open_store(self._settings, harness.secrets)
        return self._store

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Begin to write; sessions that are live already, too."""
        if harness.is_running:  # a plugin that comes late, or comes back
            await harness.find_store()
        self._keeper.start(harness)

    @hookimpl
    def session_created(self, session: Session) -> None:
        """Write what a session starts with."""
        if session.events:
            self._keeper.notice(session)

    @hookimpl
    def session_event(self, session: Session) -> None:
        """Write soon."""
        self._keeper.notice(session)

    @hookimpl
    async def agent_turn_start(self, agent: Agent) -> None:
        """Become the session's one writer; a refusal ends the turn."""
        await self._keeper.hold(agent.session)

    @hookimpl(tryfirst=True)
    async def tools_execute(self, agent: Agent, call: Call) -> ToolOutput | None:
        """Write the call before it runs; one that cannot be written does not run."""
        return await self._keeper.checkpoint(agent)

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        """Make the log durable."""
        await self._keeper.flush(session)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Begin to give the session back."""
        self._keeper.end(agent.session)

    @hookimpl
    async def harness_stop(self) -> None:
        """Write what is left and close everything."""
        await self._keeper.stop()
