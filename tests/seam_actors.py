"""Plugins generated from the specs: one that records every hook, and one that raises in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from seam_stage import Stage

from dsh_core import Session, hookimpl, hookspecs
from dsh_core.events import ErrorEvent, TurnStart
from dsh_core.hooks.dispatch import specs_in

MODES = dict(specs_in(hookspecs))

Body = Callable[["Actor", str, Mapping[str, Any]], None]
"""What an implementation does: takes the plugin, the hook's name and its arguments by name."""


class Trap(Exception):
    """What a faulty plugin raises."""


@dataclass(frozen=True)
class Moment:
    """When the actor raised.

    Args:
        is_over: The turn was over: it had its error or its abort, or is closed, or there is none.
        is_agents: A live agent is concerned.
        event: The event that was refused, in `session_validate`.

    """

    is_over: bool
    is_agents: bool
    event: Any = None


class Actor:
    """The plugin "it". An agent may have an instance of its own: only one of the two acts."""

    stage: ClassVar[Stage]

    @dataclass(frozen=True, slots=True)
    class Settings:
        """Who acts."""

        acts: bool = True

    def __init__(self, settings: Settings):
        self._acts = settings.acts

    @property
    def is_on(self) -> bool:
        return self._acts and not self.stage.is_paused


def implementing(hook: str, body: Body) -> Any:
    """Make the implementation of a hook that takes all its arguments, `async def` as its spec."""
    mode = MODES[hook]
    values = ", ".join(f"{name!r}: {name}" for name in mode.arguments)
    source = [
        f"{'async ' if mode.is_async else ''}def {hook}({', '.join(('self', *mode.arguments))}):",
        f"    if self.is_on: body(self, {hook!r}, {{{values}}})",
    ]
    space: dict[str, Any] = {"body": body}
    exec("\n".join(source), space)
    return hookimpl(space[hook])


def _count(actor: Actor, hook: str, values: Mapping[str, Any]) -> None:
    calls = actor.stage.calls
    calls[hook] = calls.get(hook, 0) + 1


Recorder = type("Recorder", (Actor,), {hook: implementing(hook, _count) for hook in MODES})
"""Implements every hook, and counts how often each is called."""


def raising(hook: str, on_call: int, *, on_type: str | None = None) -> type[Actor]:
    """Make a plugin that raises in one call of one hook; calls with other events do not count."""
    calls = Counter[str]()

    def body(actor: Actor, hook: str, values: Mapping[str, Any]) -> None:
        if on_type is not None and values["event"].type != on_type:
            return
        calls[hook] += 1
        if calls[hook] == on_call:
            actor.stage.moment = _moment(actor.stage, values)
            raise Trap(f"in {hook}")

    return type("Raising", (Actor,), {hook: implementing(hook, body)})


def _moment(stage: Stage, values: Mapping[str, Any]) -> Moment:
    session = values.get("session") or getattr(values.get("agent"), "session", None)
    is_agents = session is not None and stage.harness.agents.get(session.id) is not None
    return Moment(stage.is_ending or not _is_open(session), is_agents, values.get("event"))


def _is_open(session: Session | None) -> bool:
    """Whether a turn is open that has no error yet."""
    if session is None or session.open_turn is None:
        return False
    for event in reversed(session.events):
        if isinstance(event.data, ErrorEvent):
            return False
        if isinstance(event.data, TurnStart):
            break
    return True
