"""What SIGINT, SIGTERM and a reader that went away do while an agent runs."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from dsh_core.cli.context import say
from dsh_core.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_TERMINATED

if TYPE_CHECKING:
    from dsh_core.agents import Agent


class Interruptions:
    """Ctrl-C aborts the turn, a second one leaves at once; SIGTERM ends in good order.

    `exit_code` is set by the first of them.
    """

    def __init__(self, agent: Agent):
        self._agent = agent
        self._loop = asyncio.get_running_loop()
        self.exit_code: int | None = None
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Begin to listen."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)

    def remove(self) -> None:
        """Listen no more."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def reader_left(self) -> None:
        """End the turn: nobody would see what comes of it. Safe inside session hooks."""
        if self.exit_code is None:
            self.exit_code = EXIT_FAILED
            self._loop.call_soon(self._agent.abort, "nobody reads the output")

    def _on_signal(self, number: int, frame: object) -> None:
        """Abort the turn; the second signal leaves, also when a plugin holds the event loop.

        Runs between two bytecodes of the main thread, whatever that is doing.
        """
        code = EXIT_INTERRUPTED if number == signal.SIGINT else EXIT_TERMINATED
        if self.exit_code is not None:
            os._exit(code)
        self.exit_code = code
        why = "interrupted by the user" if number == signal.SIGINT else "terminated"
        self._loop.call_soon_threadsafe(self._abort, why)

    def _abort(self, why: str) -> None:
        say(f"{why}; once more to leave at once")
        self._agent.abort(why)
