"""A terminal for the installed `dsh`: what it shows, and somebody who types."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import termios
import time
import unicodedata
from types import TracebackType
from typing import Self

from program import DSH, Shell


class Terminal:
    """Runs `dsh` on a pseudo terminal; a context manager that ends the program."""

    def __init__(self, dsh: Shell, *arguments: str, columns: int = 80, lines: int = 24):
        self.columns, self.lines = columns, lines
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (lines, columns))
        self.program = subprocess.Popen(
            [str(DSH), *arguments],
            cwd=dsh.work,
            env=dsh.environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._seen = b""

    @property
    def shown(self) -> str:
        """Everything that came so far, as it was sent."""
        return self._seen.decode("utf-8", "replace").replace("\r\n", "\n")

    def read_until(self, text: str, seconds: float = 30) -> str:
        """Read until the text was shown, or fail; return what was shown."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} never came:\n{self.shown[-2000:]}"
            if not self._read(0.1):
                raise AssertionError(f"the program ended without {text!r}:\n{self.shown[-2000:]}")
        return self.shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait(self, seconds: float = 30) -> int:
        """Read until the program ended; return its exit code."""
        deadline = time.monotonic() + seconds
        while self.program.poll() is None:
            assert time.monotonic() < deadline, f"it never ended:\n{self.shown[-2000:]}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.program.returncode

    def hang_up(self) -> None:
        """Close the window: reading and writing fail from now on."""
        os.close(self._master)
        self._master = -1

    def _read(self, seconds: float) -> bool:
        """Read what is there; False when nothing more can come."""
        if not select.select([self._master], [], [], seconds)[0]:
            return seconds > 0
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self._seen += data
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        if self._master >= 0:
            self.hang_up()


def rows(text: str, columns: int) -> list[str]:
    """Return the rows that text takes on a terminal of that many columns."""
    found = []
    for line in text.split("\n"):
        row, taken = "", 0
        for char in line.expandtabs(8):
            width = 0 if unicodedata.combining(char) else _width(char)
            if taken + width > columns:
                found.append(row)
                row, taken = "", 0
            row += char
            taken += width
        found.append(row)
    return found


def _width(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
