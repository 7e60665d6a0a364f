"""A session as people tell it: turns, steps, what was said, called and changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsh_core import (
    Block,
    Event,
    Image,
    Reasoning,
    SessionHeader,
    SessionSummary,
    Text,
    Usage,
    summarise,
    text_of,
    to_json,
)
from dsh_core import events as e


@dataclass(slots=True)
class Item:
    """One thing that happened.

    Args:
        kind: `user`, `context`, `steering`, `text`, `reasoning`, `image`, `call`, `changed` (what a
            plugin did) or `note`.
        text: What is to be read.
        source: Who it comes from, where that is not clear.
        details: For a call: `arguments`, `verdict`, `output`, `code`, `diff`, `seconds`.
    """

    kind: str
    text: str = ""
    source: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Step:
    """One model call and its tools; number 0 = what happened outside of steps."""

    number: int
    started: float
    items: list[Item] = field(default_factory=list)
    model: str = ""
    usage: Usage | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class Turn:
    """One turn; `reason` is None while it is open."""

    number: int
    started: float
    trigger: str
    is_inherited: bool = False
    steps: list[Step] = field(default_factory=list)
    reason: str | None = None
    reason_text: str = ""
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole session."""

    header: SessionHeader
    summary: SessionSummary
    turns: Sequence[Turn]


def transcript(header: SessionHeader, events: Sequence[Event]) -> Transcript:
    """Fold a log to what people want to read of it."""
    teller = _Teller(header)
    for event in events:
        teller.take(event)
    return Transcript(header, summarise(header, events), teller.turns)


class _Teller:
    def __init__(self, header: SessionHeader):
        self.turns: list[Turn] = []
        self._inherited = header.seed_length
        self._calls: dict[str, tuple[Item, float]] = {}

    def take(self, event: Event) -> None:
        data = event.data
        if isinstance(data, e.TurnStart):
            is_inherited = event.seq < self._inherited
            self.turns.append(Turn(data.turn, event.time, data.trigger.type, is_inherited))
            self._calls.clear()
            return
        if not self.turns:
            return
        turn = self.turns[-1]
        turn.seconds = event.time - turn.started
        if isinstance(data, e.TurnEnd):
            turn.reason = data.reason.type
            turn.reason_text = getattr(data.reason, "message", "") or ""
            return
        if isinstance(data, e.StepStart):
            turn.steps.append(Step(data.step, event.time))
            return
        if not turn.steps:
            turn.steps.append(Step(0, event.time))
        step = turn.steps[-1]
        step.seconds = event.time - step.started
        tell = _TELL.get(type(data))
        if tell is not None:
            tell(self, event, data, turn, step)
        elif isinstance(data, e.UnknownEvent):
            step.items.append(Item("note", event.type))
        elif "/" in event.type and type(data).__module__.partition(".")[0] != "dsh_core":
            notice = getattr(data, "notice", None)
            step.items.append(Item("note", str(notice or event.type)))

    def _said(self, event: Event, data: Any, turn: Turn, step: Step) -> None:
        kind = event.type.partition("/")[0]
        source = "" if data.source.type == "user" else _source(data.source)
        step.items += _blocks(data.content, kind, source)
        if getattr(data, "replaces", None) is not None:
            step.items.append(Item("note", f"events {_span(data.replaces)} are replaced by this"))

    def _replied(self, event: Event, data: e.AssistantMessage, turn: Turn, step: Step) -> None:
        step.model = data.model or step.model
        step.items += _blocks(data.content, "text", "")
        if data.interrupted:
            step.items.append(Item("note", "the reply was cut off"))
        elif data.finish == "max-tokens":
            step.items.append(Item("note", "the reply was cut at its length limit"))

    def _used(self, event: Event, data: e.UsageEvent, turn: Turn, step: Step) -> None:
        step.usage = (step.usage or Usage()) + data.usage
        turn.usage = turn.usage + data.usage

    def _called(self, event: Event, data: e.ToolCallEvent, turn: Turn, step: Step) -> None:
        details = {"arguments": _arguments(data.arguments), "verdict": data.verdict}
        item = Item("call", data.name, details=details)
        step.items.append(item)
        self._calls[data.call_id] = (item, event.time)

    def _answered(self, event: Event, data: e.ToolResultEvent, turn: Turn, step: Step) -> None:
        item, started = self._calls.get(data.call_id, (None, event.time))
        if data.replaces is not None:
            step.items.append(Item("note", "the result of a call was shortened for the model"))
            return
        if item is None:
            item = Item("call", "?", details={"arguments": "", "verdict": "allow"})
            step.items.append(item)
        meta = data.meta or {}
        item.details |= {
            "output": text_of(data.content),
            "is_error": data.is_error,
            "code": data.code,
            "diff": meta.get("diff") if isinstance(meta.get("diff"), str) else None,
            "seconds": event.time - started,
        }

    def _header(self, event: Event, data: e.RequestHeader, turn: Turn, step: Step) -> None:
        step.model = data.model
        for name, plugin in (data.changed_by or {}).items():
            step.items.append(Item("changed", f"{name} of the request", plugin))
        if data.prefix_break:
            broke = ", ".join(data.prefix_break)
            step.items.append(Item("note", f"the prompt cache was lost: {broke} changed"))

    def _messages(self, event: Event, data: e.RequestMessages, turn: Turn, step: Step) -> None:
        text = f"messages of the request ({len(data.messages)} in place of the log's)"
        step.items.append(Item("changed", text, data.changed_by or "?"))

    def _traced(self, event: Event, data: e.PluginTrace, turn: Turn, step: Step) -> None:
        for ran in data.ran:
            changed = ", ".join(map(str, ran.get("changed") or ()))
            if changed or ran.get("decided"):
                text = f"{changed or 'the outcome'} in {data.hook}"
                step.items.append(Item("changed", text, str(ran.get("plugin", "?"))))

    def _asked(self, event: Event, data: e.ApprovalAsked, turn: Turn, step: Step) -> None:
        step.items.append(Item("note", f"asked: {data.message}", data.plugin or ""))

    def _decided(self, event: Event, data: e.ApprovalDecided, turn: Turn, step: Step) -> None:
        answer = "allowed" if data.allowed else "refused"
        step.items.append(Item("note", f"{answer} {data.message}".strip()))

    def _retried(self, event: Event, data: e.LlmRetry, turn: Turn, step: Step) -> None:
        step.items.append(Item("note", f"try {data.attempt} failed: {data.message}"))

    def _failed(self, event: Event, data: e.ErrorEvent, turn: Turn, step: Step) -> None:
        step.items.append(Item("error", data.message, data.plugin or ""))


_TELL: Mapping[type[Any], Callable[[_Teller, Event, Any, Turn, Step], None]] = {
    e.UserMessage: _Teller._said,
    e.ContextMessage: _Teller._said,
    e.SteeringMessage: _Teller._said,
    e.AssistantMessage: _Teller._replied,
    e.UsageEvent: _Teller._used,
    e.ToolCallEvent: _Teller._called,
    e.ToolResultEvent: _Teller._answered,
    e.RequestHeader: _Teller._header,
    e.RequestMessages: _Teller._messages,
    e.PluginTrace: _Teller._traced,
    e.ApprovalAsked: _Teller._asked,
    e.ApprovalDecided: _Teller._decided,
    e.LlmRetry: _Teller._retried,
    e.ErrorEvent: _Teller._failed,
}


def _blocks(blocks: Sequence[Block], kind: str, source: str) -> list[Item]:
    items: list[Item] = []
    for block in blocks:
        match block:
            case Text(text):
                items.append(Item(kind, text, source))
            case Reasoning(text):
                items.append(Item("reasoning", text, source))
            case Image(media_type, data):
                details = {"media_type": media_type, "data": data}
                items.append(Item("image", media_type, source, details))
            case _ if block.type != "tool-call":
                items.append(Item("note", f"a block of type {block.type}", source))
    return items


def _arguments(raw: str) -> str:
    try:
        return json.dumps(json.loads(raw), indent=2, ensure_ascii=False)
    except ValueError:
        return raw


def _source(source: Any) -> str:
    fields = [str(item) for name, item in to_json(source).items() if name != "type" and item]
    return " ".join([source.type, *fields])


def _span(replaces: tuple[int, int]) -> str:
    return f"{replaces[0]} to {replaces[1]}"
