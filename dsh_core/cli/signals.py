"""What SIGINT, SIGTERM and a reader that went away do while an agent runs."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from dsh_core.cli.context import say
from dsh_core.cli.main import EXIT_FAILED, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from dsh_core.agents import Agent

EXIT_TERMINATED = 143


class Interruptions:
    """Ctrl-C aborts the turn, a second one leaves at once; SIGTERM ends in good order.

    `exit_code` is set by the first of them.
    """

    def __init__(self, agent: Agent):
        self._agent = agent
        self._loop = asyncio.get_running_loop()
        self.exit_code: int | None = None

    def install(self) -> None:
        """Begin to listen."""
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._loop.add_signal_handler(signal.SIGTERM, self._terminate)

    def remove(self) -> None:
        """Listen no more."""
        self._loop.remove_signal_handler(signal.SIGINT)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def reader_left(self) -> None:
        """End the turn: nobody would see what comes of it. Safe inside session hooks."""
        if self.exit_code is None:
            self.exit_code = EXIT_FAILED
            self._loop.call_soon(self._agent.abort, "nobody reads the output")

    def _interrupt(self) -> None:
        if self.exit_code is not None:
            os._exit(EXIT_INTERRUPTED)
        self.exit_code = EXIT_INTERRUPTED
        say("interrupted; press Ctrl-C again to leave at once")
        self._agent.abort("interrupted by the user")

    def _terminate(self) -> None:
        self.exit_code = EXIT_TERMINATED
        self._agent.abort("terminated")
