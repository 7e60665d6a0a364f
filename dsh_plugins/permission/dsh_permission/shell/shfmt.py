"""Asking shfmt, the authority on what a command means: a program, started per question."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 5.0
"""Parsing 10,000 characters takes milliseconds; this bounds a machine that is stuck."""

TEXT_LIMIT_CHARACTERS = 100_000
"""Longer commands are only scanned: their JSON is some 40 times as long."""


class UnparsableError(Exception):
    """shfmt is missing, says that this is no bash, or gave up; the message is for people."""


@cache
def program() -> str | None:
    """Return where shfmt is: beside this Python, where its wheel puts it, or on PATH."""
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("shfmt")


class Shfmt:
    """Starts shfmt for each question; one may wait for the next, which spares the start.

    Safe from several threads. `close` ends what waits.
    """

    def __init__(self) -> None:
        self._waiting: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def syntax_tree(self, text: str) -> dict[str, Any]:
        """Return the syntax tree of a bash command. Raises `UnparsableError`. Blocks."""
        if len(text) > TEXT_LIMIT_CHARACTERS:
            raise UnparsableError("it is too long")
        try:
            with self._taken() as process:
                try:
                    out, err = process.communicate(
                        text.encode("utf-8", "surrogateescape"), TIMEOUT_SECONDS
                    )
                except BaseException:
                    process.kill()
                    raise
            if process.returncode != 0:
                said = err.decode("utf-8", "replace").strip().partition("\n")[0]
                raise UnparsableError(
                    f"it does not parse: {said.removeprefix('<standard input>:')}"
                )
            tree: dict[str, Any] = json.loads(out)
        except subprocess.TimeoutExpired:
            raise UnparsableError("parsing it takes too long") from None
        except (OSError, ValueError, RecursionError) as error:
            raise UnparsableError(f"it cannot be parsed: {error}") from error
        return tree

    def warm(self) -> None:
        """Let one wait for the next question, unless one does."""
        with self._lock:
            if self._waiting is None and program() is not None:
                self._waiting = _started()

    def close(self) -> None:
        """End the one that waits."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            with waiting:
                waiting.kill()

    def _taken(self) -> subprocess.Popen[bytes]:
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.poll() is None:
            return waiting
        if program() is None:
            raise UnparsableError("it is more than a plain command, and shfmt is not installed")
        return _started()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [os.path.abspath(program() or "shfmt"), "-ln", "bash", "--to-json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=False,  # a spawn instead of a fork; Python's descriptors stay here
        env={"PATH": os.defpath},
    )
