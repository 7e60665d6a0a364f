"""Reading a session from JSON lines: what `dsh run --json` wrote, or a stored session's file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsh_core.errors import HarnessError, UserError
from dsh_core.events import Event

BESIDE_THE_LOG = "dsh/"
"""Begins the types of the lines of `dsh run --json` that are no events."""


def read_session(path: Path) -> list[Event]:
    """Return the events of a file of JSON lines, oldest first.

    The first line is its header. A last line that was cut off by a crash is no event.

    Raises:
        UserError: The file cannot be read, a line of it is no event, or it holds none.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot be read: {said}", where=str(path)) from error
    events = _events(_whole_lines(text), path)
    if not events:
        raise UserError(
            "holds no session", where=str(path), remedy="Write one: dsh run --json … > FILE."
        )
    return events


def _whole_lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return lines
    return [*lines, last]


def _events(lines: Sequence[str], path: Path) -> list[Event]:
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        value = _parsed(line, where)
        if _is_beside(value) or (number == 1 and "seq" not in value):
            continue
        try:
            events.append(Event.from_json(value))
        except HarnessError as error:
            raise UserError(f"is no event of a session: {error}", where=where) from error
    return events


def _is_beside(value: dict[str, Any]) -> bool:
    return str(value.get("type", "")).startswith(BESIDE_THE_LOG)


def _parsed(line: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"is no JSON: {error}", where=where) from None
    if not isinstance(value, dict):
        raise UserError("is no JSON object", where=where)
    return value
