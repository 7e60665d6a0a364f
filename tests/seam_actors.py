"""Plugins generated from the specs: one that records every hook, and one that raises in one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from seam_stage import Stage

from dsh_core import Session, hookimpl, hookspecs
from dsh_core.events import ErrorEvent, MessageTrigger, TurnStart
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
        place: In a turn; in one that was over, as it had its error, its abort or its end; or
            beside any, where a caller waits.
        is_agents: A live agent is concerned.
        is_start: The harness, or the plugin, was about to start.
        event: The event that was refused, in `session_validate`.

    """

    place: Literal["turn", "ending", "beside"]
    is_agents: bool
    is_start: bool
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


def raising(
    hook: str,
    *,
    on_call: int = 1,
    on_type: str | None = None,
    kind: type[BaseException] = Trap,
    is_lasting: bool = False,
) -> type[Actor]:
    """Make a plugin that raises in one call of one hook.

    Args:
        hook: The hook.
        on_call: In which of its calls.
        on_type: Only calls with an event of this type count.
        kind: What is raised.
        is_lasting: It raises in all later calls, too.

    """
    calls = itertools.count(1)

    def body(actor: Actor, hook: str, values: Mapping[str, Any]) -> None:
        if on_type not in (None, getattr(values.get("event"), "type", None)):
            return
        call = next(calls)
        if call == on_call or (is_lasting and call > on_call):
            actor.stage.moment = actor.stage.moment or _moment(actor.stage, values)
            raise kind(complaint(hook))

    return type("Raising", (Actor,), {hook: implementing(hook, body)})


def complaint(hook: str) -> str:
    """What the exception says."""
    return f"a trap in {hook}"


def _moment(stage: Stage, values: Mapping[str, Any]) -> Moment:
    session = values.get("session") or getattr(values.get("agent"), "session", None)
    return Moment(
        "ending" if stage.is_ending else _place(session or stage.session),
        session is not None and stage.harness.agents.get(session.id) is not None,
        not stage.eye.agents,
        values.get("event"),
    )


def _place(session: Session | None) -> Literal["turn", "ending", "beside"]:
    if session is None or session.open_turn is None:
        return "beside" if session is None else "ending"
    for event in reversed(session.events):
        if isinstance(event.data, ErrorEvent):
            return "ending"
        if isinstance(event.data, TurnStart):
            return "turn" if isinstance(event.data.trigger, MessageTrigger) else "beside"
    raise AssertionError("an open turn has a start")
