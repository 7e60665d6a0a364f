"""A tool call as a person sees it: one line while it runs, its result when it is done."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from dsh_core import text_of
from dsh_core.events import ToolCallEvent, ToolResultEvent
from dsh_terminal.paint import Paint
from dsh_terminal.settings import Settings

TAIL_LINES = 4
"""Lines of a running call's progress."""

_MAIN = ("command", "file_path", "path", "pattern", "query", "url", "plan", "name")
"""Arguments that say most of a call, in this order."""


@dataclass(slots=True)
class RunningCall:
    """A call that has no result yet."""

    name: str
    summary: str
    verdict: str
    started: float = field(default_factory=time.monotonic)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))

    @classmethod
    def of(cls, event: ToolCallEvent) -> RunningCall:
        """Begin with the event that logs the call."""
        return cls(event.name, summary_of(event.arguments), event.verdict)

    @property
    def elapsed(self) -> str:
        """How long it has been running, nothing for the first second."""
        seconds = time.monotonic() - self.started
        return f" ({seconds:.0f} s)" if seconds >= 1 else ""


def summary_of(arguments: str) -> str:
    """Return what says most of a call's arguments: the main one, or all of them."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(found, dict):
        return arguments
    for name in _MAIN:
        if isinstance(found.get(name), str):
            return str(found[name])
    return ", ".join(f"{name}={value!r}" for name, value in found.items())


def result_of(call: RunningCall, event: ToolResultEvent, paint: Paint, settings: Settings) -> str:
    """Return the lines about a call that has ended."""
    symbols = paint.symbols
    mark, style = (symbols.failed, "red") if event.is_error else (symbols.done, "green")
    head = Text(f"{mark} ", style=style)
    head.append(paint.line(call.name, 40), style="bold")
    room = paint.width - head.cell_len - len(call.elapsed) - 2
    if room > 4:
        head.append(f" {paint.line(call.summary, room)}")
    head.append(call.elapsed, style="dim")
    body = _body(event, paint, settings)
    return paint.render(head, *([body] if body.plain else []))


def _body(event: ToolResultEvent, paint: Paint, settings: Settings) -> Text:
    meta: Mapping[str, Any] = event.meta or {}
    diff = meta.get("diff")
    if isinstance(diff, str) and diff and not event.is_error:
        return _diff(diff, paint, settings.diff_lines)
    text = paint.harmless(text_of(event.content)).strip("\n")
    style = "red" if event.is_error else "dim"
    return _shortened(text.split("\n") if text else [], paint, settings.tool_lines, lambda _: style)


def _diff(diff: str, paint: Paint, limit: int) -> Text:
    def style(line: str) -> str:
        if line.startswith("@@"):
            return "cyan"
        return {"+": "green", "-": "red"}.get(line[:1], "dim")

    return _shortened(paint.harmless(diff).rstrip("\n").split("\n"), paint, limit, style)


def _shortened(lines: list[str], paint: Paint, limit: int, style: Any) -> Text:
    """Return so many lines, each cut to the width, and how many more there are."""
    body = Text()
    room = paint.width - 4
    for line in lines[:limit]:
        body.append("\n" if body.plain else "")
        cut = Text(line.expandtabs(4), style=style(line))
        cut.truncate(room, overflow="crop")
        body.append("  ")
        body.append_text(cut)
    if len(lines) > limit:
        more = len(lines) - limit
        body.append(f"\n  {paint.symbols.more} {more} more line{'s' if more > 1 else ''}", "dim")
    return body
