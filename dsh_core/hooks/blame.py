"""Who raised: turning what escapes from a plugin into an error that names it."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from dsh_core.errors import LlmFailure, PluginError, UserError, error_chain
from dsh_core.marks import OnError


def is_stop(error: BaseException) -> bool:
    """Whether an exception must travel on at once: Ctrl-C, or a cancellation someone asked for.

    A `CancelledError` in a task that nobody cancelled is a plugin's fault, as `SystemExit` is.
    """
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        return True
    return isinstance(error, asyncio.CancelledError) and cancel_requested()


def cancel_requested() -> bool:
    """Whether somebody cancelled the running task."""
    return cancel_requests() > 0


def cancel_requests() -> int:
    """Return how often the running task was asked to cancel; 0 outside a task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


async def heed_cancellation(requests: int) -> None:
    """Raise `CancelledError` when the task was cancelled since it had `requests` requests.

    For what a plugin swallowed. A request that is still on its way is delivered here.
    """
    if cancel_requests() > requests:
        await asyncio.sleep(0)
        raise asyncio.CancelledError


def blamed(
    plugin: str, hook: str, error: BaseException, policy: OnError | None = None
) -> BaseException:
    """Return the error to raise for what `plugin` raised in `hook`.

    Failures that are already in the user's words stay themselves, except at start-up and in
    reports, where the plugin's name is half of the message.
    """
    is_named = policy in (OnError.START, OnError.REPORT)
    if isinstance(error, (UserError, LlmFailure)) and not is_named:
        return error
    return as_plugin_error(plugin, hook, error)


def raise_blamed(plugin: str, hook: str, error: BaseException, policy: OnError) -> NoReturn:
    """Raise what `blamed` returns, with its cause."""
    edge = blamed(plugin, hook, error, policy)
    if edge is error:
        raise error
    raise edge from error


def as_plugin_error(plugin: str, hook: str, error: BaseException) -> PluginError:
    """Like `blamed`, for reports, which always name the plugin."""
    if isinstance(error, PluginError):
        return error
    named = PluginError(plugin, hook, error_chain(error))
    named.__cause__ = error
    return named
