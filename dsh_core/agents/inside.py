"""Whose turns the running code is part of: waiting for the end of one of them would never end."""

from __future__ import annotations

import contextvars

from dsh_core.errors import AgentError
from dsh_core.record import record


@record(frozen=False, eq=False)
class Span:
    """A time in which an agent's own code runs: a turn with its flush, or an exclusive section."""

    agent: object
    is_over: bool = False


_spans: contextvars.ContextVar[tuple[Span, ...]] = contextvars.ContextVar("dsh_spans", default=())
"""The spans the running code is part of; tasks started inside inherit them."""


def enter(agent: object) -> Span:
    """Begin a span in the running context."""
    span = Span(agent)
    _spans.set((*_open_spans(), span))
    return span


def leave(span: Span) -> None:
    """End a span, also for the tasks that outlive it."""
    span.is_over = True
    _spans.set(_open_spans())


def refuse_inside(agent: object, what: str) -> None:
    """Raise `AgentError` where `what` would wait for a span it is called in."""
    if any(span.agent is agent for span in _open_spans()):
        raise AgentError(f"{what} would wait for the turn it is awaited in")


def _open_spans() -> tuple[Span, ...]:
    return tuple(span for span in _spans.get() if not span.is_over)
