"""The local executor: a command is a process of this machine, and nothing of it is left behind.

Each command leads a session of its own. `Process.stop` ends its whole family (`family` says who
that is), also when the leader is gone. What is still there when the harness goes is killed: by
`LocalExecutor.close`, else when the interpreter exits, else – where a signal kills the harness – by
the guardian, a small process that waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import signal
import subprocess
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from dsh_core.errors import ToolError
from dsh_core.execution import Command, Process, Survivor, readable, system_bytes
from dsh_core.execution.family import MARK_VARIABLE, Family, running_processes
from dsh_core.execution.leftovers import Leftovers
from dsh_core.execution.streams import Streams

T = TypeVar("T")

_POLL_SECONDS = (0.005, 0.1)
"""First and longest pause between two looks at a family that is ending."""

_UNKILLABLE_SECONDS = 2.0
"""How long after KILL a process is waited for: one in an uninterruptible wait does not end."""

_SETTLE_SECONDS = 0.05
"""A process that is just ending is no survivor: whoever is there twice, this far apart, is."""

_NOT_FOR_SYSTEM = {"embedded null byte": "an argument or a variable holds a NUL character"}
"""What Python says of text that no program can be given, in plain words."""


class LocalExecutor:
    """Starts commands on this machine.

    It belongs to one event loop. Whoever owns it closes it; where nobody does, the processes it
    started end with the harness.
    """

    def __init__(self) -> None:
        self._leftovers = Leftovers()
        self._numbers = itertools.count(1)
        weakref.finalize(self, self._leftovers.end)
        self._open: set[Streams] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """`local`."""
        return "local"

    async def start(self, command: Command) -> Process:
        """Start the command. Raises `ToolError` with code `SPAWN_FAILED` when it cannot."""
        starting = self.hold(self._start(command))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The process may be there already.
            await asyncio.shield(self.hold(_discard(starting)))
            raise

    async def close(self, *, grace_seconds: float = 3) -> None:
        """End every process that was started here: TERM, `grace_seconds`, then KILL."""
        kill_at = asyncio.get_running_loop().time() + grace_seconds
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        if self._leftovers.is_watching:
            await _end_family(self._leftovers.family, lambda: kill_at)
        self._leftovers.end()
        await asyncio.gather(*(streams.release() for streams in self._open))
        # A start that the end of the loop cuts off would hang asyncio.
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _start(self, command: Command) -> LocalProcess:
        self._leftovers.watch()
        mark = self._leftovers.new_mark(next(self._numbers))
        strangers = running_processes()
        environment = {**command.env, MARK_VARIABLE: mark}
        try:
            transport, streams = await asyncio.get_running_loop().subprocess_exec(
                Streams,
                *(system_bytes(argument) for argument in command.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=system_bytes(str(command.cwd)),
                env={system_bytes(k): system_bytes(v) for k, v in environment.items()},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(_reason(error, command), code="SPAWN_FAILED") from error
        group = transport.get_pid()
        self._leftovers.add(group)
        streams.exited.add_done_callback(lambda _: self._leftovers.forget_if_gone(group))
        self._open.add(streams)
        streams.over.add_done_callback(lambda _: self._open.discard(streams))
        return LocalProcess(self, transport, streams, Family({group}, mark), strangers)

    def hold(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a task that `close` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class LocalProcess:
    """A started command; made by `LocalExecutor.start`."""

    def __init__(
        self,
        executor: LocalExecutor,
        transport: asyncio.SubprocessTransport,
        streams: Streams,
        members: Family,
        strangers: frozenset[int],
    ):
        self._executor = executor  # kept alive: its end would be this process's end
        self._transport = transport
        self._streams = streams
        self._family = members
        self._strangers = strangers
        self._kill_at = float("inf")
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The leader's process id, which is the group's id."""
        return self._transport.get_pid()

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard output."""
        return self._streams.readers[1]

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard error."""
        return self._streams.readers[2]

    async def wait(self) -> int:
        """Return the exit code once the leader ended; −N where signal N killed it."""
        await asyncio.shield(self._streams.exited)
        return cast(int, self._transport.get_returncode())

    async def survivors(self) -> tuple[Survivor, ...]:
        """Return what the command started and is still running, the leader excepted."""
        seen = self._family.members(self._strangers).keys() - {self.pid}
        if not seen:
            return ()
        await asyncio.sleep(_SETTLE_SECONDS)
        return tuple(
            Survivor(pid, name)
            for pid, name in sorted(self._family.members(self._strangers).items())
            if pid in seen
        )

    async def stop(self, *, grace_seconds: float) -> None:
        """End all of it, leader or not: TERM, up to `grace_seconds`, then KILL; close the pipes."""
        kill_at = asyncio.get_running_loop().time() + grace_seconds
        self._kill_at = min(self._kill_at, kill_at)
        if self._ending is None:
            self._ending = self._executor.hold(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        await _end_family(self._family, lambda: self._kill_at)
        await self._streams.release()


async def _discard(starting: asyncio.Task[LocalProcess]) -> None:
    with contextlib.suppress(ToolError):
        process = await starting
        await process.stop(grace_seconds=0)


async def _end_family(family: Family, kill_at: Callable[[], float]) -> None:
    """TERM; wait until `kill_at`, which may move closer; then KILL whatever is there."""
    clock = asyncio.get_running_loop().time
    pause, longest = _POLL_SECONDS
    if not family.signal(signal.SIGTERM):
        return
    while clock() < kill_at():
        if not family.members():
            return
        await asyncio.sleep(min(pause, max(0, kill_at() - clock())))
        pause = min(2 * pause, longest)
    give_up = clock() + _UNKILLABLE_SECONDS
    while family.signal(signal.SIGKILL):
        if clock() > give_up:
            return
        await asyncio.sleep(_POLL_SECONDS[0])


def _reason(error: OSError | ValueError, command: Command) -> str:
    """Say in plain words why a command cannot be started."""
    program = readable(command.argv[0])
    if not isinstance(error, OSError):
        return f"cannot start {program}: {_NOT_FOR_SYSTEM.get(str(error), str(error))}"
    if error.errno == errno.E2BIG:
        size = sum(len(system_bytes(argument)) for argument in command.argv)
        return (
            f"cannot start {program}: the command is too long for the system ({size} bytes); "
            "write it to a file and run that"
        )
    if error.filename == system_bytes(str(command.cwd)):
        return f"cannot start {program} in {readable(command.cwd)}: {_plain(error)}"
    if isinstance(error, FileNotFoundError):
        return f"cannot start {program}: there is no such program on PATH"
    return f"cannot start {program}: {_plain(error)}"


def _plain(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
