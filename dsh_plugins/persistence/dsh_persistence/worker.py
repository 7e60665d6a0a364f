"""A thread for blocking work, one piece at a time and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Worker:
    """Runs functions in one thread, which starts with the first of them."""

    def __init__(self, name: str):
        self._name = name
        self._thread: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function after all that were given before.

        One that began runs to its end, also when the caller is cancelled.
        """
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    async def run_or_undo(
        self,
        function: Callable[[str], R],
        undo: Callable[[str, R], object],
        argument: str,
    ) -> R:
        """Run a function; where the caller is cancelled meanwhile, undo what it did.

        `undo` gets the argument and what the function returned, and is not waited for.
        """
        running = asyncio.ensure_future(self.run(function, argument))

        def regret(done: asyncio.Future[R]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.submit(undo, argument, done.result())

        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(regret)
            raise

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Do the same without waiting."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return self._thread.submit(function, *args, **kwargs)

    def stop(self) -> None:
        """End the thread when it has done what it was given. A later `run` starts another."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False)
