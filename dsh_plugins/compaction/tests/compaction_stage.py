"""A real harness and a strict model server with a small window: only the replies are made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dsh_compaction import Compaction
from dsh_compaction.events import CompactionEnd
from dsh_core import (
    Agent,
    AgentDefinition,
    EventData,
    Harness,
    HarnessConfig,
    Layer,
    ModelConfig,
    ProviderConfig,
    Tool,
    ToolResult,
    hookimpl,
    tool,
)
from dsh_core.testing import ModelServer, assert_balanced
from dsh_core.testing.behaviours import call, reply
from dsh_core.testing.exchange import ModelRequest
from dsh_invariants import Invariants

D = TypeVar("D", bound=EventData)
R = TypeVar("R")

WINDOW = 4000


def is_summary_request(request: ModelRequest) -> bool:
    return "summary" in request.last_text and "## Next step" in request.last_text


def summarising(*script: Any, summary: Any = "The work so far.") -> Callable[[ModelRequest], Any]:
    """Answer summary requests with `summary`, and others with the next behaviour."""
    left = iter(script)

    def answer(request: ModelRequest) -> Any:
        if is_summary_request(request):
            return reply(summary) if isinstance(summary, str) else summary
        return next(left, None) or reply("Done.")

    return answer


@tool
def fetch(characters: int, mark: str = "data") -> str:
    """Fetch some text.

    Args:
        characters: How much.
        mark: What it begins with.
    """
    return f"{mark} " + "lorem ipsum " * (characters // 12)


class Kit:
    """The plugin that brings tools, and keeps what is reported."""

    def __init__(self, tools: Iterable[Tool]):
        self._tools = [fetch, *tools]
        self.errors: list[BaseException] = []

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return self._tools

    @hookimpl
    def agent_error(self, error: BaseException) -> None:
        if "held the event loop" not in str(error):  # on a loaded machine that can be anybody
            self.errors.append(error)


class Stage:
    """A running harness, its model server, and an agent made when first wanted."""

    def __init__(self, harness: Harness, server: ModelServer, kit: Kit):
        self.harness = harness
        self.server = server
        self.errors = kit.errors
        self.agents: list[Agent] = []

    @property
    def definition(self) -> AgentDefinition:
        return AgentDefinition(model="m/model")

    @property
    def agent(self) -> Agent:
        return self.agents[0] if self.agents else self.create()

    def create(self, *, seed: Iterable[Any] = (), **options: Any) -> Agent:
        definition = AgentDefinition(model="m/model", **options)
        agent = self.harness.agents.create(definition, seed=tuple(seed))
        self.agents.append(agent)
        return agent

    def logged(self, kind: type[D], agent: Agent | None = None) -> list[D]:
        events = (agent or self.agent).session.events
        return [event.data for event in events if isinstance(event.data, kind)]

    @property
    def ends(self) -> list[CompactionEnd]:
        return self.logged(CompactionEnd)

    @property
    def outcomes(self) -> list[str]:
        return [end.outcome for end in self.ends]

    @property
    def summary_requests(self) -> list[ModelRequest]:
        return [request for request in self.server.requests if is_summary_request(request)]

    def reports(self) -> list[str]:
        return [str(error) for error in self.errors]

    async def run(self, text: str, agent: Agent | None = None) -> Any:
        return await asyncio.wait_for((agent or self.agent).run(text), 30)


@asynccontextmanager
async def staged(
    script: Any = (),
    *,
    window: int | None = WINDOW,
    model_window: int | None = WINDOW,
    settings: Mapping[str, Any] | None = None,
    plugins: Mapping[str, object] | None = None,
    tools: Iterable[Tool] = (),
    layers: Mapping[str, Any] | None = None,
    compaction: object = Compaction,
) -> AsyncIterator[Stage]:
    """Run a harness against a model server.

    Args:
        script: A function that answers every request, or a list of behaviours.
        window: Tokens the server takes; None = any.
        model_window: What the harness is told; None = nothing.
        settings: Those of the plugin.
        plugins: Further plugins.
        tools: Further tools.
        layers: Settings of other plugins.
        compaction: The plugin.
    """
    kit = Kit(tools)
    config = HarnessConfig(
        autoload=False,
        plugins={
            name: (Layer("test", values),)
            for name, values in {"compaction": settings or {}, **(layers or {})}.items()
        },
    )
    given = {"kit": kit, "invariants": Invariants(), "compaction": compaction, **(plugins or {})}
    serving = {"default": script} if callable(script) else {"script": script}
    async with ModelServer(strict=True, window_tokens=window, **serving) as server:
        model = ModelConfig(context_window_tokens=model_window)
        provider = ProviderConfig(
            "m", "openai_chat", base_url=server.base_url, models={"model": model}
        )
        async with Harness(config, plugins=given, providers=[provider]) as harness:
            stage = Stage(harness, server, kit)
            yield stage
        assert server.problems == []
        for agent in stage.agents:
            assert_balanced(agent.session.events)


async def bounded(awaitable: Awaitable[R], seconds: float = 20) -> R:
    """Await what must not hang."""
    return await asyncio.wait_for(awaitable, seconds)


def fetches(*sizes: int, text: str = "") -> Any:
    """A reply with one call of `fetch` for each size, in parallel."""
    calls = [call("fetch", {"characters": size, "mark": f"M{size}"}) for size in sizes]
    return reply(text, calls=calls)


def texts(messages: Iterable[Any]) -> list[str]:
    """What the model is shown, one text per message."""
    shown = []
    for message in messages:
        parts = [
            "".join(getattr(inner, "text", "") for inner in block.content)
            if isinstance(block, ToolResult)
            else getattr(block, "text", getattr(block, "name", ""))
            for block in message.content
        ]
        shown.append(" ".join(parts))
    return shown
