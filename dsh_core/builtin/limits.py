"""Built-in plugin `limits`: ends turns that go on too long, and tells the model beforehand."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Generator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dsh_core.agents import StashKey
from dsh_core.content import Text
from dsh_core.errors import AgentDisposedError
from dsh_core.events import ContextMessage, LimitReached, TurnEndReason
from dsh_core.marks import hookimpl
from dsh_core.messages import PluginSource
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.session import Session


@record(frozen=False)
class _Meter:
    """What the running turn has used so far: a fold of its events up to `seen`."""

    seen: int
    steps: int = 0
    tokens: int = 0
    last_call: str = ""
    repeats: int = 0
    timer: asyncio.TimerHandle | None = None


METER: StashKey[_Meter] = StashKey("limits.meter")


class Limits:
    """Budgets per turn. A reached one ends the turn with reason `limit`."""

    @record()
    class Settings:
        """Budgets of one turn; None = none."""

        max_steps: int | None = 200
        """Model calls; a coding task rarely takes a hundred."""
        max_tokens: int | None = None
        """Tokens of all requests, cached ones included."""
        max_seconds: float | None = None
        """Wall-clock time; also ends a stream or a tool that is running."""
        max_repeats: int | None = 8
        """Identical tool calls in a row; the model is warned at half of it."""
        tool_seconds: float | None = 1800.0
        """How long a call may run whose tool sets no timeout of its own."""

        def __post_init__(self) -> None:
            for field in fields(self):
                value = getattr(self, field.name)
                if value is not None and value <= 0:
                    raise ValueError(f"{field.name} must be positive, or null for no limit")

    def __init__(self, settings: Settings):
        self.settings = settings

    @hookimpl
    def agent_turn_start(self, agent: Agent) -> None:
        """Reset the meter and start the clock."""
        _stop_clock(agent)
        agent.tool_timeout_seconds = self.settings.tool_seconds
        meter = agent.stash[METER] = _Meter(len(agent.session.events))
        seconds = self.settings.max_seconds
        if seconds is not None:
            loop = asyncio.get_running_loop()
            meter.timer = loop.call_later(seconds, _out_of_time, agent, seconds)
        self._warn(agent, meter)

    @hookimpl
    def agent_turn_end(self, agent: Agent) -> None:
        """Stop the clock."""
        _stop_clock(agent)

    @hookimpl(wrapper=True)
    def agent_turn_continuation(
        self, agent: Agent
    ) -> Generator[None, bool | TurnEndReason, bool | TurnEndReason]:
        """Replace a True by the reason of the first reached budget."""
        decision = yield
        meter = agent.stash.get(METER, None)
        if meter is None:
            return decision
        _fold(agent.session, meter)
        if decision is not True:
            return decision
        reached = self._reached(meter)
        if reached is not None:
            return reached
        self._warn(agent, meter)
        return decision

    def _reached(self, meter: _Meter) -> LimitReached | None:
        settings = self.settings
        if settings.max_steps is not None and meter.steps >= settings.max_steps:
            return LimitReached("max_steps", f"the turn took {meter.steps} steps")
        if settings.max_tokens is not None and meter.tokens >= settings.max_tokens:
            return LimitReached("max_tokens", f"the turn took {meter.tokens} tokens")
        if settings.max_repeats is not None and meter.repeats >= settings.max_repeats:
            return LimitReached(
                "max_repeats", f"the same tool call came {meter.repeats} times in a row"
            )
        return None

    def _warn(self, agent: Agent, meter: _Meter) -> None:
        settings = self.settings
        if settings.max_steps is not None and meter.steps == settings.max_steps - 1:
            _tell(agent, "This is the last step of the turn: finish, and say what is left to do.")
        if settings.max_repeats is not None and meter.repeats == max(2, settings.max_repeats // 2):
            _tell(
                agent,
                f"You made the same tool call {meter.repeats} times in a row. "
                "Its result will not change; try something else.",
            )


def _tell(agent: Agent, text: str) -> None:
    agent.session.append(ContextMessage((Text(text),), PluginSource("limits", "warning")))


def _out_of_time(agent: Agent, seconds: float) -> None:
    with contextlib.suppress(AgentDisposedError):
        agent.abort(LimitReached("max_seconds", f"the turn took {seconds:g} s"))


def _stop_clock(agent: Agent) -> None:
    meter = agent.stash.pop(METER, None)
    if meter is not None and meter.timer is not None:
        meter.timer.cancel()


_SORTED = json.JSONEncoder(sort_keys=True)


def _fold(session: Session, meter: _Meter) -> None:
    """Take the events into the meter that came since the last time."""
    events = session.events
    for index in range(meter.seen, len(events)):
        data: Any = events[index].data
        match events[index].type:
            case "step/end":
                meter.steps += 1
            case "usage":
                meter.tokens += data.usage.total_tokens
            case "tool/call":
                _count(meter, data.name, data.arguments)
    meter.seen = len(events)


def _count(meter: _Meter, name: str, arguments: str) -> None:
    call = f"{name} {_canonical(arguments)}"
    meter.repeats = meter.repeats + 1 if meter.last_call == call else 1
    meter.last_call = call


def _canonical(arguments: str) -> str:
    """Return arguments with sorted keys, so that reordered ones compare equal."""
    try:
        return _SORTED.encode(json.loads(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments
