"""What plan mode writes to the log."""

from __future__ import annotations

from typing import Literal

from dsh_core import EventData, case


@case("plan_mode/changed")
class PlanModeChanged(EventData):
    """Plan mode began or ended.

    `by` is `start` (`--plan` or the setting), `command` (`/plan`) or `approval` (of a plan); then
    `turn` and `step` are those of the call, and the rest of that step's calls is still covered.
    """

    active: bool
    by: Literal["start", "command", "approval"]
    turn: int | None = None
    step: int | None = None
