"""A terminal that can only print and read lines: `TERM=dumb`, a serial console, an editor's shell.

It has the interface of `Screen` as far as the chat uses it, and draws nothing twice.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Mapping
from typing import TextIO

from prompt_toolkit.buffer import Buffer

from dsh_terminal.keys import Hands
from dsh_terminal.question import Question


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the terminal cannot move its cursor."""
    return environ.get("TERM", "dumb").lower() in ("dumb", "unknown", "")


class LineScreen:
    """Prints what is finished, and takes a line at a time.

    Args:
        hands: What lines do.
        prompt: Stands before the input.
        stdin: Where lines come from.
        stdout: Where text goes.
    """

    def __init__(self, hands: Hands, *, prompt: str, stdin: TextIO, stdout: TextIO):
        self._hands = hands
        self._prompt = prompt
        self._stdin = stdin
        self._stdout = stdout
        self._left = asyncio.Event()
        self.question: Question | None = None
        self.buffer = Buffer()
        self.why = Buffer()

    async def run(self) -> None:
        """Take lines until `leave` or the end of input."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._hands.interrupt)
        reader = threading.Thread(target=self._read, args=(loop,), name="lines", daemon=True)
        reader.start()
        self.show(f"{self._prompt} ")
        try:
            await self._left.wait()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    def leave(self) -> None:
        """End `run`."""
        self._left.set()

    @property
    def width(self) -> int:
        """Columns."""
        try:
            return os.get_terminal_size(self._stdout.fileno()).columns or 80
        except OSError:
            return 80

    def show(self, text: str) -> None:
        """Print text."""
        self._stdout.write(text)
        self._stdout.flush()

    def flush(self) -> None:
        """Do nothing: what is shown is written at once."""

    def refresh(self) -> None:
        """Do nothing: nothing is drawn twice."""

    def ask(self, question: Question) -> None:
        """Print a question; the next line answers it."""
        self.question = question
        rows = [question.title, *(f"  {one.key}  {one.text}" for one in question.answers)]
        self.show("\n".join(rows) + f"\n{self._prompt} ")
        question.shown()

    def asked(self) -> None:
        """Take messages again."""
        self.question = None

    def ask_why(self) -> None:
        """Ask what to do instead."""
        self.show(f"what to do instead {self._prompt} ")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        while line := self._stdin.readline():
            loop.call_soon_threadsafe(self._take, line.rstrip("\r\n"))
        loop.call_soon_threadsafe(self._hands.leave)

    def _take(self, line: str) -> None:
        question = self.question
        if question is None:
            self.buffer.text = line
            self._hands.submit()
        elif question.is_asking_why:
            self.why.text = line
            self._hands.said_why()
        elif question.takes_key():
            question.press(line.strip())
            if question.is_asking_why:
                self.ask_why()
