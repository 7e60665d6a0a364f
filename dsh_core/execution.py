"""How commands run: the `Executor` protocol behind `shell_executor`, and the plain local one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `env` is the whole environment; standard input is always empty."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


class Process(Protocol):
    """A started command, leader of its own process group."""

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

        The pipes may stay open: a grandchild can hold them.
        """

    async def stop(self, *, grace_seconds: float) -> None:
        """End the whole group: TERM, up to `grace_seconds`, then KILL. Safe to call again."""


class Executor(Protocol):
    """Starts commands. A sandbox is an executor that changes `argv` before it starts it."""

    @property
    def name(self) -> str:
        """What `dsh run` calls it, as in `local`."""

    async def start(self, command: Command) -> Process:
        """Start the command. Raises `ToolError` with code `SPAWN_FAILED` when it cannot."""
