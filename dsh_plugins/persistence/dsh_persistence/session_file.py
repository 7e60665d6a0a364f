"""The file of one session while this process writes it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

from dsh_core import Event, SessionHeader, SummaryFold
from dsh_persistence.disk import Disk, make_folders, write_all
from dsh_persistence.lines import event_line, header_line, mark_line
from dsh_persistence.reading import Reading

log = logging.getLogger("dsh.persistence")

Sync: TypeAlias = Literal["checkpoint", "flush", "never"]


@dataclass(frozen=True, slots=True)
class Ways:
    """How session files are written.

    Args:
        disk: What files are written with.
        sync: When they are forced to the disk.
        scrub: Takes known secrets out of what is about to be written.
    """

    disk: Disk
    sync: Sync
    scrub: Callable[[str], str]

    @property
    def is_synced(self) -> bool:
        """Whether flushes are forced to the disk."""
        return self.sync != "never"


class SessionFile:
    """Appends to one file. After an `OSError` it must be closed, and reopened from what is there.

    `cut_at` then says where its good part ends; everything behind may be half there.
    """

    def __init__(self, ways: Ways, path: Path, file: int, count: int, fold: SummaryFold, size: int):
        self.path = path
        self.count = count
        self.cut_at: int | None = None
        self._ways = ways
        self._file = file
        self._fold = fold
        self._size = self._safe_size = size
        self._is_marked = False

    @classmethod
    def create(cls, ways: Ways, path: Path, header: SessionHeader, events: Sequence[Event]) -> Self:
        """Make a file that holds header and events from the moment it has its name.

        Raises `OSError`, and `FileExistsError` where there is one already.
        """
        disk = ways.disk
        make_folders(disk, path.parent, is_synced=ways.is_synced)
        new = path.with_suffix(".new")
        file = disk.create(new)
        try:
            start = ways.scrub(header_line(header)).encode()
            write_all(disk, file, start)
            made = cls(ways, path, file, 0, SummaryFold(), len(start))
            made._append(events)
            if ways.is_synced:
                disk.sync(file)
            made._safe_size = made._size
            disk.publish(new, path)
        except BaseException:
            disk.close(file)
            _clean(disk, new)
            raise
        _clean(disk, new)
        try:
            if ways.is_synced:
                disk.sync_folder(path.parent)
        except BaseException:
            disk.close(file)
            raise
        return made

    @classmethod
    def open(cls, ways: Ways, path: Path, found: Reading) -> Self:
        """Open a file that was read. Its torn end is set aside before anything comes after it."""
        disk = ways.disk
        if found.end < found.size:
            _set_aside(disk, path, found.end)
        file = disk.open(path)
        try:
            if found.end < found.size:
                disk.truncate(file, found.end)
            size = found.end
            if not found.has_newline:
                write_all(disk, file, b"\n")
                size += 1
        except BaseException:
            disk.close(file)
            raise
        opened = cls(ways, path, file, found.count, found.fold, size)
        opened._is_marked = found.has_mark
        return opened

    def append(self, events: Sequence[Event], *, flush: bool) -> None:
        """Write events that follow the last one; `flush` = and make all there is safe.

        Raises `OSError`; the file must be closed then.
        """
        before = self._size
        try:
            self._append(events)
        except BaseException:
            self._undo(before)
            raise
        if flush:
            self._flush()
        elif self._ways.sync == "checkpoint":
            self._sync()

    def close(self) -> None:
        """Give the file back."""
        self._ways.disk.close(self._file)

    def _append(self, events: Sequence[Event]) -> None:
        if not events:
            return
        data = self._ways.scrub("".join(map(event_line, events))).encode()
        write_all(self._ways.disk, self._file, data)
        self._size += len(data)
        self.count += len(events)
        self._is_marked = False
        for event in events:
            self._fold.feed(event)

    def _flush(self) -> None:
        """Sync, then mark what is safe: a mark on the disk proves that all before it was there."""
        if self._is_marked:
            return
        if self._ways.is_synced:
            self._sync()
        mark = self._ways.scrub(mark_line(self.count, self._fold, time.time())).encode()
        try:
            write_all(self._ways.disk, self._file, mark)
        except BaseException:
            self._undo(self._size)
            raise
        self._size += len(mark)
        self._is_marked = True

    def _sync(self) -> None:
        """Force the file to the disk.

        After a failure the system may take lost pages for clean ones: what was written since the
        last success must be written again.
        """
        try:
            self._ways.disk.sync(self._file)
        except BaseException:
            self._undo(self._safe_size)
            raise
        self._safe_size = self._size

    def _undo(self, size: int) -> None:
        self.cut_at = size
        try:
            self._ways.disk.truncate(self._file, size)
        except OSError as error:
            log.warning("%s could not be cut back to %d bytes: %s", self.path, size, error)


def _set_aside(disk: Disk, path: Path, end: int) -> None:
    """Keep the torn end of a file in another one."""
    with path.open("rb") as source:
        source.seek(end)
        torn = source.read()
    aside = path.with_suffix(".torn")
    file = disk.open(aside) if aside.exists() else disk.create(aside)
    try:
        write_all(disk, file, torn + b"\n")
    finally:
        disk.close(file)
    log.error(
        "%s ended amid a line, as after a crash; its last %d bytes were set aside in %s",
        path,
        len(torn),
        aside.name,
    )


def _clean(disk: Disk, path: Path) -> None:
    try:
        disk.remove(path)
    except OSError as error:
        log.warning("%s could not be removed: %s", path, error)
