"""Writing files so that there is never a half of one: staged beside the place, then published.

On Linux the staged file has no name until its content is complete (`O_TMPFILE`), so a process that
is killed leaves nothing. Elsewhere, and on file systems that cannot do that, it has a name of the
form `.dsh-files-….tmp`, which glob and grep leave out.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dsh_files.observation import Version
from dsh_files.workspace import status_in

TEMPORARY_PREFIX = ".dsh-files-"
TEMPORARY_SUFFIX = ".tmp"

_NEW_FILE_MODE = 0o666
_PRIVATE_MODE = 0o600
_PIECE_BYTES = 1024 * 1024
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")
"""Extended attributes that go with a file to its next content; file capabilities must not."""

_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What file systems and kernels without `O_TMPFILE` answer; open(2)."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""What file systems without hard links answer, FAT among them; link(2)."""


class ChangedError(Exception):
    """The file is not the one that was to be replaced."""


@dataclass(slots=True)
class _Staged:
    """A complete new file that has no name, or a temporary one."""

    descriptor: int
    folder: int
    name: str | None

    def named(self) -> str:
        """Return its temporary name, giving it one where it has none."""
        if self.name is None:
            name = _temporary_name()
            self.link(name)
            self.name = name
        return self.name

    def link(self, name: str) -> None:
        """Give it a name that is free. Raises `FileExistsError`, and never replaces."""
        if self.name is None:
            os.link(f"/proc/self/fd/{self.descriptor}", name, dst_dir_fd=self.folder)
        else:
            os.link(self.name, name, src_dir_fd=self.folder, dst_dir_fd=self.folder)


def create(
    folder: int,
    name: str,
    content: Iterable[bytes],
    *,
    mode: int = _NEW_FILE_MODE,
    before_publishing: Callable[[], None] = lambda: None,
) -> os.stat_result:
    """Make a new file, its mode as the umask allows. Raises `FileExistsError`; never replaces.

    `before_publishing` may raise to leave everything as it was.
    """
    with _staged(folder, mode) as staged:
        _write(staged.descriptor, content)
        before_publishing()
        try:
            staged.link(name)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return _create_in_place(folder, name, _pieces(staged.descriptor), mode)
        _drop_temporary(staged)
        return os.fstat(staged.descriptor)


def replace(
    folder: int,
    name: str,
    content: Iterable[bytes],
    expected: os.stat_result,
    *,
    before_publishing: Callable[[], None] = lambda: None,
) -> os.stat_result:
    """Put new content in the place of a regular file; mode, owner and attributes stay.

    Raises `ChangedError` when the file is not the expected one any more.
    """
    with _staged(folder, _PRIVATE_MODE) as staged:
        _write(staged.descriptor, content)
        _take_after(staged.descriptor, folder, name, expected)
        before_publishing()
        temporary = staged.named()
        current = status_in(folder, name)
        if current is None or Version.of(current) != Version.of(expected):
            raise ChangedError
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        staged.name = None
        return os.fstat(staged.descriptor)


@contextmanager
def _staged(folder: int, mode: int) -> Iterator[_Staged]:
    descriptor, name = _open_staged(folder, mode)
    staged = _Staged(descriptor, folder, name)
    try:
        yield staged
    finally:
        _drop_temporary(staged)
        os.close(descriptor)


def _open_staged(folder: int, mode: int) -> tuple[int, str | None]:
    unnamed = getattr(os, "O_TMPFILE", 0)
    if unnamed and os.access("/proc/self/fd", os.X_OK, effective_ids=True):
        try:
            return os.open(".", unnamed | os.O_RDWR, mode, dir_fd=folder), None
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
    name = _temporary_name()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(name, flags, mode, dir_fd=folder), name


def _temporary_name() -> str:
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"


def _drop_temporary(staged: _Staged) -> None:
    if staged.name is not None:
        with suppress(OSError):  # the file is complete or given up; a leftover name is harmless
            os.unlink(staged.name, dir_fd=staged.folder)
        staged.name = None


def _write(descriptor: int, content: Iterable[bytes]) -> None:
    for piece in content:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _pieces(descriptor: int) -> Iterator[bytes]:
    position = 0
    while piece := os.pread(descriptor, _PIECE_BYTES, position):
        position += len(piece)
        yield piece


def _create_in_place(folder: int, name: str, content: Iterable[bytes], mode: int) -> os.stat_result:
    """Create where there are no hard links: still exclusive, and removed when writing fails."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(name, flags, mode, dir_fd=folder)
    try:
        _write(descriptor, content)
        return os.fstat(descriptor)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def _take_after(descriptor: int, folder: int, name: str, old: os.stat_result) -> None:
    """Give a new file the owner, mode and attributes of the old one, as far as is permitted."""
    mode = stat.S_IMODE(old.st_mode)
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            mode &= ~(stat.S_ISUID | stat.S_ISGID)  # these would now mean another owner
            with suppress(PermissionError):
                os.fchown(descriptor, -1, old.st_gid)
    _copy_attributes(descriptor, folder, name)
    os.fchmod(descriptor, mode)


def _copy_attributes(descriptor: int, folder: int, name: str) -> None:
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):  # the old file may be unreadable, the file system without attributes
        old = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
        try:
            for attribute in os.listxattr(old):
                if attribute.startswith(_KEPT_ATTRIBUTES):
                    os.setxattr(descriptor, attribute, os.getxattr(old, attribute))
        finally:
            os.close(old)
