"""What a backend is, and which there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsh_core.execution import Command
from dsh_sandbox.zone import Zone


class Protection(Protocol):
    """What keeps protected names safe while a command runs."""

    @property
    def covers(self) -> Sequence[tuple[Path, bool]]:
        """What has to be mounted over: a path, and whether it is a stand-in for nothing."""

    def end(self) -> Sequence[Path]:
        """Take it back after the command; return what was changed and is again as it was."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The private files of one command.

    Args:
        folder: Where they are; gone after the command.
        own: A private folder for the temporary files of all commands.
        launcher: A copy of `launch.py` that no command can have changed.

    """

    folder: Path
    own: Path
    launcher: Path

    def write(self, name: str, content: bytes) -> None:
        """Leave a file."""
        (self.folder / name).write_bytes(content)

    def report(self) -> Sequence[str]:
        """Return what the launcher said, after its orders; nothing where it never ran."""
        try:
            text = (self.folder / "orders").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()  # the harness is stopping, and its folder gone
        return text.splitlines()[1:]


class Backend(Protocol):
    """A way to confine a command, by what it is started with."""

    @property
    def name(self) -> str:
        """As in `bubblewrap`."""

    @property
    def blurs(self) -> bool:
        """Whether its exit code does not tell a signal from a code, which the report does."""

    @property
    def missing(self) -> Sequence[str]:
        """What it cannot prevent, whatever the system."""

    def protect(self, zone: Zone) -> Protection:
        """Begin to protect the names of a zone."""

    def wrap(self, command: Command, zone: Zone, protection: Protection, bench: Bench) -> Command:
        """Return the command inside its sandbox.

        Args:
            command: What to run; its working directory has no links in it.
            zone: What it may do.
            protection: What `protect` returned.
            bench: Where to leave files for the programs that confine it.

        """
