"""Reading a session file: all that was stored, and where its good part ends.

Only an incomplete end is left out. A bad line with a mark somewhere after it stands in what was
flushed once: that is damage, and the file is refused. A bad line without one stands in what a crash
may have torn: there the good part ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dsh_core import Event, SessionHeader, SummaryFold
from dsh_persistence.failures import DamageError, reading
from dsh_persistence.lines import (
    MARK,
    MARK_START,
    LineError,
    event_of,
    fold_of,
    header_of,
    parse,
    summary_of_mark,
)
from dsh_persistence.migrations import Migrations

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a session file holds.

    Args:
        header: In the current format.
        version: As it stands in the file.
        events: All that are whole.
        count: How many these are.
        fold: Of these events.
        end: Size of the part that is whole, in bytes.
        size: Of the file.
        has_newline: Whether the whole part ends a line.
        has_mark: Whether the whole part ends with a mark.
        stamp: Tells whether the file is still the one that was read.
    """

    header: SessionHeader
    version: int
    events: tuple[Event, ...]
    count: int
    fold: SummaryFold
    end: int
    size: int
    has_newline: bool
    has_mark: bool
    stamp: tuple[int, int, int]


def stamp_of(file: int | Path) -> tuple[int, int, int]:
    """Return what changes when a file does. Raises `OSError`."""
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_session(path: Path, migrations: Migrations) -> Reading:
    """Read a whole file. Raises `DamageError`, `NewerFormatError` and `StoreError`."""
    with reading(path), path.open("rb") as file:
        return _Reader(path, file, migrations).read()


def read_header(path: Path, migrations: Migrations) -> tuple[SessionHeader, int]:
    """Read the first line only, and the version it has. Raises as `read_session` does."""
    with reading(path), path.open("rb") as file:
        reader = _Reader(path, file, migrations)
        reader.read_header()
        return reader.header, reader.version


class _Reader:
    """Goes through one file, line by line."""

    header: SessionHeader
    version: int = 0

    def __init__(self, path: Path, file: BinaryIO, migrations: Migrations):
        self._path = path
        self._file = file
        self._migrations = migrations
        self._events: list[Event] = []
        self._fold = SummaryFold()
        self._number = 0
        self._end = 0
        self._size = 0
        self._has_newline = False
        self._has_mark = False

    def read(self) -> Reading:
        stamp = stamp_of(self._file.fileno())
        self.read_header()
        for line in self._lines():
            try:
                self._take(line)
            except LineError as error:
                if line.endswith(b"\n"):  # else it is the end, perhaps still being written
                    self._refuse_damage(error)
                break
            self._end = self._size
            self._has_newline = line.endswith(b"\n")
        return Reading(
            self.header,
            self.version,
            tuple(self._events),
            len(self._events),
            self._fold,
            self._end,
            self._size,
            self._has_newline,
            self._has_mark,
            stamp,
        )

    def read_header(self) -> None:
        line = next(self._lines(), b"")
        try:
            if not line:
                raise LineError("the file is empty")
            value = parse(line.removeprefix(BOM))
            self.version = self._migrations.version_of(value, str(self._path))
            self.header = header_of(self._migrations.header(value, self.version))
        except LineError as error:
            raise self._damage(error, 1) from None
        if self._path.stem != self.header.id:
            strange = LineError(f"it is the header of {self.header.id!r}, not of the file's name")
            raise self._damage(strange, 1)
        self._end = self._size
        self._has_newline = line.endswith(b"\n")

    def _lines(self) -> Iterator[bytes]:
        for line in self._file:
            self._number += 1
            self._size += len(line)
            yield line

    def _take(self, line: bytes) -> None:
        value = parse(line)
        if self.version != self._migrations.current:
            value = self._migrations.line(value, self.version)
        if value.get("type") == MARK:
            self._fold = fold_of(value, len(self._events))
            self._has_mark = True
            return
        event = event_of(value, len(self._events))
        self._events.append(event)
        self._fold.feed(event)
        self._has_mark = False

    def _refuse_damage(self, error: LineError) -> None:
        """Raise `DamageError` if what follows shows that the bad line was whole once."""
        number = self._number
        for line in self._lines():
            if line.startswith(MARK_START) and _is_mark(line):
                raise self._damage(error, number)

    def _damage(self, error: LineError, number: int) -> DamageError:
        return DamageError(
            f"the session is damaged: {error}",
            where=f"{self._path}:{number}",
            remedy=(
                f"`dsh sessions repair {self._path.stem}` saves what can be read; it keeps the "
                "file as it is under another name."
            ),
        )


def _is_mark(line: bytes) -> bool:
    try:
        summary_of_mark(parse(line))
    except LineError:
        return False
    return True
