"""What a running plugin owns: the `/tmp` of commands, their files, and what protects folders."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsh_sandbox.backend import Bench, Protection

_OTHER_PLACES = (Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108
"""Where the files go if a command could change those in the usual place, which may be its own."""


class Workshop:
    """A private folder, made when first needed, and the protections in force."""

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._numbers = itertools.count(1)
        self._protections: set[Protection] = set()

    def new_bench(self, writable: Sequence[Path] = ()) -> Bench:
        """Return a new place for the files of one command, outside of what commands may write.

        What commands see as `/tmp` is theirs alone and kept until the harness stops. Raises
        `OSError` where there is no place.
        """
        home = next((each for each in self._folders if _is_outside(each, writable)), None)
        home = home or self._make(writable)
        folder = home / f"command-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        return Bench(folder, home / "tmp", home / "launch.py")

    def keep(self, protection: Protection) -> None:
        """Remember what has to be ended, also where nobody waits for the command."""
        self._protections.add(protection)

    def end(self, protection: Protection) -> Sequence[Path]:
        """End a protection once; return what had been changed and was put back."""
        if protection not in self._protections:
            return ()
        self._protections.discard(protection)
        return protection.end()

    def close(self) -> None:
        """End every protection and remove the folder."""
        while self._protections:
            self._protections.pop().end()
        while self._folders:
            shutil.rmtree(self._folders.pop(), ignore_errors=True)

    def _make(self, writable: Sequence[Path]) -> Path:
        candidates = (Path(tempfile.gettempdir()), *_OTHER_PLACES)
        for parent in (each.resolve() for each in candidates if os.access(each, os.W_OK)):
            if _is_outside(parent, writable):
                folder = Path(tempfile.mkdtemp(prefix="dsh-sandbox-", dir=parent))
                self._folders.append(folder)
                (folder / "tmp").mkdir(mode=0o700)
                shutil.copyfile(Path(__file__).with_name("launch.py"), folder / "launch.py")
                return folder
        raise OSError(errno.ENOENT, "every folder for temporary files is writable for commands")


def _is_outside(folder: Path, writable: Sequence[Path]) -> bool:
    return not any(folder.is_relative_to(each) for each in writable)
