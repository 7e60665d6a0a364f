"""Where an agent's tools may go, and how a judged path is opened so that it stays judged.

A path is resolved first, links and all, then judged by what it resolved to, then opened part by
part without following any link. A link that is put in its way after it was judged makes the open
fail; it never leads elsewhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dsh_core import ToolError
from dsh_files.beneath import open_beneath
from dsh_files.failure import refuse_unless_regular, shown

_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
FOLDER_FLAGS = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW
"""With O_PATH, where there is one, passing through a folder needs no permission to list it."""

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
"""Never waits: a FIFO or a device that replaces a file after it was looked at opens at once."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path a tool was given.

    Args:
        written: As the model wrote it, for messages.
        path: Absolute and resolved: no link in it when it was judged.
    """

    written: str
    path: Path

    @property
    def name(self) -> str:
        """The name in its folder; `.` for the root folder, which has none."""
        return self.path.name or "."


def resolve(written: str, cwd: Path) -> Path:
    """Return the absolute path without links that a written path stands for; it need not exist."""
    if not written.strip():
        raise ToolError("The path is empty.", code="FS_INVALID_PATH")
    if "\0" in written:
        raise ToolError(f"{shown(written)} holds a NUL byte.", code="FS_INVALID_PATH")
    try:
        os.fsencode(written)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{shown(written)} cannot be a file name here: {error.reason}.", code="FS_INVALID_PATH"
        ) from error
    return Path(os.path.realpath(cwd / os.path.expanduser(written)))


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders an agent may use.

    Args:
        cwd: Relative paths are relative to it; it may be read and written.
        allow: More folders to read and write, as the settings name them.
        readable_roots: More folders to read.
        hides: Whether a file that a search finds must be left out.
    """

    cwd: Path
    allow: tuple[str, ...] = ()
    readable_roots: tuple[Path, ...] = ()
    hides: Callable[[Path], bool] = lambda path: False

    def readable(self, written: str) -> Target:
        """Resolve a path to read. Raises `FS_OUTSIDE_WORKSPACE`."""
        return self._judged(written, (*self._writable_roots(), *self.readable_roots))

    def writable(self, written: str) -> Target:
        """Resolve a path to write. Raises `FS_OUTSIDE_WORKSPACE`."""
        return self._judged(written, self._writable_roots())

    def name_of(self, path: Path) -> str:
        """Return a path for the model: relative to the working directory where it lies in it."""
        root = Path(os.path.realpath(self.cwd))
        return shown(path.relative_to(root) if path.is_relative_to(root) else path)

    def _writable_roots(self) -> tuple[Path, ...]:
        return (self.cwd, *(self.cwd / os.path.expanduser(folder) for folder in self.allow))

    def _judged(self, written: str, roots: Iterable[Path]) -> Target:
        path = resolve(written, self.cwd)
        if any(path.is_relative_to(os.path.realpath(root)) for root in roots):
            return Target(written, path)
        leads = "" if str(path) == written else f" leads to {shown(path)}, which"
        raise ToolError(
            f"{shown(written)}{leads} is outside the workspace {shown(self.cwd)}. "
            "A user can allow its folder with the setting `plugins.files.allow`.",
            code="FS_OUTSIDE_WORKSPACE",
        )


@contextmanager
def opened_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """Open a resolved folder as a descriptor, following no link on the way.

    In one step where the kernel has `openat2`; else, and to make folders, part by part.
    Raises `OSError`. With `create`, missing folders are made as the umask says.
    """
    descriptor = os.open(path.anchor, FOLDER_FLAGS)
    try:
        whole = open_beneath(descriptor, "/".join(path.parts[1:]) or ".", FOLDER_FLAGS)
        if whole is not None:
            os.close(descriptor)
            descriptor = whole
            yield descriptor
            return
        for part in path.parts[1:]:
            inner = _enter(part, descriptor, create=create)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(name: str, folder: int, *, create: bool) -> int:
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # somebody else may make it in between
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER_FLAGS, dir_fd=folder)


def status_in(folder: int, name: str) -> os.stat_result | None:
    """Return what stands under a name, itself and not what a link leads to; None for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@contextmanager
def opened_file(folder: int, target: Target) -> Iterator[int]:
    """Open a regular file of the folder for reading; what else it may be is refused unopened.

    Raises `OSError`, and `FS_NOT_REGULAR_FILE`.
    """
    status = os.stat(target.name, dir_fd=folder, follow_symlinks=False)
    refuse_unless_regular(status, target.written)
    descriptor = os.open(target.name, READ_FLAGS, dir_fd=folder)
    try:
        refuse_unless_regular(os.fstat(descriptor), target.written)
        yield descriptor
    finally:
        os.close(descriptor)


def is_folder(status: os.stat_result) -> bool:
    """Whether a status is a folder's."""
    return stat.S_ISDIR(status.st_mode)
