"""Tasks that do not end: whose end they wait for, and keeping them out of the log."""

from __future__ import annotations

import asyncio
from types import AsyncGeneratorType, FrameType
from typing import Any

from dsh_core.hooks.chain import Implementation, Values
from dsh_core.hooks.streams import Link
from dsh_core.hooks.waterfall import Run


def stuck_in(task: asyncio.Task[Any]) -> Implementation | None:
    """Return the innermost implementation a task waits for; None = it waits for the core.

    Read from the task's frames, so that calling a hook costs nothing for it.
    """
    found: Implementation | None = None
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = _attribute(awaited, "cr_frame", "gi_frame", "ag_frame")
        following = _attribute(awaited, "cr_await", "gi_yieldfrom", "ag_await")
        if frame is not None:
            found = _asked(frame, found)
            link = frame.f_locals.get("self")
            if isinstance(link, Link) and isinstance(link.iterator, AsyncGeneratorType):
                following = link.iterator  # the awaitable of `anext` does not show it
        awaited = following
    return found


def bar(task: asyncio.Task[Any], values: Values) -> None:
    """Keep a task out of the session that a hook's arguments are about."""
    session = values.get("session", getattr(values.get("agent"), "session", None))
    if session is not None:
        session.bar(task)


def _asked(frame: FrameType, before: Implementation | None) -> Implementation | None:
    """Return whom a frame of the dispatcher asks; other frames change nothing."""
    if frame.f_code is Run.own_answer.__code__:
        return None
    values = frame.f_locals
    if isinstance(values.get("self"), Link):
        link: Link = values["self"]
        return link.implementation
    implementation = values.get("implementation")
    return implementation if isinstance(implementation, Implementation) else before


def _attribute(awaited: object, *names: str) -> Any:
    return next((getattr(awaited, name) for name in names if hasattr(awaited, name)), None)
