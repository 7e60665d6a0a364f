"""What came of `agent.run`, read from the log."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_core.agents import TurnResult
from dsh_core.chunks import Usage
from dsh_core.content import text_of
from dsh_core.errors import AgentError
from dsh_core.events import (
    AssistantMessage,
    Event,
    MessageTrigger,
    SteeringMessage,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UsageEvent,
    UserMessage,
)


def turn_result(events: Sequence[Event], first: int, message_id: str) -> TurnResult:
    """Fold the events from index `first` on, beginning with the turn that holds the message.

    One-shot turns, in which the model has no part, do not count. Raises `AgentError` when no turn
    took the message.
    """
    turns: list[int] = []
    text, usage = "", Usage()
    reason: TurnEndReason | None = None
    turn = 0
    holds = False
    for event in events[first:]:
        match event.data:
            case TurnStart(turn, MessageTrigger()):
                turns.append(turn)
            case UserMessage(message_id=found) | SteeringMessage(message_id=found):
                if found == message_id and not holds:
                    holds, turns, usage, text = True, [turn], Usage(), ""
            case AssistantMessage(content=content, interrupted=False, replaces=None):
                text = text_of(content) or text
            case UsageEvent(usage=more):
                usage = usage + more
            case TurnEnd(ended, why) if ended == turn:
                reason = why
    if not holds or reason is None:
        raise AgentError("the message was not taken by a turn; see agent_error for the reason")
    return TurnResult(text, reason, usage, tuple(turns))
