"""The lines of a session file: a header, then events, and after each flush a mark.

An event's line is that of `dsh run --json`. A mark says how many events came before it, all of them
safe on the disk, and what a list of sessions shows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from json.encoder import encode_basestring as quoted
from typing import Any

from dsh_core import (
    Event,
    HarnessError,
    SessionHeader,
    SummaryFold,
    TextDelta,
    Usage,
    from_json,
    to_json,
)
from dsh_core.events import AssistantChunk

HEADER = "dsh/session"
MARK = "dsh/flushed"
MARK_START = b'{"type":"dsh/flushed",'

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_DELTA = (
    '{"type":"assistant/chunk","seq":%d,"time":%r,"data":{"turn":%d,"step":%d,'
    '"chunk":{"type":"text-delta","index":%d,"text":%s}}}\n'
)


class LineError(HarnessError):
    """A line that is not what should stand there; says why."""


def header_line(header: SessionHeader) -> str:
    """Return the first line."""
    return _encode({"type": HEADER, "version": header.version, **to_json(header)}) + "\n"


def event_line(event: Event) -> str:
    """Return an event's line. Pieces of text, which are most of a log, take a short cut."""
    data = event.data
    if type(data) is AssistantChunk and type(chunk := data.chunk) is TextDelta:
        text = quoted(chunk.text)
        return _DELTA % (event.seq, event.time, data.turn, data.step, chunk.index, text)
    return _encode(event.to_json()) + "\n"


def mark_line(count: int, fold: SummaryFold, time: float) -> str:
    """Return the line that stands after a flush."""
    mark = {"type": MARK, "events": count, "time": time, "title": fold.title}
    return _encode({**mark, "turns": fold.turns, "usage": to_json(fold.usage)}) + "\n"


def parse(line: bytes) -> dict[str, Any]:
    """Return a line as a JSON object. Raises `LineError`."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(_what_it_is(line, error)) from None
    if not isinstance(value, dict):
        raise LineError("it is no JSON object")
    return value


def _what_it_is(line: bytes, error: Exception) -> str:
    if not line.strip(b"\0\r\n"):
        return f"it is {len(line)} bytes of NUL"
    return f"it is no JSON: {error}"


def header_of(value: Mapping[str, Any]) -> SessionHeader:
    """Rebuild a header of the current version. Raises `LineError`."""
    names = (field.name for field in dataclasses.fields(SessionHeader))
    known = {name: value[name] for name in names if name in value}
    try:
        header: SessionHeader = from_json(SessionHeader, known, "header")
    except HarnessError as error:
        raise LineError(str(error)) from None
    return header


def event_of(value: dict[str, Any], seq: int) -> Event:
    """Rebuild the event that has the number `seq`. Raises `LineError`."""
    if value.get("seq") != seq:
        raise LineError(f"it has the number {value.get('seq')!r}, where {seq} is next")
    event = _delta_of(value)
    if event is not None:
        return event
    try:
        return Event.from_json(value)
    except HarnessError as error:
        raise LineError(str(error)) from None


def _delta_of(value: dict[str, Any]) -> Event | None:
    """Rebuild a piece of text at once, where every part is what it should be."""
    if value.get("type") != "assistant/chunk":
        return None
    try:
        data = value["data"]
        chunk = data["chunk"]
        if chunk["type"] != "text-delta" or len(chunk) != 3 or len(data) != 3:
            return None
        turn, step, index, text = data["turn"], data["step"], chunk["index"], chunk["text"]
        seq, time = value["seq"], value["time"]
    except (KeyError, TypeError):
        return None
    if not (type(turn) is type(step) is type(index) is int and type(text) is str):
        return None
    if type(time) is not float or not text.isascii():  # odd text may need mending
        return None
    return Event(seq, time, AssistantChunk(turn, step, TextDelta(index, text)))


def fold_of(mark: Mapping[str, Any], count: int) -> SummaryFold:
    """Rebuild the fold from a mark. Raises `LineError` when it does not stand after `count`."""
    if mark.get("events") != count:
        raise LineError(f"it says that {mark.get('events')!r} events come before it, not {count}")
    return summary_of_mark(mark)


def summary_of_mark(mark: Mapping[str, Any]) -> SummaryFold:
    """Rebuild the fold from a mark, wherever it stands. Raises `LineError`."""
    title, turns = mark.get("title"), mark.get("turns", 0)
    if not (title is None or isinstance(title, str)) or type(turns) is not int:
        raise LineError("its title or turns are not what they should be")
    try:
        usage: Usage = from_json(Usage, mark.get("usage", {}), "usage")
    except HarnessError as error:
        raise LineError(str(error)) from None
    return SummaryFold(title, turns, usage)
