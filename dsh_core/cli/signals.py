"""What SIGINT, SIGTERM, SIGHUP and a reader that went away do while an agent runs."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from dsh_core.cli.context import say
from dsh_core.cli.main import EXIT_FAILED, EXIT_HUNG_UP, EXIT_INTERRUPTED, EXIT_TERMINATED

if TYPE_CHECKING:
    from dsh_core.agents import Agent


_ENDS = {
    signal.SIGINT: (EXIT_INTERRUPTED, "interrupted by the user"),
    signal.SIGTERM: (EXIT_TERMINATED, "terminated"),
    signal.SIGHUP: (EXIT_HUNG_UP, "the terminal is gone"),
}
"""Signal → exit code and reason."""


class Interruptions:
    """Ctrl-C aborts the turn, a second one leaves at once; SIGTERM and SIGHUP end in good order.

    `exit_code` is set by the first of them.
    """

    def __init__(self, agent: Agent):
        self._agent = agent
        self._loop = asyncio.get_running_loop()
        self.exit_code: int | None = None
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Begin to listen."""
        for number in _ENDS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, self._on_signal)

    def remove(self) -> None:
        """Listen no more."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def output_lost(self, why: str) -> None:
        """End the turn: nobody would see what comes of it. Safe inside session hooks."""
        if self.exit_code is None:
            self.exit_code = EXIT_FAILED
            self._loop.call_soon(self._agent.abort, why)

    def _on_signal(self, number: int, frame: object) -> None:
        """Abort the turn; the second signal leaves, also when a plugin holds the event loop.

        Runs between two bytecodes of the main thread, whatever that is doing.
        """
        code, why = _ENDS[signal.Signals(number)]
        if self.exit_code is not None:
            self._agent.harness.spill.remove()
            os._exit(code)
        self.exit_code = code
        self._loop.call_soon_threadsafe(self._abort, why)

    def _abort(self, why: str) -> None:
        say(f"{why}; once more to leave at once")
        self._agent.abort(why)
