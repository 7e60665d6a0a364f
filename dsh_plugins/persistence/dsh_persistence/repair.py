"""Repairing a session file: what can be read is written anew, the file as it was is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from dsh_core import Event, SessionHeader, SummaryFold
from dsh_persistence.disk import write_all
from dsh_persistence.failures import DamageError, reading, storing
from dsh_persistence.lines import (
    MARK,
    LineError,
    event_line,
    event_of,
    header_line,
    header_of,
    mark_line,
    parse,
)
from dsh_persistence.mending import Repair, mend
from dsh_persistence.migrations import Migrations
from dsh_persistence.reading import BOM, read_session
from dsh_persistence.session_file import Ways


def repair_file(ways: Ways, path: Path, migrations: Migrations) -> Repair:
    """Repair a file that is locked. Raises `StoreError`, `NewerFormatError`."""
    try:
        found = read_session(path, migrations)
    except DamageError:
        pass
    else:
        return Repair(None, found.count, ())
    header, events, lost = _salvage(path, migrations)
    mended = mend(events)
    kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
    with storing(path):
        _rewrite(ways, path, kept, header, mended)
    return Repair(str(kept), len(mended), tuple(lost))


def _salvage(path: Path, migrations: Migrations) -> tuple[SessionHeader, list[Event], list[str]]:
    """Return all that can be read, and what cannot."""
    with reading(path):
        lines = path.read_bytes().removeprefix(BOM).splitlines(keepends=True)
        modified = os.stat(path).st_mtime
    lost: list[str] = []
    version, header = migrations.current, SessionHeader(path.stem, modified)
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        try:
            value = parse(line)
            if number == 1:
                version = migrations.version_of(value, str(path))
                header = header_of(migrations.header(value, version))
                continue
            value = migrations.line(value, version)
            if value.get("type") == MARK:
                continue
            events.append(event_of(value, value.get("seq", -1)))
        except LineError as error:
            lost.append(f"line {number}: {error}")
    unique = once(events, lost)
    if header.id != path.stem:
        header = SessionHeader(path.stem, header.created_at, header.cwd, header.agent)
    return header, unique, lost


def once(events: Sequence[Event], lost: list[str]) -> list[Event]:
    """Return events in the order of their numbers, each once; say which numbers are missing."""
    by_number: dict[int, Event] = {}
    for event in events:
        by_number.setdefault(event.seq, event)
    numbers = sorted(by_number)
    for before, after in zip([-1, *numbers], numbers, strict=False):
        if after - before > 1:
            lost.append(f"events {before + 1} to {after - 1}: missing")
    return [by_number[number] for number in numbers]


def _rewrite(
    ways: Ways, path: Path, kept: Path, header: SessionHeader, events: Sequence[Event]
) -> None:
    fold = SummaryFold()
    for event in events:
        fold.feed(event)
    lines = [header_line(header), *map(event_line, events)]
    lines.append(mark_line(len(events), fold, time.time()))
    new = path.with_suffix(".new")
    file = ways.disk.create(new)
    try:
        write_all(ways.disk, file, ways.scrub("".join(lines)).encode())
        ways.disk.sync(file)
    finally:
        ways.disk.close(file)
    ways.disk.keep(path, kept)
    ways.disk.replace(new, path)
    ways.disk.sync_folder(path.parent)
