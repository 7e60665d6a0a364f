"""How commands run: the `Executor` protocol behind `shell_executor`.

`dsh_core.execution.local` holds the plain local one, which runs where no plugin answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from dsh_core.codec import clean_text
from dsh_core.record import record


@record()
class Command:
    """What to run. `env` is the whole environment; standard input is always empty.

    The program is looked up on the `PATH` of `env`. All text reaches the system as UTF-8, whatever
    the locale; bytes that are no UTF-8 are given as `os.fsdecode` does, by surrogate escapes.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


@record()
class Survivor:
    """A process that outlived the command that started it; `name` is the program's."""

    pid: int
    name: str


class Process(Protocol):
    """A started command, leader of its own session and process group."""

    @property
    def pid(self) -> int:
        """The leader's process id, which is the group's id."""

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard output."""

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Bytes the command writes to standard error."""

    async def wait(self) -> int:
        """Return the exit code once the leader ended; −N where signal N killed it.

        The pipes may stay open: a grandchild can hold them. Cancelling it harms nothing.
        """

    async def survivors(self) -> tuple[Survivor, ...]:
        """Return what the command started and is still running, the leader excepted."""

    async def stop(self, *, grace_seconds: float) -> None:
        """End all of it, leader or not: TERM, up to `grace_seconds`, then KILL; close the pipes.

        Safe to call again, also at the same time: the shortest grace counts. A cancelled caller
        leaves at once, the ending goes on.
        """


class Executor(Protocol):
    """Starts commands. A sandbox is an executor that changes `argv` before it starts it."""

    @property
    def name(self) -> str:
        """What `dsh run` calls it, as in `local`."""

    async def start(self, command: Command) -> Process:
        """Start the command. Raises `ToolError` with code `SPAWN_FAILED` when it cannot.

        Cancelling it leaves no process behind.
        """


@runtime_checkable
class CanBeReadOnly(Protocol):
    """An executor that can keep commands from changing anything, as a sandbox can."""

    def read_only(self) -> Executor:
        """Return one whose commands write nothing but temporary files and have no network.

        No setting takes that back.
        """


def system_bytes(text: str) -> bytes:
    """Encode a path, an argument or a variable for the system: UTF-8 whatever the locale.

    Surrogate escapes become the bytes they stand for, other lone surrogates U+FFFD.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return clean_text(text).encode()


def system_text(data: bytes) -> str:
    """Decode what the system gave, so that `system_bytes` gives it back."""
    return data.decode("utf-8", "surrogateescape")


def readable(text: str | Path) -> str:
    """Return a path or other text of the system for people and models: Unicode, always."""
    return system_bytes(str(text)).decode("utf-8", "replace")
