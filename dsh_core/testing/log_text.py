"""A session log as text for people: one line per event, the same on every run."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dsh_core.codec import to_json
from dsh_core.content import Block, Image, Reasoning, Text, ToolCall, ToolResult
from dsh_core.events import Event, EventData, UnknownEvent
from dsh_core.request import ToolSchema

TEXT_CHARS = 60
_ID = re.compile(r"^id$|_id$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SECONDS = re.compile(r"(^|_)(seconds|time)$")


def render_log(events: Iterable[Event], *, replace: Mapping[str, str] | None = None) -> str:
    """Return one line per event: `seq type turn.step key=value …`.

    Left out are times and fields that have their default. Ids become `call-1`, `message-1`, … in
    the order in which they are first seen, numbers of seconds become `~`, long text is cut.

    Args:
        events: In order.
        replace: Text → what stands for it, as in `{str(tmp_path): "<cwd>"}`.
    """
    names = _Names(replace or {})
    return "\n".join(f"{event.seq:>3} {event.type}{_fields(event.data, names)}" for event in events)


class _Names:
    """What stands for an id or for text that differs from run to run."""

    def __init__(self, replace: Mapping[str, str]):
        self._replace = replace
        self._names: dict[tuple[str, str], str] = {}

    def of(self, kind: str, value: object) -> str:
        key = (kind, str(value))
        if key not in self._names:
            count = sum(1 for known, _ in self._names if known == kind)
            self._names[key] = f"{kind}-{count + 1}"
        return self._names[key]

    def cut(self, text: str) -> str:
        """Replace, then cut, so that the cut is at the same place on every run."""
        for found, name in self._replace.items():
            text = text.replace(found, name)
        left = len(text) - TEXT_CHARS
        return text if left <= 0 else f"{text[:TEXT_CHARS]}…(+{left})"

    def quoted(self, text: str) -> str:
        """Return prose in quotes, on one line."""
        return _CONTROL.sub(_escape, json.dumps(self.cut(text), ensure_ascii=False))

    def code(self, text: str) -> str:
        """Return JSON or the like without quotes around it, on one line."""
        return _CONTROL.sub(_escape, self.cut(text))


def _fields(data: EventData, names: _Names) -> str:
    if isinstance(data, UnknownEvent):
        values: dict[str, Any] = dict(data.fields)
    else:
        values = _set_fields(data)
    words = []
    if "turn" in values:
        turn, step = values.pop("turn"), values.pop("step", None)
        words.append(f"{turn}" if step is None else f"{turn}.{step}")
    words += [_field(key, value, names) for key, value in values.items()]
    return "".join(f" {word}" for word in words)


def _set_fields(data: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their default."""
    values = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
    defaults = {field.name: field.default for field in dataclasses.fields(data)}
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("_") and value is not None and value != defaults[name]
    }


def _field(key: str, value: Any, names: _Names) -> str:
    if key in {"content", "chunk", "block"}:
        return _value(key, value, names)
    return f"{key}={_value(key, value, names)}"


def _value(key: str, value: Any, names: _Names) -> str:
    if _ID.search(key) and isinstance(value, str):
        return names.of("call" if key == "id" else key.removesuffix("_id"), value)
    if _SECONDS.search(key) and isinstance(value, (int, float)):
        return "~"
    match value:
        case Block():
            return _block(value, names)
        case ToolSchema(name):
            return name
        case str():
            return names.code(value) if key == "arguments" else names.quoted(value)
        case Mapping():
            return _braces((f"{k}={_value(k, v, names)}" for k, v in value.items()), "{}")
        case tuple() | list():
            items = [_value("", item, names) for item in value]
            return " ".join(items) if key == "content" else _braces(items, "[]")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object(value, names)
    return json.dumps(to_json(value), ensure_ascii=False)


def _block(block: Block, names: _Names) -> str:
    match block:
        case Text(text):
            return names.quoted(text)
        case Reasoning(text):
            return f"thought {names.quoted(text)}"
        case ToolCall(call_id, name, arguments):
            return f"{names.of('call', call_id)} {name}({names.code(arguments)})"
        case ToolResult(call_id, content):
            return f"{names.of('call', call_id)} → {_value('content', content, names)}"
        case Image(media_type, data):
            return f"{media_type}[{len(data)}]"
    return _object(block, names)


def _object(value: Any, names: _Names) -> str:
    words = [_field(key, item, names) for key, item in _set_fields(value).items()]
    kind = getattr(value, "type", type(value).__name__.lower())
    return f"{kind}{_braces(words, '()')}" if words else str(kind)


def _braces(words: Iterable[str], pair: str) -> str:
    return f"{pair[0]}{' '.join(words)}{pair[1]}"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
