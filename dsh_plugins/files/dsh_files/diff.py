"""What a change did to a file's lines, for front ends: a bounded unified diff and two counts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dsh_files.failure import shown
from dsh_files.settings import Settings
from dsh_files.text import lines_of

CONTEXT_LINES = 3
MATCHED_LINES_LIMIT = 10_000
"""Changed regions of more lines are shown as removed and added whole: difflib is quadratic."""

_HUNK = re.compile(r"^@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


@dataclass(frozen=True, slots=True)
class Diff:
    """A change of lines.

    Args:
        text: Unified diff without file names, or None where it was not made.
        added: Lines added; None where they were not counted.
        removed: Lines removed; None where they were not counted.
        is_cut: Whether the text stops early.
    """

    text: str | None = None
    added: int | None = None
    removed: int | None = None
    is_cut: bool = False

    def meta(self, path: Path, change: Literal["created", "updated"]) -> dict[str, Any]:
        """Return what a result tells front ends."""
        return {
            "path": shown(path),
            "change": change,
            "diff": self.text,
            "diff_cut": self.is_cut,
            "added_lines": self.added,
            "removed_lines": self.removed,
        }


def diff_of(old: bytes | None, new: bytes, settings: Settings) -> Diff:
    """Compare two texts line by line; line endings count, and stand in the diff.

    A text that is too large, or an old one that was not read (None), gives an empty `Diff`.
    """
    if old is None or max(len(old), len(new)) > settings.diff_limit_bytes:
        return Diff()
    before, after = _text_lines(old), _text_lines(new)
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    kept: list[str] = []
    added = removed = size_bytes = 0
    for line in _hunks(before, after, start, end):
        added += line.startswith("+")
        removed += line.startswith("-")
        size_bytes += len(line.encode())
        if size_bytes <= settings.diff_text_limit_bytes:
            kept.append(line)
    return Diff("".join(kept), added, removed, size_bytes > settings.diff_text_limit_bytes)


def _text_lines(data: bytes) -> list[str]:
    return [line.decode("utf-8", "backslashreplace") for line in lines_of(data)]


def _common(before: list[str], after: list[str]) -> int:
    pairs = zip(before, after, strict=False)
    length = min(len(before), len(after))
    return next((index for index, (old, new) in enumerate(pairs) if old != new), length)


def _hunks(before: list[str], after: list[str], start: int, end: int) -> Iterator[str]:
    """Yield the lines of the hunks; only the lines between the common ends are compared."""
    context = max(0, start - CONTEXT_LINES)
    old = before[context : len(before) - end + CONTEXT_LINES]
    new = after[context : len(after) - end + CONTEXT_LINES]
    if len(old) + len(new) > MATCHED_LINES_LIMIT:
        gone, come = before[start : len(before) - end], after[start : len(after) - end]
        yield f"@@ -{start + 1},{len(gone)} +{start + 1},{len(come)} @@\n"
        yield from (_ended(f"-{line}") for line in gone)
        yield from (_ended(f"+{line}") for line in come)
        return
    for line in list(difflib.unified_diff(old, new, n=CONTEXT_LINES))[2:]:
        yield _HUNK.sub(lambda hunk: _moved(hunk, context), _ended(line), count=1)


def _moved(hunk: re.Match[str], lines: int) -> str:
    old, old_count, new, new_count = hunk.groups()
    return f"@@ -{int(old) + lines}{old_count} +{int(new) + lines}{new_count} @@"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
