"""A person at a terminal: the installed `dsh` in a pseudo-terminal, and the screen it draws."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pexpect
import pyte
import yaml
from program import DSH, Shell

SECONDS = 30
"""For one condition; a busy machine is slow to start Python."""

ENTER, ESC, CTRL_C, CTRL_D, CTRL_J, CTRL_T = "\r", "\x1b", "\x03", "\x04", "\n", "\x14"
ALT_ENTER, UP, DOWN, TAB = "\x1b\r", "\x1b[A", "\x1b[B", "\t"


class Person:
    """Types, and looks at the screen until something is there. A context manager.

    Args:
        dsh: Where and with what environment.
        arguments: Of `dsh`.
        columns: Of the terminal.
        lines: Of the terminal.
    """

    def __init__(self, dsh: Shell, *arguments: str, columns: int = 80, lines: int = 24):
        self.screen = pyte.HistoryScreen(columns, lines, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""
        environment = {"TERM": "xterm-256color", **dsh.environment()}
        self.program = pexpect.spawn(
            str(DSH),
            list(arguments),
            cwd=str(dsh.work),
            env=environment,
            dimensions=(lines, columns),
            timeout=SECONDS,
        )
        self.program.delaybeforesend = None

    # ---------------------------------------------------------------------------- looking

    @property
    def rows(self) -> list[str]:
        """What is on the screen, row by row."""
        return [row.rstrip() for row in self.screen.display]

    @property
    def everything(self) -> str:
        """All that was ever on the screen: what scrolled off, then what is there."""
        width = self.screen.columns
        above = [
            "".join(row[column].data for column in range(width)).rstrip()
            for row in self.screen.history.top
        ]
        return "\n".join([*above, *self.rows])

    def sees(self, *texts: str) -> str:
        """Look until all of these are there, and return everything that was shown."""
        return self.until(lambda: all(text in self.everything for text in texts), *texts)

    def sees_on_screen(self, text: str) -> str:
        """Look until it is on the screen now."""
        return self.until(lambda: any(text in row for row in self.rows), text)

    def sees_no_more(self, text: str) -> str:
        """Look until it is not on the screen any more."""
        return self.until(lambda: not any(text in row for row in self.rows), f"no {text}")

    def until(self, holds: Callable[[], bool], *what: str) -> str:
        """Look until something holds."""
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"never came: {what}\n{self.everything}"
            assert self._read(0.2), f"the program ended without {what}\n{self.everything}"
        return self.everything

    def _read(self, seconds: float) -> bool:
        try:
            data = self.program.read_nonblocking(65536, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.sent += data
        self._stream.feed(data)
        return True

    # ----------------------------------------------------------------------------- typing

    def types(self, text: str) -> None:
        """Press keys."""
        self.program.send(text.encode())

    def says(self, text: str) -> None:
        """Type a message and send it."""
        self.types(text)
        self.sees_on_screen(text.splitlines()[-1][-20:])
        self.types(ENTER)

    def answers(self, key: str) -> None:
        """Answer a question, and see it go."""
        self.presses(key, lambda: not any("Allow " in row for row in self.rows))

    def presses(self, key: str, holds: Callable[[], bool]) -> None:
        """Press a key, with pauses, until it did something: the first keys do not count."""
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{key!r} did nothing\n{self.everything}"
            self.types(key)
            pause = time.monotonic() + 0.5
            while time.monotonic() < pause and not holds():
                assert self.looks(), f"the program ended\n{self.everything}"

    def looks(self) -> bool:
        """Look at what comes within a moment; False when the program ended."""
        return self._read(0.1)

    def resizes(self, columns: int, lines: int) -> None:
        """Drag the window's corner."""
        self.screen.resize(lines, columns)
        self.program.setwinsize(lines, columns)

    def waits(self) -> int:
        """Look until the program ended; return its exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(0.2):
            assert time.monotonic() < deadline, f"it never ended\n{self.everything}"
        self.program.close()
        return self.program.exitstatus if self.program.exitstatus is not None else -1

    def leaves(self) -> int:
        """Press Ctrl-D."""
        self.types(CTRL_D)
        return self.waits()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.program.isalive():
            os.kill(self.program.pid, signal.SIGKILL)
        self.program.close(force=True)


def shell(tmp_path: Path) -> Shell:
    """Return a folder and a home for `dsh`."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)


def scripted(
    dsh: Shell,
    *replies: object,
    delay_seconds: float = 0,
    provider: dict[str, object] | None = None,
    **config: object,
) -> None:
    """Write a configuration whose model says these replies."""
    offline = {
        "adapter": "scripted",
        "replies": list(replies),
        "delay_seconds": delay_seconds,
        "models": {"script": {"context_window_tokens": 100_000}, "other": {}},
    }
    off: dict[str, object] = {"permission": False, "sandbox": False}
    whole = {"plugins": off, **config, "providers": {"offline": offline | (provider or {})}}
    text = yaml.safe_dump(whole, sort_keys=False)
    dsh.write("mine.yaml", text)


def calling(name: str, **arguments: object) -> dict[str, object]:
    """A reply that calls a tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def install_asking(dsh: Shell) -> None:
    """Put the plugin `asking` into the program's environment."""
    info = "site/asking-1.0.dist-info"
    dsh.write(f"{info}/METADATA", "Metadata-Version: 2.1\nName: asking\nVersion: 1.0\n")
    dsh.write(f"{info}/entry_points.txt", "[dsh]\nasking = asking:Asking\n")
    source = Path(__file__).with_name("asking.py").read_text(encoding="utf-8")
    module = dsh.write("site/asking.py", source)
    dsh.env["PYTHONPATH"] = str(module.parent)
