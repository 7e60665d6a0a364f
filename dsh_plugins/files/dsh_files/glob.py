"""`glob`: the files whose path matches a pattern, newest first."""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from dsh_core import ToolOutput
from dsh_files.child import Child, StopCause
from dsh_files.engine import choose_engine, end_notes
from dsh_files.failure import explained, shown
from dsh_files.globs import Glob, split_base
from dsh_files.settings import Settings
from dsh_files.workspace import Target, Workspace, opened_folder


@dataclass(frozen=True, slots=True)
class Search:
    """A glob, taken apart.

    Args:
        folder: Where to search, as written.
        pattern: What to find below it.
        is_named: Whether the folder was asked for by itself, and not by the pattern.
    """

    folder: str
    pattern: str
    is_named: bool

    @classmethod
    def of(cls, pattern: str, path: str | None) -> Search:
        """Take leading folders without magic off the pattern: nothing else need be searched."""
        folder, rest = split_base(pattern)
        return cls(os.path.join(path or ".", os.path.expanduser(folder)), rest, not folder)


def find_files(
    base: Target,
    search: Search,
    *,
    workspace: Workspace,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    """Return the newest files below `base` that match; of equal age, in the order of their paths.

    Ignore files do not count; folders of version control are left out; links are not followed.
    """
    glob = Glob(search.pattern)
    engine = choose_engine(settings.engine)
    with explained(base.written), ExitStack() as stack:
        try:
            folder = stack.enter_context(opened_folder(base.path))
        except FileNotFoundError:
            if search.is_named:
                raise
            return _output([], 0, [f"({shown(base.written)} does not exist.)"])
        child = stack.enter_context(
            Child(
                engine.list_files(),
                folder=folder,
                path=str(base.path),
                timeout_seconds=settings.search_timeout_seconds,
                limit_bytes=None,
                cancelled=cancelled,
            )
        )
        found = _Counted(_matching(child, glob, folder, base, workspace))
        newest = heapq.nsmallest(settings.glob_limit_files, found)
        notes = end_notes(child, settings, has_results=bool(newest))
    names = [workspace.name_of(base.path / name) for _, name in newest]
    return _output(names, found.total, notes, child.stopped)


def _output(
    names: list[str], total: int, notes: list[str], stopped: StopCause | None = None
) -> ToolOutput:
    lines = [*(names or ["No files found."]), *notes]
    if total > len(names):
        lines.append(
            f"(The newest {len(names)} of {total:,} files. Narrow the pattern or the path to see "
            "others.)"
        )
    meta = {"files": total, "shown": len(names), "stopped": stopped}
    return ToolOutput.of("\n".join(lines), meta=meta)


class _Counted(Iterator[tuple[int, str]]):
    """Counts what goes by."""

    def __init__(self, items: Iterator[tuple[int, str]]) -> None:
        self.total = 0
        self._items = items

    def __next__(self) -> tuple[int, str]:
        item = next(self._items)
        self.total += 1
        return item


def _matching(
    child: Child, glob: Glob, folder: int, base: Target, workspace: Workspace
) -> Iterator[tuple[int, str]]:
    """Yield files that match, each after its negated time of change in nanoseconds."""
    for record in child.records(b"\0"):
        name = os.fsdecode(record).removeprefix("./")
        if not glob.matches(name) or workspace.hides(base.path / name):
            continue
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue  # it went away, or may not be looked at
        yield -status.st_mtime_ns, name
