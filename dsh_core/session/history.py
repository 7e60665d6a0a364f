"""The model's history as a fold of the log: incremental, with complete call/result pairs.

A reply with tool calls opens a group that settles when its last result is in; what is logged in
between (injected context) comes after the results. A message with `replaces` takes the place of
the messages that the events of that range gave.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
from dsh_core.messages import Message, PluginSource, Source
from dsh_core.session.repair import missing_result


@dataclass(slots=True)
class _Entry:
    """A message with the event it came from; entries of one reply and its results share a group."""

    seq: int
    message: Message
    group: int


@dataclass(slots=True)
class _Group:
    """A reply whose calls are not all answered yet."""

    turn: int
    step: int
    seq: int
    message: Message
    calls: list[str]
    results: list[_Entry | None]
    started: list[str] = field(default_factory=list)
    deferred: list[_Entry] = field(default_factory=list)


class History:
    """The derived messages. `generation` counts replacements: cheap "did the past change?"."""

    def __init__(self) -> None:
        self.generation = 0
        self._entries: list[_Entry] = []
        self._group: _Group | None = None
        self._cached: tuple[Message, ...] | None = ()

    def messages(self) -> tuple[Message, ...]:
        """Return the settled history; the same tuple until something is added."""
        if self._cached is None:
            self._cached = tuple([entry.message for entry in self._entries])
        return self._cached

    def sources(self) -> tuple[tuple[int, Message], ...]:
        """Return `(seq, message)` of the settled history, for choosing a range to replace."""
        return tuple((entry.seq, entry.message) for entry in self._entries)

    def check(self, data: EventData) -> None:
        """Raise `SessionError` for a replacement that would break the history."""
        replaces = getattr(data, "replaces", None)
        if replaces is None:
            return
        if isinstance(data, ToolResultEvent):
            self._check_result(data, replaces)
        else:
            self._replaced_indices(data, replaces)

    def feed(self, event: Event) -> None:
        """Take one event. Constant time, except for replacements."""
        match event.data:
            case UserMessage() | ContextMessage() | SteeringMessage() as data:
                self._take_input(event.seq, data)
            case AssistantMessage() as data:
                self._take_reply(event.seq, data)
            case ToolCallEvent(call_id=call_id):
                if self._group is not None:
                    self._group.started.append(call_id)
            case ToolResultEvent() as data:
                self._take_result(event.seq, data)
            case StepEnd() | TurnEnd():
                self._settle(event.seq)

    def _take_input(self, seq: int, data: UserMessage | ContextMessage | SteeringMessage) -> None:
        entry = _Entry(seq, input_message(data), seq)
        replaces = getattr(data, "replaces", None)
        if replaces is not None:
            self._replace(self._replaced_indices(data, replaces), entry)
        elif self._group is not None:
            self._group.deferred.append(entry)
        else:
            self._add(entry)

    def _take_reply(self, seq: int, data: AssistantMessage) -> None:
        self._settle(seq)
        if not data.content:
            return
        message = Message("assistant", data.content, model=data.model)
        if data.replaces is not None:
            indices = self._replaced_indices(data, data.replaces)
            self._replace(indices, _Entry(seq, message, seq))
            return
        calls = [block.id for block in data.content if isinstance(block, ToolCall)]
        if calls:
            results: list[_Entry | None] = [None] * len(calls)
            self._group = _Group(data.turn, data.step, seq, message, calls, results)
        else:
            self._add(_Entry(seq, message, seq))

    def _take_result(self, seq: int, data: ToolResultEvent) -> None:
        message = result_message(data)
        if data.replaces is not None:
            index = self._check_result(data, data.replaces)
            self._entries[index] = replace(self._entries[index], seq=seq, message=message)
            self._changed()
            return
        group = self._group
        if group is None:
            return
        for position, call_id in enumerate(group.calls):
            if call_id == data.call_id and group.results[position] is None:
                group.results[position] = _Entry(seq, message, group.seq)
                break
        if all(group.results):
            self._settle(seq)

    def _settle(self, seq: int) -> None:
        """Close the open group; a call that never got its result gets one that says so."""
        group = self._group
        if group is None:
            return
        self._group = None
        self._add(_Entry(group.seq, group.message, group.seq))
        for call_id, result in zip(group.calls, group.results, strict=True):
            if result is None:
                lost = missing_result(
                    group.turn, group.step, call_id, started=call_id in group.started
                )
                result = _Entry(seq, result_message(lost), group.seq)
            self._add(result)
        for entry in group.deferred:
            self._add(entry)

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._cached = None

    def _replace(self, indices: list[int], entry: _Entry) -> None:
        first = indices[0]
        gone = set(indices)
        self._entries = [e for i, e in enumerate(self._entries) if i not in gone]
        self._entries.insert(first, entry)
        self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self._cached = None

    def _replaced_indices(self, data: EventData, replaces: tuple[int, int]) -> list[int]:
        first, last = replaces
        if isinstance(data, AssistantMessage) and any(
            isinstance(block, ToolCall) for block in data.content
        ):
            raise SessionError("a replacement must not hold tool calls")
        inside = [i for i, e in enumerate(self._entries) if first <= e.seq <= last]
        if not inside:
            raise SessionError(f"no message in the history comes from events {first}–{last}")
        groups = {self._entries[i].group for i in inside}
        whole = [i for i, e in enumerate(self._entries) if e.group in groups]
        if whole != inside:
            raise SessionError(
                f"events {first}–{last} separate a tool call from its result; "
                "a replaced range holds whole replies with all their results"
            )
        return inside

    def _check_result(self, data: ToolResultEvent, replaces: tuple[int, int]) -> int:
        first, last = replaces
        for index, entry in enumerate(self._entries):
            if entry.seq == first == last:
                block = entry.message.content[0] if entry.message.content else None
                if isinstance(block, ToolResult) and block.call_id == data.call_id:
                    return index
        raise SessionError(
            f"a tool result replaces exactly the current result of its own call; "
            f"{data.call_id!r} has none from event {first}"
        )


def input_message(data: UserMessage | ContextMessage | SteeringMessage) -> Message:
    """Return a user message; context and steering are tagged with their source."""
    if isinstance(data, UserMessage):
        return Message("user", data.content, source=data.source)
    tag = "context" if isinstance(data, ContextMessage) else "steering"
    return Message("user", tagged(tag, data.content, data.source), source=data.source)


def tagged(tag: str, content: tuple[Block, ...], source: Source) -> tuple[Block, ...]:
    """Wrap blocks in `<tag source="…">`; a closing tag inside the text is defused."""
    name = f"plugin:{source.plugin}" if isinstance(source, PluginSource) else source.type
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
