"""Whether an agent is in plan mode: a fold of its log, so resume, fork and compaction keep it."""

from __future__ import annotations

from typing import Literal

from dsh_core import Agent, Call, Session, StashKey
from dsh_plan_mode.events import PlanModeChanged


class PlanState:
    """The fold, caught up with the log whenever it is asked; each event is looked at once."""

    def __init__(self, session: Session):
        self._session = session
        self._seen = 0
        self._last: PlanModeChanged | None = None
        self.was_started = False
        """Whether the agent had its first turn in this process."""

    @property
    def is_active(self) -> bool:
        """Whether plan mode is on."""
        last = self._caught_up()
        return last is not None and last.active

    def covers(self, call: Call) -> bool:
        """Whether a call is made in plan mode; the step that ended it still is."""
        last = self._caught_up()
        if last is None or last.active:
            return last is not None
        return (last.turn, last.step) == (call.turn, call.step)

    def enter(self, *, by: Literal["start", "command"]) -> bool:
        """Switch it on; return whether it was off."""
        if self.is_active:
            return False
        self._session.record(PlanModeChanged(True, by))
        return True

    def leave(
        self,
        *,
        by: Literal["command", "approval"],
        turn: int | None = None,
        step: int | None = None,
    ) -> bool:
        """Switch it off; return whether it was on."""
        if not self.is_active:
            return False
        self._session.record(PlanModeChanged(False, by, turn, step))
        return True

    def _caught_up(self) -> PlanModeChanged | None:
        events = self._session.events
        for index in range(self._seen, len(events)):
            data = events[index].data
            if isinstance(data, PlanModeChanged):
                self._last = data
        self._seen = len(events)
        return self._last


_STATE: StashKey[PlanState] = StashKey("plan_mode.state")


def state_of(agent: Agent) -> PlanState:
    """Return the agent's state, the same one each time."""
    return agent.stash.setdefault(_STATE, PlanState(agent.session))
