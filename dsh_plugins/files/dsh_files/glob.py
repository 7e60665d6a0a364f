"""`glob`: the files whose path matches a pattern, newest first."""

from __future__ import annotations

import heapq
import os
import stat
import threading
from collections.abc import Iterator

from dsh_core.outcome import ToolOutput
from dsh_files.child import Child
from dsh_files.engine import choose_engine, end_notes
from dsh_files.failure import explained
from dsh_files.globs import Glob, split_base
from dsh_files.settings import Settings
from dsh_files.workspace import Target, Workspace, opened_folder


def glob_base(pattern: str, path: str | None) -> tuple[str, str]:
    """Return the folder to search, as written, and the pattern below it."""
    folder, rest = split_base(pattern)
    return os.path.join(path or ".", os.path.expanduser(folder)), rest


def find_files(
    base: Target,
    pattern: str,
    *,
    workspace: Workspace,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    """Return the newest files below `base` that match; of equal age, in the order of their paths.

    Ignore files do not count; folders of version control are left out; links are not followed.
    """
    glob = Glob(pattern)
    engine = choose_engine(settings.engine)
    with (
        explained(base.written),
        opened_folder(base.path) as folder,
        Child(
            engine.list_files(),
            folder=folder,
            path=str(base.path),
            timeout_seconds=settings.search_timeout_seconds,
            limit_bytes=None,
            cancelled=cancelled,
        ) as child,
    ):
        found = _Counted(_matching(child, glob, folder))
        newest = heapq.nsmallest(settings.glob_limit_files, found)
        notes = end_notes(child, settings, has_results=bool(newest))
    lines = [workspace.name_of(base.path / name) for _, name in newest]
    if found.total > len(lines):
        notes.append(
            f"(The newest {len(lines)} of {found.total:,} files. Narrow the pattern or the path "
            "to see others.)"
        )
    meta = {"files": found.total, "shown": len(lines), "stopped": child.stopped}
    return ToolOutput.of("\n".join([*(lines or ["No files found."]), *notes]), meta=meta)


class _Counted(Iterator[tuple[int, str]]):
    """Counts what goes by."""

    def __init__(self, items: Iterator[tuple[int, str]]) -> None:
        self.total = 0
        self._items = items

    def __next__(self) -> tuple[int, str]:
        item = next(self._items)
        self.total += 1
        return item


def _matching(child: Child, glob: Glob, folder: int) -> Iterator[tuple[int, str]]:
    """Yield regular files that match, each after its negated time of change in nanoseconds."""
    for record in child.records(b"\0"):
        name = os.fsdecode(record).removeprefix("./")
        if not glob.matches(name):
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # it went away, or may not be looked at
        if stat.S_ISREG(status.st_mode):
            yield -status.st_mtime_ns, name
