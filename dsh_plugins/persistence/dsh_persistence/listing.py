"""Lists of sessions: from the beginning and the end of each file, without reading it whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from dsh_core import Event, HarnessError, SessionHeader, SessionPage, SessionSummary, SummaryFold
from dsh_persistence.failures import DamageError, NewerFormatError, StoreError, bad_cursor
from dsh_persistence.lines import MARK_START, LineError, parse, summary_of_mark
from dsh_persistence.migrations import Migrations
from dsh_persistence.places import SUFFIX, project_folder, project_folders
from dsh_persistence.reading import read_header, read_session

TAIL_BYTES = 65_536
"""Read from the end of a file to find its last mark: more than a turn without long outputs."""

_FOLDED = (b'{"type":"turn/start"', b'{"type":"usage"', b'{"type":"user/message"')
"""How the lines begin that a summary is made of."""


def page_of(
    root: Path, migrations: Migrations, cursor: str | None, limit: int, cwd: str | None
) -> SessionPage:
    """Return a page, the last written first. Raises `StoreError` for a folder we may not read."""
    folders = project_folders(root)
    if cwd is not None:
        folders = [folder for folder in folders if folder == project_folder(root, cwd)]
    found = sorted(_files(folders), reverse=True)
    if cursor is not None:
        found = [entry for entry in found if _key(entry) < _parsed(cursor)]
    page = found[: max(1, limit)]
    rows = tuple(_row(Path(path), modified, migrations) for modified, _, path in page)
    is_last = len(page) == len(found)
    return SessionPage(rows, None if is_last else f"{page[-1][0]}:{page[-1][1]}")


def _files(folders: Iterable[Path]) -> Iterable[tuple[int, str, str]]:
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    yield entry.stat().st_mtime_ns, entry.name.removesuffix(SUFFIX), entry.path


def _key(entry: tuple[int, str, str]) -> tuple[int, str]:
    return entry[0], entry[1]


def _parsed(cursor: str) -> tuple[int, str]:
    modified, _, session_id = cursor.partition(":")
    try:
        return int(modified), session_id
    except ValueError:
        raise bad_cursor(cursor) from None


def _row(path: Path, modified: int, migrations: Migrations) -> SessionSummary:
    """Return what is known of a session; one that cannot be read says why."""
    updated_at = modified / 1e9
    try:
        header, version = read_header(path, migrations)
        if version != migrations.current:
            return read_session(path, migrations).fold.summary(header, updated_at)
        with path.open("rb") as file:
            return _fold(file).summary(header, updated_at)
    except (DamageError, NewerFormatError, StoreError) as error:
        problem = error.message
    except OSError as error:
        problem = error.strerror or str(error)
    return SessionSummary(SessionHeader(path.stem, updated_at), updated_at, problem=problem)


def _fold(file: BinaryIO) -> SummaryFold:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - TAIL_BYTES))
    tail = file.read()
    start = tail.rfind(b"\n" + MARK_START)
    if start >= 0:
        lines = tail[start + 1 :].splitlines(keepends=True)
        try:
            fold = summary_of_mark(parse(lines[0]))
        except LineError:
            pass
        else:
            return _folded(fold, lines[1:])
    file.seek(0)
    return _folded(SummaryFold(), file)


def _folded(fold: SummaryFold, lines: Iterable[bytes]) -> SummaryFold:
    for line in lines:
        if line.startswith(MARK_START):
            fold = _or(fold, line)
        elif line.startswith(_FOLDED):
            try:
                fold.feed(Event.from_json(parse(line)))
            except HarnessError:
                break  # a torn end, or damage, which whoever opens the session is told of
    return fold


def _or(fold: SummaryFold, line: bytes) -> SummaryFold:
    try:
        return summary_of_mark(parse(line))
    except LineError:
        return fold
