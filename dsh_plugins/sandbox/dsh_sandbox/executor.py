"""The executor that wraps another one: it starts the same commands, inside a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dsh_core import Command, Executor, Process, ToolError
from dsh_core.execution import Survivor, readable
from dsh_sandbox.backend import Backend, Bench, Protection
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import Zone, resolved

_LEFT_OUT = frozenset(
    {
        *("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV"),
        *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS"),
        *("XDG_RUNTIME_DIR", "DOCKER_HOST"),
    }
)
"""Variables that lead to services outside, or run code in every program that starts."""

_KILLED = 128
"""A shell's and bubblewrap's exit code for a program that signal N killed is this plus N."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became known of one sandboxed command besides its output.

    Args:
        zone: What it was allowed; None where nothing confined it.
        failure: Why the sandbox did not start it; "" where it ran.
        restored: Protected paths that it changed and that were put back.

    """

    zone: Zone | None
    failure: str = ""
    restored: tuple[str, ...] = ()


class SandboxExecutor:
    """Starts commands in a zone. It can be made read-only, as plan mode wants it.

    Args:
        inner: What really starts them.
        backend: What confines them.
        zone: What they may do.
        workshop: Folders and files that belong to the running plugin.
        tell: Hears of each command when it started, and again when more is known.

    """

    def __init__(
        self,
        inner: Executor,
        backend: Backend,
        zone: Zone,
        workshop: Workshop,
        tell: Callable[[Outcome], None],
    ):
        self._inner = inner
        self._backend = backend
        self._zone = zone
        self._workshop = workshop
        self._tell = tell

    @property
    def name(self) -> str:
        """The backend, and what it wraps."""
        return f"{self._backend.name} over {self._inner.name}"

    def read_only(self) -> Executor:
        """Return one whose commands write nothing that stays, and reach no other machine."""
        zone = self._zone.read_only()
        return SandboxExecutor(self._inner, self._backend, zone, self._workshop, self._tell)

    async def start(self, command: Command) -> Process:
        """Start the command. Raises `ToolError` with code `SPAWN_FAILED` when it cannot."""
        _check(command)
        environment = {
            name: value
            for name, value in command.env.items()
            if name not in _LEFT_OUT and not name.startswith("BASH_FUNC_")
        }
        command = replace(command, cwd=resolved(command.cwd), env=environment)
        protection, bench = self._prepare(command)
        try:
            wrapped = self._backend.wrap(command, self._zone, protection, bench)
            process = await self._inner.start(wrapped)
        except BaseException:
            protection.end()
            shutil.rmtree(bench.folder, ignore_errors=True)
            raise
        self._workshop.keep(protection)
        self._tell(Outcome(self._zone))
        return SandboxProcess(process, self, protection, bench)

    def _prepare(self, command: Command) -> tuple[Protection, Bench]:
        try:
            bench = self._workshop.new_bench(self._zone.writable)
            return self._backend.protect(self._zone), bench
        except OSError as error:
            program, where = readable(command.argv[0]), readable(error.filename or "")
            why = f"{error.strerror} {where}".strip()
            message = f"cannot start {program}: the sandbox cannot be prepared: {why}"
            raise ToolError(message, code="SPAWN_FAILED") from error

    def ended(self, protection: Protection, *, failure: str = "") -> None:
        """Take back what protected the zone while a command ran."""
        restored = self._workshop.end(protection)
        if restored or failure:
            self._tell(Outcome(self._zone, failure, tuple(readable(path) for path in restored)))

    @property
    def blurs(self) -> bool:
        """Whether exit codes are to be taken from the launcher's report."""
        return self._backend.blurs


class RefusingExecutor:
    """Starts nothing, since nothing confines it here and the settings demand it."""

    def __init__(self, reason: str):
        self._reason = reason

    @property
    def name(self) -> str:
        """`refused`."""
        return "refused"

    async def start(self, command: Command) -> Process:
        """Raise `ToolError` with code `SPAWN_FAILED`."""
        raise ToolError(
            f"commands are refused: there is no sandbox here ({self._reason}), and "
            "`plugins.sandbox.required` demands one",
            code="SPAWN_FAILED",
        )


class SandboxProcess:
    """A sandboxed command; made by `SandboxExecutor.start`."""

    def __init__(
        self, process: Process, executor: SandboxExecutor, protection: Protection, bench: Bench
    ):
        self._process = process
        self._executor = executor
        self._protection = protection
        self._bench = bench
        self._returncode: int | None = None

    @property
    def pid(self) -> int:
        """The leader's process id, which is the group's id."""
        return self._process.pid

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard output."""
        return self._process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard error."""
        return self._process.stderr

    async def wait(self) -> int:
        """Return the exit code once the leader ended; −N where signal N killed it."""
        returncode = await self._process.wait()
        if self._returncode is None:
            self._returncode = self._told(returncode)
        return self._returncode

    async def survivors(self) -> tuple[Survivor, ...]:
        """Return what the command started and is still running, the leader excepted."""
        found = await self._process.survivors()
        # The first process of a namespace, which ends with the last other one, is no command's.
        survivors = tuple(each for each in found if not _is_first_of_namespace(each.pid))
        if not survivors and self._returncode is not None:
            self._executor.ended(self._protection)
        return survivors

    async def stop(self, *, grace_seconds: float) -> None:
        """End all of it, leader or not: TERM, up to `grace_seconds`, then KILL; close the pipes."""
        await self._process.stop(grace_seconds=grace_seconds)
        self._executor.ended(self._protection)

    def _told(self, returncode: int) -> int:
        """Return the exit code with the help of the launcher's report."""
        lines = self._bench.report()
        shutil.rmtree(self._bench.folder, ignore_errors=True)
        if returncode < 0:
            return returncode  # killed with the whole family
        if not lines or lines[0] != "started":
            why = lines[0].removeprefix("failed ") if lines else "standard error says why"
            self._executor.ended(self._protection, failure=why)
            return returncode
        if not self._executor.blurs:
            return returncode
        how, _, number = lines[-1].partition(" ")
        if how == "exit":
            return int(number)
        if how == "signal":
            return -int(number)
        return _KILLED - returncode if returncode > _KILLED else returncode  # no last word: killed


def _is_first_of_namespace(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return len(numbers) > 1 and numbers[-1] == "1"
    return False


def _check(command: Command) -> None:
    """Refuse what the launcher could refuse only after it started."""
    program = readable(command.argv[0])
    if any("\0" in text for text in (*command.argv, *command.env, *command.env.values())):
        why = "an argument or a variable holds a NUL character"
        raise ToolError(f"cannot start {program}: {why}", code="SPAWN_FAILED")
    if not command.cwd.is_dir():
        why = "not a directory" if command.cwd.exists() else "no such file or directory"
        where = readable(command.cwd)
        raise ToolError(f"cannot start {program} in {where}: {why}", code="SPAWN_FAILED")
    # A path is relative to where the command runs, not to where we do.
    named = command.argv[0]
    wanted = str(command.cwd / named) if os.sep in named else named
    if shutil.which(wanted, path=command.env.get("PATH", os.defpath)) is None:
        why = "permission denied" if os.sep in named and os.path.exists(wanted) else ""
        raise ToolError(
            f"cannot start {program}: {why or 'there is no such program on PATH'}",
            code="SPAWN_FAILED",
        )
