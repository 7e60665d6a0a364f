"""What commands left behind when the harness goes: remembered, and killed at its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from dsh_core.execution import family
from dsh_core.execution.family import Family, group_lives

_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What an interpreter may need to start; nothing else of our environment reaches the guardian."""


class Leftovers:
    """The groups an executor started, and the guardian that knows them too."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._token = os.urandom(8).hex()
        self._groups: set[int] = set()
        self._guardian: subprocess.Popen[bytes] | None = None
        self.is_watching = False

    @property
    def family(self) -> Family:
        """Everything that was started and all it started."""
        return Family(self._groups, f"{self._token}.")

    def new_mark(self, number: int) -> str:
        """Return the mark of the command of that number."""
        return f"{self._token}.{number}."

    def watch(self) -> None:
        """Start the guardian, unless it runs; forget groups that ended meanwhile."""
        if not self.is_watching:
            self.is_watching = True
            self._guardian = _start_guardian(f"{self._token}.")
        for group in tuple(self._groups):
            self.forget_if_gone(group)

    def add(self, group: int) -> None:
        """Remember a group until it is gone."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def forget_if_gone(self, group: int) -> None:
        """Forget a group without members, whose number may come to mean somebody else."""
        if group in self._groups and not group_lives(group):
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def end(self) -> None:
        """Kill what is left. Synchronous: this is the hook of the interpreter's exit."""
        # A fork of the harness that exits must not end what its parent runs.
        if not self.is_watching or self._owner != os.getpid():
            return
        self.is_watching = False
        self.family.kill()
        self._groups.clear()
        if self._guardian is not None:
            self._guardian.kill()
            self._guardian.communicate()

    def _tell(self, line: str) -> None:
        if self._guardian is None or self._guardian.stdin is None:
            return
        # Somebody may have killed the guardian; commands run without it too.
        with contextlib.suppress(OSError):
            self._guardian.stdin.write(line.encode())


def _start_guardian(mark: str) -> subprocess.Popen[bytes] | None:
    """Start the guardian: isolated, without our environment, deaf to the terminal's signals."""
    if not sys.executable:
        return None  # an embedded interpreter
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", family.__file__, mark],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ},
            start_new_session=True,
        )
    except OSError:
        return None  # then nobody watches; commands run all the same
