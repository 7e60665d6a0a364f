"""The session's event vocabulary: what the log can say.

An `Event` is an envelope: `seq` is the index in the log, `time` Unix seconds, `data` one of the
classes below. Every event lies between a `turn/start` and its `turn/end`. Plugins add event types
with `@case("owner/name")` on a subclass of `EventData`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh_core.chunks import Chunk, Usage
from dsh_core.codec import DecodeError, JsonValue, Tagged, case, from_json, sum_type, to_json
from dsh_core.content import Block
from dsh_core.messages import USER, Message, Source
from dsh_core.record import record
from dsh_core.request import ToolSchema


@sum_type
class Trigger(Tagged):
    """Why a turn began."""

    __slots__ = ()


@case("message")
class MessageTrigger(Trigger):
    """Queued messages."""

    source: Source = USER


@case("injection")
class InjectionTrigger(Trigger):
    """A one-shot turn around `inject` while idle."""

    source: Source = USER


@case("record")
class RecordTrigger(Trigger):
    """A one-shot turn around one recorded event."""

    event: str


@case("maintenance")
class MaintenanceTrigger(Trigger):
    """A one-shot turn of `agent.exclusive`."""

    label: str


@case("unknown")
class UnknownTrigger(Trigger):
    """A trigger whose plugin is gone."""

    name: str
    fields: Mapping[str, Any]


Trigger.unknown = UnknownTrigger


@sum_type
class TurnEndReason(Tagged):
    """Why a turn ended. Only `completed` is success."""

    __slots__ = ()


@case("completed")
class Completed(TurnEndReason):
    """The model owed nothing more."""


@case("aborted")
class Aborted(TurnEndReason):
    """Someone called `abort`."""

    reason: str | None = None


@case("error")
class Errored(TurnEndReason):
    """A request failed for good, or a plugin raised; the `error` event says the same."""

    message: str
    code: str = "UNKNOWN"


@case("disposed")
class Disposed(TurnEndReason):
    """The agent was disposed in mid-turn."""


@case("limit")
class LimitReached(TurnEndReason):
    """A budget ended the turn."""

    limit: str
    message: str


@case("max-tokens")
class MaxTokens(TurnEndReason):
    """The provider cut the reply at its output limit."""


@case("interrupted")
class Interrupted(TurnEndReason):
    """The process died in mid-turn; written when the session is loaded again."""


@case("unknown")
class UnknownReason(TurnEndReason):
    """A reason whose plugin is gone."""

    name: str
    fields: Mapping[str, Any]


TurnEndReason.unknown = UnknownReason


@sum_type
class EventData(Tagged):
    """What happened. One frozen class per event type."""

    __slots__ = ()

    @property
    def notice(self) -> str | None:
        """What a front end that does not know the event shows of it, on one line; None = nothing.

        An event type of a plugin overrides this to be seen by people.
        """
        return None


@case("turn/start")
class TurnStart(EventData):
    """A turn opens; turns count from 1."""

    turn: int
    trigger: Trigger


@case("turn/end")
class TurnEnd(EventData):
    """The turn closes; the log up to here is durable after the next flush."""

    turn: int
    reason: TurnEndReason


@case("step/start")
class StepStart(EventData):
    """One model call and its tools; steps count from 1 within the turn."""

    turn: int
    step: int


@case("step/end")
class StepEnd(EventData):
    """The step closes."""

    turn: int
    step: int


@case("user/message")
class UserMessage(EventData):
    """A message sent to the agent."""

    content: tuple[Block, ...]
    source: Source = USER
    message_id: str | None = None
    replaces: tuple[int, int] | None = None


@case("context/message")
class ContextMessage(EventData):
    """Context given by `inject` or a plugin; the model sees it tagged with its source."""

    content: tuple[Block, ...]
    source: Source = USER
    message_id: str | None = None
    replaces: tuple[int, int] | None = None


@case("steering/message")
class SteeringMessage(EventData):
    """A message that joined a running turn between two steps."""

    turn: int
    content: tuple[Block, ...]
    source: Source = USER
    message_id: str | None = None


@case("request/header")
class RequestHeader(EventData):
    """What requests carry beside the messages; logged when it differs from the last one.

    `changed_by` names, for each field that a plugin wrote, that plugin. `prefix_break` lists the
    fields whose change made the provider's prompt cache useless.
    """

    turn: int
    step: int
    model: str
    system: str
    tools: tuple[ToolSchema, ...]
    parameters: Mapping[str, Any]
    changed_by: Mapping[str, str] | None = None
    prefix_break: tuple[str, ...] = ()


@case("request/messages")
class RequestMessages(EventData):
    """How the messages of this request differ from the derived history.

    The request held the first `keep_head` derived messages, then `messages`, then the last
    `keep_tail` derived ones.
    """

    turn: int
    step: int
    keep_head: int
    keep_tail: int
    messages: tuple[Message, ...]
    changed_by: str | None = None


@case("assistant/chunk")
class AssistantChunk(EventData):
    """One chunk of the stream, as it came."""

    turn: int
    step: int
    chunk: Chunk


@case("assistant/message")
class AssistantMessage(EventData):
    """The assembled reply, after `agent_step_result`.

    `interrupted` marks what could be kept of an aborted stream.
    """

    turn: int
    step: int
    content: tuple[Block, ...]
    model: str | None = None
    finish: str = "stop"
    interrupted: bool = False
    replaces: tuple[int, int] | None = None


@case("usage")
class UsageEvent(EventData):
    """What the step's request cost."""

    turn: int
    step: int
    usage: Usage
    model: str | None = None


@case("tool/call")
class ToolCallEvent(EventData):
    """A judged tool call, logged before its body runs; `verdict` is allow or deny.

    `judged_by` is the plugin whose verdict counted; None where no plugin had an opinion.
    """

    turn: int
    step: int
    call_id: str
    name: str
    arguments: str
    verdict: str = "allow"
    judged_by: str | None = None


@case("tool/progress")
class ToolProgress(EventData):
    """A line of progress from a running tool body; at most ten a second per call."""

    turn: int
    step: int
    call_id: str
    text: str


@case("tool/result")
class ToolResultEvent(EventData):
    """The one result of a tool call. `code` is set for errors that programs can route by.

    `meta` is for front ends (a diff, a path, an exit code) and never shown to the model.
    """

    turn: int
    step: int
    call_id: str
    content: tuple[Block, ...]
    is_error: bool = False
    code: str | None = None
    meta: Mapping[str, Any] | None = None
    replaces: tuple[int, int] | None = None


@case("approval/asked")
class ApprovalAsked(EventData):
    """Someone wants a person's consent before a call runs."""

    approval_id: str
    call_id: str
    name: str
    message: str
    plugin: str | None = None
    rule: str | None = None


@case("approval/decided")
class ApprovalDecided(EventData):
    """The answer to `approval/asked`; absent, broken and late answers are denials."""

    approval_id: str
    allowed: bool
    scope: str = "once"
    message: str = ""


@case("llm/retry")
class LlmRetry(EventData):
    """A failed request is tried again in the same step after the delay."""

    turn: int
    step: int
    attempt: int
    delay_seconds: float
    code: str
    message: str


@case("error")
class ErrorEvent(EventData):
    """Why the turn ends with reason `error`; at most one per turn."""

    turn: int
    step: int
    message: str
    code: str = "UNKNOWN"
    plugin: str | None = None


@case("plugin/trace")
class PluginTrace(EventData):
    """Who took part in one waterfall; written only while tracing.

    Each entry of `ran` has `plugin`, `seconds`, `changed` (names of what it changed) and `decided`;
    where there is something to show also `diff`, lines by name, and `decision`, lines.
    """

    hook: str
    seconds: float
    ran: tuple[Mapping[str, Any], ...]


@case("unknown")
class UnknownEvent(EventData):
    """An event whose plugin is gone: kept verbatim, no part of the model's history."""

    name: str
    fields: Mapping[str, Any]


EventData.unknown = UnknownEvent

_TIME: Any = int | float


@record()
class Event:
    """One entry of a session log."""

    seq: int
    time: float
    data: EventData

    @property
    def type(self) -> str:
        """The event type's name, as in `turn/start`."""
        data = self.data
        return data.name if isinstance(data, UnknownEvent) else data.type

    def to_json(self) -> dict[str, JsonValue]:
        """Return `{type, seq, time, data}`, the form of `--json` and of stored sessions."""
        if isinstance(self.data, UnknownEvent):
            data = to_json(self.data.fields)
        else:
            data = to_json(self.data)
            del data["type"]
        return {"type": self.type, "seq": self.seq, "time": self.time, "data": data}

    @classmethod
    def from_json(cls, value: JsonValue) -> Event:
        """Rebuild an event. Raises `DecodeError` when it does not fit; unknown types load.

        Lone surrogates, which JSON can hold and text cannot, become U+FFFD.
        """
        try:
            name, data = value["type"], value["data"]
            seq, time = value["seq"], value["time"]
        except (KeyError, TypeError) as error:
            raise DecodeError(f"not an event: {error}") from None
        name = from_json(str, name, "type")
        if EventData.cases.get(name, UnknownEvent) is UnknownEvent:
            content = UnknownEvent(name, from_json(Mapping[str, Any], data, name))
        elif isinstance(data, Mapping):
            content = from_json(EventData, {**data, "type": name}, name)
        else:
            raise DecodeError(f"{name}: expected a mapping, found {type(data).__name__}")
        return cls(from_json(int, seq, "seq"), from_json(_TIME, time, "time"), content)
