"""Contract checks: refuses events that break the rules of the session log."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from dsh_core import Agent, Event, Session, StashKey, hookimpl
from dsh_invariants.ledger import InvariantError, Ledger, check_status

STATUS: StashKey[str] = StashKey("invariants.status")


class Invariants:
    """Keeps a ledger per session and refuses what does not fit it."""

    def __init__(self) -> None:
        self._ledgers: WeakKeyDictionary[Session, Ledger] = WeakKeyDictionary()

    def _ledger(self, session: Session) -> Ledger:
        """Return the session's ledger, caught up with its log."""
        ledger = self._ledgers.get(session)
        if ledger is None:
            ledger = self._ledgers[session] = Ledger()
        ledger.catch_up(session.events)
        return ledger

    @hookimpl
    def session_validate(self, session: Session, event: Event) -> None:
        """Raise for an event that breaks a rule."""
        self._ledger(session).check(event)

    @hookimpl
    def agent_status(self, agent: Agent, status: str) -> None:
        """Raise for a change of status that cannot be."""
        check_status(agent.stash.get(STATUS, "idle"), status)
        agent.stash[STATUS] = status


__all__ = ["InvariantError", "Invariants", "Ledger"]
