"""A search program that is being read: bounded in time and output, stopped when the call is."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal, TypeAlias

from dsh_core import ToolError
from dsh_files.failure import stop_if

POLL_SECONDS = 0.1
READ_BYTES = 256 * 1024
ERROR_LIMIT_BYTES = 64 * 1024
"""How much of standard error is kept; ripgrep's complaint about a pattern quotes the pattern."""

StopCause: TypeAlias = Literal["time", "output"]


class Child:
    """A running search program; a context manager that never leaves it running.

    Args:
        argv: Program and arguments.
        folder: Descriptor of the folder it runs in.
        path: Path of that folder, for systems where a descriptor cannot be a working directory.
        stdin: What it reads, or None for nothing.
        timeout_seconds: It is stopped after this.
        limit_bytes: It is stopped when it wrote more than this; None = no limit.
        cancelled: It is stopped when this is set, and `ABORTED` is raised.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        folder: int,
        path: str,
        stdin: int | None = None,
        timeout_seconds: float,
        limit_bytes: int | None,
        cancelled: threading.Event,
    ) -> None:
        self.stopped: StopCause | None = None
        self._argv = argv
        self._folder = folder
        self._path = path
        self._stdin = subprocess.DEVNULL if stdin is None else stdin
        self._deadline = time.monotonic() + timeout_seconds
        self._left_bytes = sys.maxsize if limit_bytes is None else limit_bytes
        self._cancelled = cancelled
        self._errors = bytearray()

    def __enter__(self) -> Child:
        inherited = f"/proc/self/fd/{self._folder}"
        try:
            self._process = subprocess.Popen(
                self._argv,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=inherited if os.path.isdir(inherited) else self._path,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolError(
                f"The search program {self._argv[0]} cannot be started: {error.strerror}.",
                code="SEARCH_FAILED",
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def records(self, separator: bytes) -> Iterator[bytes]:
        """Yield what it writes, split; the last record needs no separator.

        When it ran out of time or of output `stopped` says which, and an unfinished record is
        dropped.
        """
        begun: list[bytes] = []
        for piece in self._pieces():
            first, *others = piece.split(separator)
            begun.append(first)
            if others:
                yield b"".join(begun)
                yield from others[:-1]
                begun = [others[-1]]
        rest = b"".join(begun)
        if rest and self.stopped is None:
            yield rest

    def finish(self) -> tuple[int, str]:
        """Wait for the end of one that wrote all it had; return exit code and standard error."""
        left_seconds = max(POLL_SECONDS, self._deadline - time.monotonic())
        try:
            code = self._process.wait(left_seconds)
        except subprocess.TimeoutExpired:
            self.stopped = "time"
            code = -signal.SIGKILL
        return code, self._errors.decode("utf-8", "replace").strip()

    def _pieces(self) -> Iterator[bytes]:
        stdout, stderr = self._process.stdout, self._process.stderr
        if stdout is None or stderr is None:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            while selector.get_map() and self.stopped is None:
                stop_if(self._cancelled)
                if time.monotonic() > self._deadline:
                    self.stopped = "time"
                    return
                for key, _ in selector.select(POLL_SECONDS):
                    piece = os.read(key.fd, READ_BYTES)
                    if not piece:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is stderr:
                        self._errors += piece[: ERROR_LIMIT_BYTES - len(self._errors)]
                    else:
                        yield piece[: max(0, self._left_bytes)]
                        self._left_bytes -= len(piece)
                        if self._left_bytes < 0:
                            self.stopped = "output"
