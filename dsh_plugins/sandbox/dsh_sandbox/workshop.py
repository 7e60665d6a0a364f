"""What a running plugin owns: the `/tmp` of commands, their files, and what protects folders."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dsh_sandbox.backend import Bench, Protection


class Workshop:
    """A private folder, made when first needed, and the protections in force."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._protections: set[Protection] = set()

    @property
    def own(self) -> Path:
        """What commands see as `/tmp`: theirs alone, kept until the harness stops."""
        return self._made() / "tmp"

    def new_bench(self) -> Bench:
        """Return a new place for the files of one command."""
        folder = self._made() / f"command-{next(self._numbers)}"
        folder.mkdir(mode=0o700)
        return Bench(folder, self.own)

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
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _made(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="dsh-sandbox-")).resolve()
            (self._folder / "tmp").mkdir(mode=0o700)
        return self._folder
