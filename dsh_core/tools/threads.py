"""Sync tool bodies in daemon threads: one that hangs must not hang the exit."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections.abc import Callable
from typing import Any

STEERING = (StopIteration, GeneratorExit, KeyboardInterrupt)
"""What would steer the code that awaits. Ctrl-C reaches the main thread only: one that comes from
here was raised by the body."""

_numbers = itertools.count(1)


async def in_daemon_thread(function: Callable[[], Any], name: str) -> Any:
    """Run a function in a daemon thread of its own and return what it returns.

    Cancelling stops the waiting, not the thread; `asyncio.to_thread` would be joined at exit.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        elif isinstance(error, STEERING):
            done.set_exception(RuntimeError(f"the body raised {type(error).__name__}"))
        else:
            done.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as raised:  # noqa: BLE001 - handed to whoever waits
            error = raised
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=work, name=f"dsh-{name}-{next(_numbers)}", daemon=True).start()
    return await done
