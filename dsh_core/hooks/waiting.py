"""Waiting: for no longer than one wants to, and for many at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from dsh_core.hooks.blame import is_close

R = TypeVar("R")

CLEANUP_SECONDS = 10.0
"""How long work whose caller was cancelled may take to end."""


class DeadlineError(TimeoutError):
    """`within` gave up waiting."""


async def within(
    seconds: float,
    awaitable: Awaitable[R],
    *,
    grace_seconds: float = 0.0,
    abandoned: Callable[[asyncio.Task[Any]], None] | None = None,
) -> R:
    """Await for at most `seconds`, also what ignores its cancellation.

    Raises `DeadlineError`; the work is cancelled then, gets `grace_seconds` to end, and is no
    longer waited for. When the caller is cancelled, the work is too, and gets `CLEANUP_SECONDS`.
    `abandoned` is called with the task of work that goes on nevertheless.
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
        if abandoned is not None and not task.done():
            abandoned(task)
    result, error = task.result()
    if error is not None:
        raise error
    return cast(R, result)


async def _caught(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Await in a task of its own: `SystemExit` that leaves a task would end the event loop."""
    try:
        return await awaitable, None
    except BaseException as error:
        if is_close(error):
            raise
        return None, error  # raised again where it is awaited


async def _ended(task: asyncio.Task[Any], seconds: float) -> None:
    if seconds > 0:
        await asyncio.wait({task}, timeout=seconds)


def _close_unstarted(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine whose task was cancelled before it began."""
    if (
        inspect.iscoroutine(awaitable)
        and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED
    ):
        awaitable.close()


async def all_at_once(
    calls: Sequence[Callable[[], Awaitable[Any]]],
) -> tuple[list[BaseException | None], BaseException | None]:
    """Run calls concurrently, each in a task, and wait for all; return what each raised.

    The second value is what stopped the waiting, to be raised by the caller: its own cancellation,
    or Ctrl-C in one of the calls. The others are cancelled then and get `CLEANUP_SECONDS`; a
    cancellation of ours is nobody's failure.
    """
    tasks = [asyncio.ensure_future(_failure(call)) for call in calls]
    pending = set(tasks)
    stop: BaseException | None = None
    while pending and stop is None:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            stop = next((e for e in map(_raised, done) if isinstance(e, KeyboardInterrupt)), None)
        except asyncio.CancelledError as error:
            stop = error
    if stop is None:
        return [_raised(task) for task in tasks], None
    for task in pending:
        task.cancel()
    try:
        if pending:
            await asyncio.wait(pending, timeout=CLEANUP_SECONDS)
    except asyncio.CancelledError as error:
        stop = error
    ended = [_raised(task) if task.done() else None for task in tasks]
    ours = (asyncio.CancelledError, KeyboardInterrupt)
    return [None if isinstance(error, ours) else error for error in ended], stop


async def _failure(call: Callable[[], Awaitable[Any]]) -> BaseException | None:
    try:
        await call()
    except BaseException as error:
        if is_close(error):
            raise
        return error  # judged where all are waited for
    return None


def _raised(task: asyncio.Future[BaseException | None]) -> BaseException | None:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()
