"""Who raised: turning what escapes from a plugin into an error that names it."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from pathlib import PurePath
from typing import NoReturn

from dsh_core.errors import LlmFailure, PluginError, UserError, error_chain, error_text
from dsh_core.hooks.chain import Implementation, SteeringError
from dsh_core.marks import OnError

AWAIT_IT = "write `await call_next()`"
"""What to do where a wrapper took the coroutine for the result."""


CANCELLED_ITSELF = "cancelled the task it was called in"
"""What is said of code that cancels the running task, which belongs to the core."""


def is_stop(error: BaseException) -> bool:
    """Whether an exception must travel on at once: Ctrl-C, a requested cancellation, or a close.

    A `CancelledError` in a task that nobody cancelled is a plugin's fault, as `SystemExit` is. Ask
    in the function that caught the error, see `is_close`.
    """
    if isinstance(error, asyncio.CancelledError):
        return cancel_requested()
    return isinstance(error, KeyboardInterrupt) or is_close(error)


def is_close(error: BaseException) -> bool:
    """Whether the coroutine or generator that caught the error is being closed.

    Python raises `GeneratorExit` anew in each frame it closes, where that frame stands; one that
    somebody raised comes from a frame below.
    """
    if not isinstance(error, GeneratorExit):
        return False
    trace = error.__traceback__
    return trace is None or trace.tb_next is None


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


async def undo_cancellation(requests: int) -> None:
    """Take back what the running code has asked of its own task since it had `requests` requests.

    Raises `CancelledError` when somebody else cancels the task meanwhile.
    """
    task = asyncio.current_task()
    assert task is not None
    own = task.cancelling() - requests
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)  # where the request is delivered; `uncancel` alone leaves it pending
    for _ in range(own):
        task.uncancel()
    if task.cancelling() > requests:
        raise asyncio.CancelledError


def blamed(
    implementation: Implementation, error: BaseException, policy: OnError | None = None
) -> BaseException:
    """Return the error to raise for what an implementation raised.

    Failures that are already in the user's words stay themselves, except at start-up and in
    reports, where the plugin's name is half of the message.
    """
    is_named = policy in (OnError.START, OnError.REPORT)
    if isinstance(error, (UserError, LlmFailure)) and not is_named:
        return error
    return as_plugin_error(implementation, error)


def raise_blamed(implementation: Implementation, error: BaseException, policy: OnError) -> NoReturn:
    """Raise what `blamed` returns, with its cause."""
    edge = blamed(implementation, error, policy)
    if edge is error:
        raise error
    raise edge from edge.__cause__


def as_plugin_error(implementation: Implementation, error: BaseException) -> PluginError:
    """Like `blamed`, for reports, which always name the plugin.

    The message ends with the place in the plugin's code, unless the error is in the user's words.
    """
    if isinstance(error, SteeringError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, PluginError):
        return error
    message = error_chain(error)
    if implementation.wraps and _took_coroutine_for_result(error):
        message += f"; {AWAIT_IT}"
    place = None if isinstance(error, (UserError, LlmFailure)) else _place(implementation, error)
    if place is not None:
        message += f" ({place})"
    named = PluginError(implementation.plugin, implementation.hook, message)
    named.__cause__ = error
    return named


def _took_coroutine_for_result(error: BaseException) -> bool:
    text = error_text(error) if isinstance(error, (AttributeError, TypeError)) else ""
    return "coroutine" in text and AWAIT_IT not in text


def _place(implementation: Implementation, error: BaseException) -> str | None:
    """Say the last line of the plugin's own package that an error came through."""
    module = getattr(implementation.function, "__module__", None)
    if not isinstance(module, str):
        return None
    package = module.rpartition(".")[0] or module
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__"))
        if name == package or name.startswith(f"{package}."):
            place = f"{'/'.join(PurePath(frame.f_code.co_filename).parts[-2:])}:{line}"
    return place
