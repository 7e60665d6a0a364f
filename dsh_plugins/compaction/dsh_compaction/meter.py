"""How large a conversation is: what the provider counted last, and an estimate after it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dsh_core import Agent, Event, Message, Text, to_json
from dsh_core.events import AssistantMessage, RequestHeader, UsageEvent


@dataclass(frozen=True, slots=True)
class Base:
    """A size that is known: of a request with the first `length` messages of the history."""

    generation: int
    length: int
    tokens: int


class Meter:
    """Measures one agent's conversation, in time that does not grow with it."""

    def __init__(self, agent: Agent):
        self._agent = agent
        self._base: Base | None = None
        self._seen = 0
        self.model: str | None = None

    @property
    def window(self) -> int | None:
        """The context window of the model in use, None where it is not configured."""
        return window_of(self._agent, self.model or self._agent.options.model or "")

    async def total(self) -> int:
        """Return about what the next request takes, system text and tools included."""
        agent = self._agent
        session = agent.session
        self._take_usage()
        base = self._base
        if base is None or base.generation != session.generation:
            base = Base(session.generation, 0, await fixed_tokens(agent))
        messages = session.messages()
        tokens = base.tokens
        if len(messages) > base.length:
            # A tuple of its own: the history itself is what `tokens_measure` answers from here.
            tokens += await agent.harness.llm.measure(agent, (*messages[base.length :],))
        is_whole = base.length > 0 or last_header(session.events) is not None
        if is_whole and session.messages() is messages:
            self._base = Base(base.generation, len(messages), tokens)
        return tokens

    def set(self, tokens: int, length: int) -> None:
        """Take over what a compaction found the size of the first `length` messages to be."""
        session = self._agent.session
        self._base = Base(session.generation, length, tokens)
        self._seen = len(session.events)

    def _take_usage(self) -> None:
        """Begin anew at the newest reply, where the provider said what its request took.

        Reads the log backwards to that reply: its results and what came after, no chunks.
        """
        session = self._agent.session
        events, seen = session.events, self._seen
        self._seen = len(events)
        usages: dict[tuple[int, int], UsageEvent] = {}
        for index in range(len(events) - 1, seen - 1, -1):
            match events[index].data:
                case UsageEvent() as data:
                    usages.setdefault((data.turn, data.step), data)
                case AssistantMessage(replaces=None) as data:
                    usage = usages.get((data.turn, data.step))
                    if usage is not None:
                        self._begin(session.messages(), data, usage)
                    return
                case data if getattr(data, "replaces", None) is not None:
                    return  # the past has changed since the provider counted

    def _begin(
        self, messages: Sequence[Message], reply: AssistantMessage, usage: UsageEvent
    ) -> None:
        counts = usage.usage
        tokens = counts.input_tokens + counts.cache_read_tokens + counts.cache_write_tokens
        self.model = usage.model or self.model
        for length in range(len(messages) - 1, -1, -1):
            message = messages[length]
            if message.role == "assistant":
                if message.content is reply.content and tokens > 0:
                    self._base = Base(self._agent.session.generation, length, tokens)
                return


def window_of(agent: Agent, route: str) -> int | None:
    """Return the context window of a model, None where it is not configured."""
    return agent.harness.llm.model_config(route).context_window_tokens


def last_header(events: Sequence[Event]) -> RequestHeader | None:
    """Return what the newest request carried beside its messages."""
    for index in range(len(events) - 1, -1, -1):
        data = events[index].data
        if isinstance(data, RequestHeader):
            return data
    return None


async def fixed_tokens(agent: Agent) -> int:
    """Estimate what system text and tools of the newest request take."""
    header = last_header(agent.session.events)
    if header is None:
        return 0
    tools = json.dumps(to_json(header.tools), ensure_ascii=False) if header.tools else ""
    message = Message("user", (Text(header.system), Text(tools)))
    return await agent.harness.llm.measure(agent, (message,))
