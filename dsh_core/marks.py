"""Marks: hook modes with their failure policies over pluggy's own, and marks of settings."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import pluggy

from dsh_core.record import record

F = TypeVar("F", bound=Callable[..., Any])

hookimpl = pluggy.HookimplMarker("dsh")
"""Marks a function of a plugin as the implementation of the hook of the same name."""

_hookspec = pluggy.HookspecMarker("dsh")

MODE_ATTRIBUTE = "dsh_mode"


class OnError(enum.Enum):
    """What an implementation that raises causes."""

    END_TURN = "the turn ends with one `error` event; the loop goes on"
    REFUSE = "what was announced is refused: creation rolls back, the event is not appended"
    DENY = "it counts as a denial"
    TOOL_ERROR = "that call gets an error result"
    START = "start-up stops with an error that names plugin, distribution and cause"
    REPORT = "it is reported through `agent_error` and the log; nothing else changes"


@record()
class Mode:
    """How a hook is called.

    Args:
        kind: emit, waterfall, collect or parallel.
        on_error: The failure policy.
        is_async: Whether the spec is `async def`; then implementations may be either.
        arguments: Names the spec passes, in order.
        replaceable: Arguments `call_next` may replace.
        draft: The argument that is a mutable `Draft`, or None.
        returns: What a waterfall's result, or each item of its stream, must be an instance of;
            empty = anything.
        limit_seconds: How long an async implementation may take, or None.
        streams: The result is an async iterator (`llm_stream`).

    """

    kind: Literal["emit", "waterfall", "collect", "parallel"]
    on_error: OnError
    is_async: bool
    arguments: tuple[str, ...]
    replaceable: frozenset[str] = frozenset()
    draft: str | None = None
    returns: tuple[type, ...] = ()
    limit_seconds: float | None = None
    streams: bool = False

    @property
    def is_checkpoint(self) -> bool:
        """Whether something is over and waits for no more than a report of what failed.

        Nobody there has a reason to cancel the task that calls.
        """
        return self.limit_seconds is not None and self.on_error is OnError.REPORT


def emit(
    on_error: OnError = OnError.REPORT, *, limit_seconds: float | None = None
) -> Callable[[F], F]:
    """A notification: called one after another, in call order; all are called."""
    return _mark("emit", on_error, limit_seconds=limit_seconds)


def parallel(on_error: OnError = OnError.REPORT, *, limit_seconds: float) -> Callable[[F], F]:
    """An awaited checkpoint: implementations run concurrently, all are awaited."""
    return _mark("parallel", on_error, limit_seconds=limit_seconds)


def collect(on_error: OnError, *, limit_seconds: float | None = None) -> Callable[[F], F]:
    """All results that are not None, each with the plugin it came from."""
    return _mark("collect", on_error, limit_seconds=limit_seconds)


def waterfall(
    on_error: OnError,
    *,
    returns: tuple[type, ...] = (),
    replaceable: tuple[str, ...] = (),
    draft: str | None = None,
    streams: bool = False,
) -> Callable[[F], F]:
    """A decision or a value: pass on, decide, or wrap what comes after."""
    return _mark(
        "waterfall",
        on_error,
        returns=returns,
        replaceable=frozenset(replaceable),
        draft=draft,
        streams=streams,
    )


def mode_of(spec: Callable[..., Any]) -> Mode:
    """Return the mode a spec was marked with. Raises `TypeError` for an unmarked function."""
    mode: Mode | None = getattr(spec, MODE_ATTRIBUTE, None)
    if mode is None:
        raise TypeError(f"{getattr(spec, '__qualname__', spec)} is not marked as a hook")
    return mode


def _mark(kind: Any, on_error: OnError, **options: Any) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        mode = Mode(
            kind,
            on_error,
            is_async=inspect.iscoroutinefunction(function),
            arguments=tuple(inspect.signature(function).parameters),
            **options,
        )
        problem = _problem(function, mode)
        if problem is not None:
            raise TypeError(f"hook {function.__name__}: {problem}")
        setattr(function, MODE_ATTRIBUTE, mode)
        marked: F = _hookspec(function, firstresult=kind == "waterfall")
        return marked

    return decorate


def _problem(function: Callable[..., Any], mode: Mode) -> str | None:
    """Say why a function cannot be a spec of its mode."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name == "call_next":
            return f"`{parameter}` cannot be an argument: pass plain names"
    if mode.kind in ("waterfall", "parallel") and not mode.is_async:
        return f"a {mode.kind} is awaited: write `async def`"
    if mode.limit_seconds is not None and not mode.is_async:
        return "limit_seconds needs an `async def`: nothing can interrupt a `def`"
    unknown = sorted({*mode.replaceable, *filter(None, [mode.draft])} - {*mode.arguments})
    return f"it has no argument `{unknown[0]}`" if unknown else None


class SettingMark:
    """A property of a settings field, given in `Annotated`."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


ADD: Final = SettingMark("ADD")
"""The field's lists add up over all layers; no layer removes an entry."""
UNTRUSTED_OK: Final = SettingMark("UNTRUSTED_OK")
"""The field counts in a project file the user has not trusted: no value of it can loosen anything,
as of a list of rules that add and only forbid. Without this mark it does not count there."""
TRUSTED_ONLY: Final = SettingMark("TRUSTED_ONLY")
"""The field is ignored in a project file the user has not trusted. That is so for every field
without a mark; this one says it aloud, and guards a field inside one that is `UNTRUSTED_OK`."""
