"""`dsh sessions list`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core import SessionPage, SessionSummary, to_json
from dsh_core.cli import EXIT_OK, printable, say, show

if TYPE_CHECKING:
    import argparse

    from dsh_persistence.cli import Stored

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def add_list(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("list", help="the stored sessions, the last used first")
    verb.add_argument("--here", action="store_true", help="only those of this folder")
    verb.add_argument("--limit", type=int, default=20, metavar="N", help="how many; 20 if not said")
    verb.add_argument("--cursor", metavar="CURSOR", help="go on where the last list ended")
    verb.add_argument("--json", action="store_true", help="print JSON")
    verb.set_defaults(action=run)


async def run(arguments: argparse.Namespace, stored: Stored) -> int:
    """Print a page."""
    cwd = str(stored.harness.cwd) if arguments.here else None
    page = await stored.store.list(cursor=arguments.cursor, limit=arguments.limit, cwd=cwd)
    if arguments.json:
        show(json.dumps(page_json(page), indent=2))
        return EXIT_OK
    if not page.sessions:
        say("no sessions are stored" + (f" for {cwd}" if cwd else ""))
        return EXIT_OK
    _table(page.sessions)
    if page.cursor is not None:
        say(f"more: dsh sessions list --cursor {page.cursor}")
    return EXIT_OK


def page_json(page: SessionPage) -> dict[str, Any]:
    """Return a page as JSON."""
    return {"sessions": [summary_json(row) for row in page.sessions], "cursor": page.cursor}


def summary_json(row: SessionSummary) -> dict[str, Any]:
    """Return a row as JSON: the header's fields beside the others."""
    value: dict[str, Any] = to_json(row)
    return {**value.pop("header"), "title": None, **value, "tokens": row.usage.total_tokens}


def _table(rows: tuple[SessionSummary, ...]) -> None:
    now = time.time()
    cells = [("SESSION", "AGE", "TURNS", "TOKENS", "FOLDER", "TITLE")]
    for row in rows:
        title = f"! {row.problem}" if row.problem else (row.title or "")
        cells.append(
            (
                row.header.id,
                age_of(now - row.updated_at),
                str(row.turns),
                short(row.usage.total_tokens),
                folder_of(row.header.cwd),
                title,
            )
        )
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    for line in cells:
        columns = [
            cell.rjust(width) if column in (1, 2, 3) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=False))
        ]
        text = "  ".join([*columns, line[5]]).rstrip()
        show(printable(text.replace("\n", " ").replace("\t", " ")))


def age_of(seconds: float) -> str:
    """Say how long ago something was, in one unit."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def short(count: int) -> str:
    """Say a number in four characters or five."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def folder_of(cwd: str | None) -> str:
    """Say a folder, from the home where it lies there."""
    if cwd is None:
        return "-"
    home = str(Path.home())
    return "~" + cwd[len(home) :] if cwd == home or cwd.startswith(home + "/") else cwd
