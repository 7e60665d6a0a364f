"""The event loop of a command: it ends with the command, whatever plugins left running in it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from dsh_core.cli.standard import say

T = TypeVar("T")

STRAGGLER_SECONDS = 1.0
"""What cancelled tasks get to clean up."""


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, but wait neither for threads nor for deaf tasks.

    `asyncio.run` joins the threads of its executor and gathers cancelled tasks without limit.
    """
    runner = asyncio.Runner()
    runner.get_loop().set_default_executor(_Threads(thread_name_prefix="asyncio"))
    try:
        return runner.run(main)
    finally:
        deaf = runner.run(_end_stragglers())
        if deaf:
            names = ", ".join(sorted(task.get_name() for task in deaf))
            say(f"note: still running after their cancellation: {names}")
        else:
            runner.close()


async def _end_stragglers() -> set[asyncio.Task[Any]]:
    """Cancel all other tasks and close forgotten generators; return what goes on all the same."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=STRAGGLER_SECONDS)
    closing = asyncio.create_task(asyncio.get_running_loop().shutdown_asyncgens())
    _, unclosed = await asyncio.wait({closing}, timeout=STRAGGLER_SECONDS)
    return tasks | unclosed


class _Threads(ThreadPoolExecutor):
    """An executor that is not waited for: its threads may hang."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)
