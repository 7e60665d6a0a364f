"""Waiting for no longer than one wants to."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

R = TypeVar("R")

CLEANUP_SECONDS = 10.0
"""How long work whose caller was cancelled may take to end."""


class DeadlineError(TimeoutError):
    """`within` gave up waiting."""


async def within(seconds: float, awaitable: Awaitable[R], *, grace_seconds: float = 0.0) -> R:
    """Await for at most `seconds`, also what ignores its cancellation.

    Raises `DeadlineError`; the work is cancelled then, gets `grace_seconds` to end, and is no
    longer waited for. When the caller is cancelled, the work is too, and gets `CLEANUP_SECONDS`.
    """
    task = asyncio.ensure_future(_caught(awaitable))
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            task.cancel()
            await _ended(task, grace_seconds)
            raise DeadlineError(f"took more than {seconds:g} s")
    except asyncio.CancelledError:
        task.cancel()
        await _ended(task, CLEANUP_SECONDS)
        raise
    finally:
        _close_unstarted(awaitable)
    result, error = task.result()
    if error is not None:
        raise error
    return cast(R, result)


async def _caught(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Await in a task of its own: `SystemExit` that leaves a task would end the event loop."""
    try:
        return await awaitable, None
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
        return None, error


async def _ended(task: asyncio.Task[Any], seconds: float) -> None:
    if seconds > 0:
        await asyncio.wait({task}, timeout=seconds)


def _close_unstarted(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine whose task was cancelled before it began."""
    if inspect.iscoroutine(awaitable):
        if inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
            awaitable.close()
