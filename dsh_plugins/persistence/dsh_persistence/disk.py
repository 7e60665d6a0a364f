"""The system calls that change files, in one place: tests put a disk that fails in its stead."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


class Disk:
    """Passes everything on to the system. Raises `OSError` as the system does."""

    def create(self, path: Path) -> int:
        """Open an empty file for appending; one that was left there is emptied."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        return os.open(path, flags, 0o600)

    def open(self, path: Path) -> int:
        """Open a file that exists for appending; never through a link."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)

    def write(self, file: int, data: bytes) -> int:
        """Write at the end; returns how many bytes were written, which may be too few."""
        return os.write(file, data)

    def truncate(self, file: int, size: int) -> None:
        """Cut a file to a size."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Wait until the content is on the disk."""
        os.fdatasync(file) if hasattr(os, "fdatasync") else os.fsync(file)

    def close(self, file: int) -> None:
        """Close a file."""
        os.close(file)

    def publish(self, source: Path, target: Path) -> None:
        """Give a finished file its name. Raises `FileExistsError` where there is one."""
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if target.exists():
                raise FileExistsError(17, "File exists", str(target)) from None
            os.rename(source, target)

    def keep(self, path: Path, name: Path) -> None:
        """Give a file a second name, or make a copy where the file system cannot."""
        try:
            os.link(path, name)
        except FileExistsError:
            raise
        except OSError:
            shutil.copy2(path, name)

    def replace(self, source: Path, target: Path) -> None:
        """Put a file in the place of another, in one step."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Make a folder that only its owner may enter."""
        path.mkdir(mode=0o700, exist_ok=True)

    def sync_folder(self, path: Path) -> None:
        """Wait until a folder's names are on the disk."""
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_all(disk: Disk, file: int, data: bytes) -> None:
    """Write everything, in as many pieces as it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[disk.write(file, bytes(rest)) :]


def make_folders(disk: Disk, path: Path, *, is_synced: bool) -> None:
    """Make a folder and those above it; each name is synced into its parent."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        disk.make_folder(folder)
        if is_synced:
            disk.sync_folder(folder.parent)
