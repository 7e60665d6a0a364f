"""Stand-ins for protected names that are not there: what cannot be mounted over can be created.

Before a command starts, an empty file or folder is made under each missing name, so that something
read-only can be mounted on it; after its end it is removed. Whoever uses one holds a lock on it,
also in another dsh, and the last one removes it. One that a crash left behind is known by its mode
and goes with the next command.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from dsh_sandbox.guard import Guard
from dsh_sandbox.zone import Name

_FOLDER_MODE, _FILE_MODE = 0o505, 0o404
_ATTEMPTS = 100
"""Of others that remove a stand-in between two looks at it."""


class Shields:
    """The stand-ins that one command needs, and what has to be covered for it.

    A name with a link on its way cannot be covered, nor one that nothing can stand in for while it
    is missing; a `Guard` watches these.
    """

    def __init__(self, names: Sequence[Name]) -> None:
        self._held: dict[Path, int] = {}
        watched = [name for name in names if not _can_be_covered(name)]
        self._guard = Guard(watched)
        covers: dict[Path, bool] = {}
        try:
            for name in names:
                if name not in watched:
                    path, is_folder = _first_missing(name)
                    if self._is_there(path, is_folder=is_folder):
                        covers[path] = path in self._held
        except BaseException:
            self.end()
            raise
        self._covers = tuple(covers.items())

    @property
    def covers(self) -> Sequence[tuple[Path, bool]]:
        """For each name itself, or the first missing part of its way; and whether it stands in."""
        return self._covers

    def end(self) -> Sequence[Path]:
        """Remove the stand-ins that nobody else uses; return what the guard put back."""
        while self._held:
            path, descriptor = self._held.popitem()
            try:
                _remove(path, descriptor)
            finally:
                os.close(descriptor)
        return self._guard.end()

    def _is_there(self, path: Path, *, is_folder: bool) -> bool:
        """Make sure that something is there, and lock it if it is a stand-in."""
        for _ in range(_ATTEMPTS):
            if path in self._held:
                return True
            if not os.path.lexists(path):
                _make(path, is_folder=is_folder)
            try:
                if not _is_stand_in(os.lstat(path)):
                    return True
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            except FileNotFoundError:
                if not os.access(path.parent, os.W_OK):
                    return False  # the command cannot make it either
                continue  # another command's last use of it ended meanwhile
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_same(path, descriptor):
                self._held[path] = descriptor
                return True
            os.close(descriptor)
        raise OSError(errno.EBUSY, "cannot be protected", str(path))


def _can_be_covered(name: Name) -> bool:
    return not name.has_link and (name.can_stand_in or name.path.exists())


def _first_missing(name: Name) -> tuple[Path, bool]:
    """Return the name, or the part of its way there at which it ends, and whether to make a folder.

    A way ends where something is missing, or stands in for it, or is no folder: `.git` of a
    worktree is a file.
    """
    for parent in name.between:
        if not os.path.isdir(parent) or _is_stand_in(os.lstat(parent)):
            return parent, True
    return name.path, name.is_folder


def _make(path: Path, *, is_folder: bool) -> None:
    """Make a stand-in. What may not be made by us may not be made by the command either."""
    try:
        if is_folder:
            os.mkdir(path, _FOLDER_MODE)
            os.chmod(path, _FOLDER_MODE)
        else:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE)
            os.fchmod(descriptor, _FILE_MODE)
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST):
            raise


def _is_stand_in(status: os.stat_result) -> bool:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        return False
    if stat.S_ISDIR(status.st_mode):
        return mode == _FOLDER_MODE
    return stat.S_ISREG(status.st_mode) and mode == _FILE_MODE and status.st_size == 0


def _remove(path: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):  # others use it, it is gone, or somebody filled it
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_same(path, descriptor) and _is_stand_in(status := os.fstat(descriptor)):
            if stat.S_ISDIR(status.st_mode):
                os.rmdir(path)
            else:
                os.unlink(path)


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
