"""Protected names that nothing can be mounted over: seen before a command, put back after it.

Everything is opened part by part from the folder that is protected, and no link is followed: what a
command put in the way leads nowhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dsh_sandbox.zone import Name

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _File:
    mode: int
    content: bytes


@dataclass(frozen=True, slots=True)
class _Link:
    target: str


@dataclass(frozen=True, slots=True)
class _Folder:
    mode: int
    entries: Mapping[str, _Node]


@dataclass(frozen=True, slots=True)
class _Other:
    """A device, a socket: it cannot be put back."""

    kind: int


_Node: TypeAlias = _File | _Link | _Folder | _Other | None
"""What stands under a name; None for nothing."""


class Guard:
    """What stood under protected names when it was made.

    Where a folder on the way was a link, the link itself is what stood there.
    """

    def __init__(self, names: Iterable[Name]):
        self._before: dict[tuple[Path, str], _Node] = {}
        for name in names:
            root, way = name.root, _as_far_as_folders(name)
            self._before[root, way] = _look(root, way)

    @property
    def covers(self) -> Sequence[tuple[Path, bool]]:
        """Nothing is mounted over."""
        return ()

    def end(self) -> Sequence[Path]:
        """Put back what was changed; return the paths."""
        changed = []
        for (root, way), before in self._before.items():
            if _look(root, way) != before and _put_back(root, way, before):
                changed.append(root / way)
        self._before.clear()
        return changed


def _as_far_as_folders(name: Name) -> str:
    """Return the way to the name, cut off at the first part that is there and is no folder."""
    for part in name.between:
        if os.path.islink(part) or (os.path.exists(part) and not os.path.isdir(part)):
            return str(part.relative_to(name.root))
    return str(name.path.relative_to(name.root))


def _look(root: Path, way: str) -> _Node:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _opened(root, way) as folder:
        return _seen(os.path.basename(way), folder)
    return None


def _seen(name: str, folder: int) -> _Node:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return _Link(os.readlink(name, dir_fd=folder))
    if stat.S_ISDIR(status.st_mode):
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            return _Folder(mode, {each: _seen(each, inner) for each in sorted(os.listdir(inner))})
        finally:
            os.close(inner)
    if stat.S_ISREG(status.st_mode):
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            return _File(mode, file.read())
    return _Other(stat.S_IFMT(status.st_mode))


def _put_back(root: Path, way: str, before: _Node) -> bool:
    """Make it again what it was; return whether there was anything to do.

    Where the folder around it is gone, so is what was protected, and nothing is put back.
    """
    _remove_what_is_in_the_way(root, os.path.dirname(way))
    with contextlib.suppress(FileNotFoundError), _opened(root, way) as folder:
        name = os.path.basename(way)
        _remove(name, folder)
        _write(name, folder, before)
    return True


def _remove_what_is_in_the_way(root: Path, way: str) -> None:
    """Remove a link or a file where a folder led to the protected name."""
    parts = Path(way).parts
    for length in range(1, len(parts) + 1):
        part = os.path.join(*parts[:length])
        try:
            with _opened(root, part) as folder:
                status = os.stat(parts[length - 1], dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    os.unlink(parts[length - 1], dir_fd=folder)
                    return
        except FileNotFoundError:
            return


def _remove(name: str, folder: int) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _write(name: str, folder: int, node: _Node) -> None:
    match node:
        case _Link(target):
            os.symlink(target, name, dir_fd=folder)
        case _File(mode, content):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
        case _Folder(mode, entries):
            os.mkdir(name, 0o700, dir_fd=folder)
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                for each, entry in entries.items():
                    _write(each, inner, entry)
                os.fchmod(inner, mode)
            finally:
                os.close(inner)


@contextmanager
def _opened(root: Path, way: str) -> Iterator[int]:
    """Open the folder around the last part of a way. Raises `OSError` where a part is no folder."""
    descriptor = os.open(root, _FOLDER)
    try:
        for part in Path(way).parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)
