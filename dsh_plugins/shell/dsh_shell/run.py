"""A started command: its process, and what it writes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass

from dsh_core.execution import Process, Survivor
from dsh_shell.capture import Capture

_PIECE_BYTES = 16 * 1024
"""Read at once: small enough that cleaning the worst output does not hold the event loop up."""

_QUIET_SECONDS = 0.3
_DRAIN_SECONDS = 2.0
"""After the shell exited its pipes may stay open, held by what it left behind: reading ends when
nothing came for the first time, and in any case after the second."""

_DRAIN_POLL_SECONDS = 0.05

_DISCARD_PAUSE_SECONDS = 0.01
"""Output of a survivor is read, so that it can go on, but at most 1.6 MB/s of it."""

_KILLED_SECONDS = 1.0
"""A killed process is reaped within this."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended; each fact by itself, whatever the others.

    Args:
        returncode: The shell's; −N where signal N killed it; None where nobody knows.
        timed_out: Whether its time was up.
        survivors: What it started and is still running.
        duration_seconds: From start to end.

    """

    returncode: int | None
    timed_out: bool
    survivors: tuple[Survivor, ...]
    duration_seconds: float

    @classmethod
    def unknown(cls) -> Outcome:
        """What is said of a command that was lost sight of."""
        return cls(None, timed_out=False, survivors=(), duration_seconds=0)

    @property
    def exit_code(self) -> int | None:
        """The exit code, None where a signal ended it."""
        return self.returncode if self.returncode is None or self.returncode >= 0 else None

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended it, as in `SIGKILL`."""
        if self.returncode is None or self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return str(-self.returncode)  # a real-time signal


class Run:
    """Reads a process's output until it ended, however it ends.

    Args:
        process: What runs.
        stdout: Takes its standard output.
        stderr: Takes its standard error.
        on_output: Gets the last line of the stream, each time something came.

    """

    def __init__(
        self,
        process: Process,
        stdout: Capture,
        stderr: Capture,
        on_output: Callable[[str], None] = lambda line: None,
    ):
        self.process = process
        self.stdout = stdout
        self.stderr = stderr
        self._on_output = on_output
        self._clock = asyncio.get_running_loop().time
        self._started = self._last_read = self._clock()
        self._is_over = False
        self._pumps = (
            asyncio.create_task(self._pump(process.stdout, stdout)),
            asyncio.create_task(self._pump(process.stderr, stderr)),
        )

    async def finish(self, *, timeout_seconds: float | None, grace_seconds: float) -> Outcome:
        """Wait for the end and return it; when the time is up, or on cancellation, bring it about.

        Survivors are left running; `stop` ends them.
        """
        try:
            timed_out = not await self._exits_within(timeout_seconds)
            if timed_out:
                await self.process.stop(grace_seconds=grace_seconds)
            # Nothing can kill a process that hangs in the kernel; then nobody waits for it either.
            has_exited = await self._exits_within(_KILLED_SECONDS)
            returncode = await self.process.wait() if has_exited else None
            await self._drain()
            self._raise_failures()
            survivors = await self.process.survivors()
        except asyncio.CancelledError:
            await self.stop(grace_seconds=grace_seconds)
            raise
        self._end_capture()
        if not survivors:
            await self._close_pumps()
        return Outcome(returncode, timed_out, survivors, self._clock() - self._started)

    async def stop(self, *, grace_seconds: float) -> None:
        """End the process and all it started. Safe to call again."""
        try:
            await self.process.stop(grace_seconds=grace_seconds)
        finally:
            self._end_capture()
            await self._close_pumps()

    def close(self) -> None:
        """Close the files of its output; `Capture.take` must have been called before."""
        self.stdout.close()
        self.stderr.close()

    async def _exits_within(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            return False
        return True

    async def _pump(self, stream: asyncio.StreamReader, capture: Capture) -> None:
        while data := await stream.read(_PIECE_BYTES):
            if self._is_over:
                await asyncio.sleep(_DISCARD_PAUSE_SECONDS)
                continue
            self._last_read = self._clock()
            capture.feed(data)
            if row := capture.last_row:
                self._on_output(row)
            await asyncio.sleep(0)  # a full buffer is read without waiting: let others work

    async def _drain(self) -> None:
        """Take what is still in the pipes; somebody may hold them open for ever."""
        give_up = self._clock() + _DRAIN_SECONDS
        self._last_read = self._clock()
        pending: set[asyncio.Task[None]] = set(self._pumps)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=_DRAIN_POLL_SECONDS)
            now = self._clock()
            if now > give_up or now - self._last_read > _QUIET_SECONDS:
                return

    def _end_capture(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.stdout.finish()
            self.stderr.finish()

    async def _close_pumps(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.wait(self._pumps)

    def _raise_failures(self) -> None:
        for pump in self._pumps:
            if pump.done() and not pump.cancelled():
                pump.result()
