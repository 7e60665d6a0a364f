"""A real harness around a fake model: what the tests of the loop run, and how they look at it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from dsh_core import (
    AdapterFactory,
    Agent,
    AgentDefinition,
    EventData,
    Harness,
    HarnessConfig,
    Layer,
    Message,
    ProviderConfig,
    Request,
    Session,
    Tool,
    hookimpl,
    hookspecs,
    text_of,
    tool,
)
from dsh_core.chunks import Chunk, Finish, TextDelta, ToolCallDelta, Usage, UsageChunk
from dsh_core.content import ToolResult
from dsh_core.marks import MODE_ATTRIBUTE, Mode
from dsh_core.testing.log import assert_balanced

D = TypeVar("D", bound=EventData)
R = TypeVar("R")

GRACE_SECONDS = 0.05


def calls(*wanted: tuple[str, str] | tuple[str, str, str]) -> list[Chunk]:
    """A reply that calls tools: `(name, arguments)` or `(name, arguments, id)`."""
    deltas: list[Chunk] = [
        ToolCallDelta(i, one[2] if len(one) == 3 else f"c{i}", one[0], one[1])
        for i, one in enumerate(wanted)
    ]
    return [*deltas, Finish("tool-calls")]


def says(text: str, *, finish: str = "stop", usage: Usage | None = None) -> list[Chunk]:
    """A reply that is text, one chunk per word."""
    words: list[Chunk] = [TextDelta(0, word) for word in re.findall(r"\S+\s*", text)]
    return [*words, *([UsageChunk(usage)] if usage else []), Finish(finish)]


class Model:
    """Answers each request with the next reply; afterwards with "done".

    A reply is a text, chunks, an exception to raise, or a function of the request that gives one of
    these or an async iterator.
    """

    def __init__(self, *replies: Any):
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        reply = self.replies.pop(0) if self.replies else "done"
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, BaseException):
            raise reply
        if hasattr(reply, "__aiter__"):
            async for chunk in reply:
                yield chunk
            return
        for chunk in says(reply) if isinstance(reply, str) else reply:
            yield chunk

    async def aclose(self) -> None:
        """Hold nothing."""


class Gate:
    """A place to wait at: tests see that somebody came, and let them go on."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._open = asyncio.Event()

    async def wait(self) -> None:
        self._reached.set()
        await self._open.wait()

    async def reached(self) -> None:
        await asyncio.wait_for(self._reached.wait(), 10)

    def open(self) -> None:
        self._open.set()


def paused(gate: Gate, *after: Chunk, before: str = "") -> Callable[[Request], Any]:
    """A reply that says something, waits at a gate, and goes on."""

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        if before:
            yield TextDelta(0, before)
        await gate.wait()
        for chunk in after or says("done"):
            yield chunk

    return stream


class _Kit:
    """The plugin that brings model and tools, and keeps what is reported."""

    def __init__(self, model: Model, tools: Iterable[Tool]):
        self._model = model
        self._tools = list(tools)
        self.errors: list[BaseException] = []

    @hookimpl
    def llm_register(self) -> list[AdapterFactory]:
        return [AdapterFactory("fake", lambda provider: self._model)]

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return self._tools

    @hookimpl
    def agent_error(self, error: BaseException) -> None:
        if "held the event loop" not in str(error):  # on a loaded machine that can be anybody
            self.errors.append(error)


class Stage:
    """A running harness with its model, and an agent made when first wanted."""

    def __init__(self, harness: Harness, model: Model, errors: list[BaseException]):
        self.harness = harness
        self.model = model
        self.errors = errors
        self.agents: list[Agent] = []

    @property
    def agent(self) -> Agent:
        return self.agents[0] if self.agents else self.create()

    def create(self, **options: Any) -> Agent:
        definition = AgentDefinition(model="m/model", **options)
        agent = self.harness.agents.create(definition)
        self.agents.append(agent)
        return agent

    def logged(self, kind: type[D], agent: Agent | None = None) -> list[D]:
        """The data of an agent's events of one type."""
        events = (agent or self.agent).session.events
        return [event.data for event in events if isinstance(event.data, kind)]

    def types(self, agent: Agent | None = None) -> list[str]:
        """The types of all events, chunks left out."""
        events = (agent or self.agent).session.events
        return [event.type for event in events if event.type != "assistant/chunk"]

    def reports(self) -> list[str]:
        return [str(error) or type(error).__name__ for error in self.errors]


@asynccontextmanager
async def stage(
    *replies: Any,
    plugin: object | None = None,
    plugins: Mapping[str, object] | None = None,
    tools: Iterable[Tool] = (),
    settings: Mapping[str, Any] | None = None,
    grace_seconds: float = GRACE_SECONDS,
    config: HarnessConfig | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """Run a harness with a fake model. The logs of its agents must balance in the end."""
    model = Model(*replies)
    kit = _Kit(model, tools)
    layers = {"agent_loop": {"grace_seconds": grace_seconds}, **(settings or {})}
    config = replace(
        config or HarnessConfig(autoload=False),
        plugins={name: (Layer("test", values),) for name, values in layers.items()},
    )
    given = {"kit": kit, **({"it": plugin} if plugin is not None else {}), **(plugins or {})}
    providers = [ProviderConfig("m", "fake")]
    async with Harness(config, plugins=given, providers=providers, **options) as harness:
        staged = Stage(harness, model, kit.errors)
        yield staged
    for agent in staged.agents:
        assert_balanced(agent.session.events)


async def bounded(awaitable: Awaitable[R], seconds: float = 20) -> R:
    """Await what must not hang."""
    return await asyncio.wait_for(awaitable, seconds)


def lines(messages: Iterable[Message]) -> list[str]:
    """What the model was shown, one line per message."""
    return [
        f"{message.role}: "
        + " ".join(
            text_of(block.content) if isinstance(block, ToolResult) else getattr(block, "text", "")
            for block in message.content
        )
        for message in messages
    ]


class Notes:
    """A plugin that notes the hooks of an agent's life."""

    def __init__(self) -> None:
        self.status: list[str] = []
        self.queued: list[tuple[str, Any, bool]] = []
        self.turns: list[str] = []
        self.flushed = 0

    @hookimpl
    def agent_status(self, status: str) -> None:
        self.status.append(status)

    @hookimpl
    def agent_queued(self, content: Any, source: Any, steering: bool) -> None:
        self.queued.append((content[0].text, source, steering))

    @hookimpl
    async def agent_turn_start(self, turn: int) -> None:
        self.turns.append(f"start {turn}")

    @hookimpl
    async def agent_turn_end(self, turn: int, reason: Any) -> None:
        self.turns.append(f"end {turn} {reason.type}")

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self.flushed += 1


@tool
def nothing() -> str:
    """Do nothing."""
    return "done"


def gated_tool(gate: Gate) -> Any:
    @tool
    async def wait() -> str:
        """Wait at the gate."""
        await gate.wait()
        return "waited"

    return wait


MODES: dict[str, Mode] = {
    name: getattr(spec, MODE_ATTRIBUTE)
    for name, spec in vars(hookspecs).items()
    if hasattr(spec, MODE_ATTRIBUTE)
}


def raising(hook: str, error: BaseException, *, times: int = 1) -> object:
    """A plugin whose implementation of a hook raises, the first few times."""
    left = [times]

    def fail() -> None:
        if left[0]:
            left[0] -= 1
            raise error

    def plain(self: object) -> None:
        fail()

    async def eventually(self: object) -> None:
        fail()

    function = eventually if MODES[hook].is_async else plain
    return type("Raising", (), {hook: hookimpl(function)})()
