"""The model's history as a fold of the log: incremental, with complete call/result pairs.

A reply with tool calls opens a group that settles when its last result is in; what is logged in
between (injected context) comes after the results. A message with `replaces=(first, last)` takes
the place of the current messages from the one that event `first` gave to the one that event `last`
gave, both included, in the order of the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from dsh_core.content import Block, Text, ToolCall, ToolResult
from dsh_core.errors import SessionError
from dsh_core.events import (
    AssistantMessage,
    ContextMessage,
    Event,
    EventData,
    SteeringMessage,
    StepEnd,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UserMessage,
)
from dsh_core.messages import Message, PluginSource, Source, UnknownSource
from dsh_core.record import record
from dsh_core.session.repair import missing_result


@record()
class _Origin:
    """Where a message comes from; a reply and its results share a group."""

    seq: int
    group: int


@record(frozen=False)
class _Group:
    """A reply whose calls are not all answered yet."""

    turn: int
    step: int
    seq: int
    message: Message
    calls: list[str]
    results: list[tuple[int, Message] | None]
    started: list[str] = field(default_factory=list)
    deferred: list[tuple[int, Message]] = field(default_factory=list)


class History:
    """The derived messages. `generation` counts replacements: cheap "did the past change?"."""

    def __init__(self) -> None:
        self.generation = 0
        self._messages: list[Message] = []
        self._origins: list[_Origin] = []
        self._group: _Group | None = None
        self._cached: tuple[Message, ...] | None = ()

    def messages(self) -> tuple[Message, ...]:
        """Return the settled history; the same tuple until something is added."""
        if self._cached is None:
            self._cached = tuple(self._messages)
        return self._cached

    def sources(self) -> tuple[tuple[int, Message], ...]:
        """Return `(seq, message)` of the settled history, for choosing a range to replace."""
        seqs = (origin.seq for origin in self._origins)
        return tuple(zip(seqs, self._messages, strict=True))

    def check(self, data: EventData) -> None:
        """Raise `SessionError` for a replacement that would break the history."""
        replaces = getattr(data, "replaces", None)
        if replaces is not None:
            self._replaced_span(data, replaces)

    def feed(self, event: Event) -> None:
        """Take one event. Constant time, except for replacements."""
        take = _TAKES.get(type(event.data))
        if take is not None:
            take(self, event.seq, event.data)

    def _take_input(self, seq: int, data: UserMessage | ContextMessage | SteeringMessage) -> None:
        message = input_message(data)
        replaces = getattr(data, "replaces", None)
        if replaces is not None:
            self._replace(data, replaces, seq, message)
        elif self._group is not None:
            self._group.deferred.append((seq, message))
        else:
            self._add(seq, message, seq)

    def _take_reply(self, seq: int, data: AssistantMessage) -> None:
        message = Message("assistant", data.content, model=data.model)
        if data.replaces is not None:
            self._replace(data, data.replaces, seq, message)
            return
        self._settle(seq)
        if not data.content:
            return
        calls = [block.id for block in data.content if isinstance(block, ToolCall)]
        if calls:
            self._group = _Group(
                data.turn, data.step, seq, message, calls, results=[None] * len(calls)
            )
        else:
            self._add(seq, message, seq)

    def _take_call(self, seq: int, data: ToolCallEvent) -> None:
        if self._group is not None and data.verdict == "allow":
            self._group.started.append(data.call_id)

    def _take_result(self, seq: int, data: ToolResultEvent) -> None:
        message = result_message(data)
        if data.replaces is not None:
            self._replace(data, data.replaces, seq, message)
            return
        group = self._group
        if group is None:
            return
        for position, call_id in enumerate(group.calls):
            if call_id == data.call_id and group.results[position] is None:
                group.results[position] = (seq, message)
                if call_id in group.started:
                    group.started.remove(call_id)
                break
        if all(group.results):
            self._settle(seq)

    def _settle(self, seq: int, data: EventData | None = None) -> None:
        """Close the open group; a call that never got its result gets one that says so."""
        group = self._group
        if group is None:
            return
        self._group = None
        self._add(group.seq, group.message, group.seq)
        for call_id, result in zip(group.calls, group.results, strict=True):
            if result is None:
                was_started = call_id in group.started
                if was_started:
                    group.started.remove(call_id)
                lost = missing_result(group.turn, group.step, call_id, started=was_started)
                result = (seq, result_message(lost))
            self._add(*result, group.seq)
        for own_seq, message in group.deferred:
            self._add(own_seq, message, own_seq)

    def _add(self, seq: int, message: Message, group: int) -> None:
        self._messages.append(message)
        self._origins.append(_Origin(seq, group))
        self._cached = None

    def _replace(
        self, data: EventData, replaces: tuple[int, int], seq: int, message: Message
    ) -> None:
        span = self._replaced_span(data, replaces)
        is_result = isinstance(data, ToolResultEvent)
        group = self._origins[span.start].group if is_result else seq
        self._messages[span] = [message]
        self._origins[span] = [_Origin(seq, group)]
        self._cached = None
        self.generation += 1

    def _replaced_span(self, data: EventData, replaces: tuple[int, int]) -> slice:
        """Return the positions a replacement takes. Raises `SessionError` when it must not."""
        first, last = self._positions(replaces[0])[0], self._positions(replaces[1])[-1]
        if first > last:
            raise SessionError(f"the message from event {replaces[0]} comes after {replaces[1]}")
        if isinstance(data, ToolResultEvent):
            self._check_result(data, first, last)
        else:
            _check_content(data)
            self._check_balance(first, last)
        return slice(first, last + 1)

    def _positions(self, seq: int) -> list[int]:
        """Return where the messages of an event are: one, or the results that a step end gave."""
        positions = [i for i, origin in enumerate(self._origins) if origin.seq == seq]
        if not positions:
            raise SessionError(
                f"no message in the history comes from event {seq}; "
                "`session.message_sources()` says where its messages come from"
            )
        return positions

    def _check_balance(self, first: int, last: int) -> None:
        before = self._origins[first - 1].group if first else None
        after = self._origins[last + 1].group if last + 1 < len(self._origins) else None
        if self._origins[first].group == before or self._origins[last].group == after:
            raise SessionError(
                "the range separates a tool call from its result; a replaced range holds whole "
                "replies with all their results"
            )

    def _check_result(self, data: ToolResultEvent, first: int, last: int) -> None:
        content = self._messages[first].content
        known = content[0] if first == last and content else None
        if not isinstance(known, ToolResult) or known.call_id != data.call_id:
            raise SessionError(
                f"a tool result replaces exactly the current result of its own call; "
                f"{data.call_id!r} has none there"
            )
        if known.is_error is not data.is_error:
            raise SessionError("a tool result may be replaced in its content only")


_TAKES: dict[type[EventData], Callable[[History, int, Any], None]] = {
    UserMessage: History._take_input,
    ContextMessage: History._take_input,
    SteeringMessage: History._take_input,
    AssistantMessage: History._take_reply,
    ToolCallEvent: History._take_call,
    ToolResultEvent: History._take_result,
    StepEnd: History._settle,
    TurnEnd: History._settle,
}


def _check_content(data: EventData) -> None:
    content: tuple[Block, ...] = getattr(data, "content", ())
    if not content:
        raise SessionError("a replacement must not be empty")
    if any(isinstance(block, ToolCall) for block in content):
        raise SessionError("a replacement must not hold tool calls")


def input_message(data: UserMessage | ContextMessage | SteeringMessage) -> Message:
    """Return a user message; context and steering are tagged with their source."""
    if isinstance(data, UserMessage):
        return Message("user", data.content, source=data.source)
    tag = "context" if isinstance(data, ContextMessage) else "steering"
    return Message("user", tagged(tag, data.content, data.source), source=data.source)


def tagged(tag: str, content: tuple[Block, ...], source: Source) -> tuple[Block, ...]:
    """Wrap blocks in `<tag source="…">`; a closing tag inside the text is defused."""
    match source:
        case PluginSource(plugin):
            name = f"plugin:{plugin}"
        case UnknownSource(name):
            pass
        case _:
            name = source.type
    closing = f"</{tag}>"
    inner = tuple(
        Text(block.text.replace(closing, f"<\\/{tag}>")) if isinstance(block, Text) else block
        for block in content
    )
    opening = f'<{tag} source="{name}">'
    if len(inner) == 1 and isinstance(inner[0], Text):
        return (Text(f"{opening}\n{inner[0].text}\n{closing}"),)
    return (Text(opening), *inner, Text(closing))


def result_message(data: ToolResultEvent) -> Message:
    """Return the message with the one result."""
    return Message("user", (ToolResult(data.call_id, data.content, data.is_error),))
