"""What a person sees before a yes or no: a tool call that cannot hide anything off the screen."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dsh_core.cli.screen import columns, fitted, visible
from dsh_core.codec import to_json

_BLANKS = re.compile(r"\s{17,}")
"""Indented code keeps its look; a gap that pushes text out of sight does not."""

_NAME_COLUMNS = 40
_SMALLEST = (20, 6)
_USUAL = (80, 24)


def screen_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal that questions are shown on."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        return _USUAL
    return (
        max(size.columns or _USUAL[0], _SMALLEST[0]),
        max(size.lines or _USUAL[1], _SMALLEST[1]),
    )


def shown_offers(offers: Sequence[str], size: tuple[int, int]) -> str:
    """Return the rules that may be granted, for the question; none where they do not fit.

    What is granted for longer than one call must be seen whole.
    """
    text = " and ".join(visible(offer) for offer in offers)
    return text if _rows(text, size[0] - 1) <= max(1, size[1] // 6) else ""


def question(
    name: str, arguments: Mapping[str, Any], reason: str, ask: str, size: tuple[int, int]
) -> list[str]:
    """Return the lines that ask about a tool call; all of them fit on the screen at once.

    The tool's name comes first, then each argument on a line of its own, then why it is asked, and
    last the question. A line longer than the screen is wide wraps, and is counted so.

    Args:
        name: The tool.
        arguments: What it would be called with.
        reason: Why it is asked, from the asking plugin.
        ask: The question and how to answer it.
        size: Columns and lines of the screen.
    """
    width = size[0] - 1  # a wide character does not fit in a row's last column
    part = "Only a part is shown. "
    rows = size[1] - 2 - _rows(part + ask, width)  # the tool, and where the answer is typed
    why = [fitted(_line(reason), width * max(1, rows // 4))] if reason.strip() else []
    room = rows - sum(_rows(line, width) for line in why)
    shown, is_whole = _arguments(arguments, width, max(1, room))
    heading = fitted(f"→ {_line(name)}", width)
    return [heading, *shown, *why, ask if is_whole else part + ask]


def _arguments(arguments: Mapping[str, Any], width: int, room: int) -> tuple[list[str], bool]:
    """Return the arguments in `room` rows at most, and whether nothing is left out."""
    lines = [
        f"  {fitted(_line(key), _NAME_COLUMNS)}: {_value(value)}"
        for key, value in list(arguments.items())[:room]
    ]
    more = len(arguments) - len(lines)
    if more:
        more += 1
        lines = lines[: room - 1]
    shares = _shares([_rows(line, width) for line in lines], room - bool(more))
    shown = [fitted(line, share * width) for line, share in zip(lines, shares, strict=True)]
    is_whole = shown == lines and not more
    rest = [fitted(f"  … and {more} more arguments", width)] if more else []
    return [*shown, *rest], is_whole


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Share rows: the short lines get what they need, the long ones what is left, evenly."""
    shares = [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[index] = min(wanted[index], room // (len(wanted) - done))
        room -= shares[index]
    return shares


def _rows(line: str, width: int) -> int:
    return max(1, -(-columns(line) // width))


def _value(value: Any) -> str:
    """Return a value as one line of JSON, long runs of blanks counted instead of shown."""
    return visible(json.dumps(_narrow(to_json(value)), ensure_ascii=False))


def _line(text: str) -> str:
    return visible(_BLANKS.sub(_counted, text).replace("\n", " "))


def _narrow(value: Any) -> Any:
    match value:
        case str():
            return _BLANKS.sub(_counted, value)
        case list():
            return [_narrow(item) for item in value]
        case dict():
            return {_narrow(key): _narrow(item) for key, item in value.items()}
    return value


def _counted(blanks: re.Match[str]) -> str:
    return f" [… {len(blanks.group())} blanks …] "
