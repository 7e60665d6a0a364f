"""Rewriting a file of an older format before something is appended to it."""

from __future__ import annotations

from pathlib import Path

from dsh_persistence.disk import write_all
from dsh_persistence.lines import event_line, header_line, mark_line
from dsh_persistence.migrations import Migrations
from dsh_persistence.reading import Reading, read_session
from dsh_persistence.session_file import Ways


def upgrade(ways: Ways, path: Path, found: Reading, migrations: Migrations) -> Reading:
    """Put a file of the current format in the place of an older one, which is kept beside it.

    Return the reading of the new file. Raises `OSError`; the old file is in its place then.
    """
    if not found.events and found.count:
        found = read_session(path, migrations)
    kept = path.with_name(f"{path.name}.v{found.version}")
    new = path.with_suffix(".new")
    disk = ways.disk
    file = disk.create(new)
    try:
        updated_at = found.events[-1].time if found.events else found.header.created_at
        lines = [header_line(found.header), *map(event_line, found.events)]
        lines.append(mark_line(found.count, found.fold, updated_at))
        write_all(disk, file, "".join(lines).encode())
        disk.sync(file)
    finally:
        disk.close(file)
    if not kept.exists():
        disk.keep(path, kept)
    disk.replace(new, path)
    disk.sync_folder(path.parent)
    return read_session(path, migrations)
