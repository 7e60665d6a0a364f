"""The paths through a harness on which every seam is tried, one class each, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from memory_store import MemoryStore
from offline import calling
from seam_command_line import Json
from seam_stage import AGAIN, GO, Stage, last_said

from dsh_core import (
    Agent,
    AgentDefinition,
    Approval,
    Chunk,
    Event,
    EventData,
    Harness,
    Layer,
    Message,
    ModelConfig,
    ProviderConfig,
    Request,
    Secret,
    Section,
    SessionHeader,
    Text,
    TextDelta,
    ToolCall,
    ToolContext,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.events import (
    AssistantMessage,
    Completed,
    ContextMessage,
    MessageTrigger,
    StepEnd,
    StepStart,
    ToolCallEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.messages import PluginSource
from dsh_core.testing import behaviours as model
from dsh_core.testing.exchange import Behaviour, ModelRequest
from dsh_core.testing.model_server import ModelServer

NOTE = ContextMessage((Text("It is Monday."),), PluginSource("tests"))

PAST: tuple[EventData, ...] = (
    TurnStart(1, MessageTrigger()),
    UserMessage((Text("Remember 7."),)),
    StepStart(1, 1),
    AssistantMessage(1, 1, (Text("It is 7."),)),
    StepEnd(1, 1),
    TurnEnd(1, Completed()),
)
TORN: tuple[EventData, ...] = (
    *PAST,
    TurnStart(2, MessageTrigger()),
    UserMessage((Text("Look."),)),
    StepStart(2, 1),
    AssistantMessage(2, 1, (ToolCall("c1", "look", "{}"),)),
    ToolCallEvent(2, 1, "c1", "look", "{}"),
)
"""What a crash left of a session."""


def events(data: tuple[EventData, ...]) -> list[Event]:
    return [Event(seq, 0.0, one) for seq, one in enumerate(data)]


class Streaming(Stage):
    """Nothing is special."""


class Whole(Stage):
    """The provider sends its replies in one piece, over HTTP."""

    class NoStream:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            request.stream = False

    def plugins(self) -> dict[str, object]:
        return {"whole": self.NoStream()}

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        async with ModelServer(default=self.respond, strict=True) as self.server:
            yield
        assert self.server.problems == []
        assert not any(request.body.get("stream") for request in self.server.requests)

    def respond(self, request: ModelRequest) -> Behaviour:
        messages = [m for m in request.body["messages"] if m["role"] != "system"]
        said = [m.get("content") for m in messages if m["role"] == "user"]
        if AGAIN in said:
            return model.reply("Fine.")
        if any(m["role"] == "tool" for m in messages):
            return model.reply("Done.")
        return model.reply("Looking.", calls=[model.call("look")])

    def provider(self) -> ProviderConfig:
        return ProviderConfig(
            "offline",
            "openai_chat",
            base_url=self.server.base_url,
            api_key=Secret("sk-test"),
            models={"script": ModelConfig()},
        )


class Retried(Stage):
    """The first attempt fails."""

    settings: ClassVar = {"retry": {"initial_delay_seconds": 0.0}}
    has_failed = False

    def answer(self, request: Request) -> Any:
        if last_said(request)[0] == GO and not self.has_failed:
            self.has_failed = True
            return {"text": "Loo", "fail": {"code": "SERVER"}}
        return super().answer(request)


class Aborted(Stage):
    """Somebody aborts while the model speaks."""

    async def act(self) -> None:
        agent = await self.enter()
        agent.send(GO)
        await self.until_reached()
        self.is_ending = True
        agent.abort("enough")
        await agent.when_idle()

    def answer(self, request: Request) -> Any:
        return super().answer(request) if last_said(request)[0] == AGAIN else self.speak()

    async def speak(self) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "Well, ")
        self.reached.set()
        await self.never.wait()


class AbortedTool(Stage):
    """Somebody aborts while a tool runs."""

    act = Aborted.act

    async def in_tool(self, ctx: ToolContext) -> None:
        self.reached.set()
        await self.never.wait()


class DisposedInTurn(AbortedTool):
    """The agent is disposed while a tool runs."""

    async def act(self) -> None:
        agent = await self.enter()
        agent.send(GO)
        await self.until_reached()
        self.is_ending = True
        await agent.dispose()


class Steered(Stage):
    """A message joins the running turn."""

    async def in_tool(self, ctx: ToolContext) -> None:
        ctx.agent.steer("psst")


class Injected(Stage):
    """Context is given to an idle agent."""

    async def act(self) -> None:
        (await self.enter()).inject("It is Monday.")


class Exclusive(Stage):
    """Maintenance of an idle agent that asks the model, as a compaction does."""

    async def act(self) -> None:
        agent = await self.enter()
        async with agent.exclusive("tidy"):
            self.tokens, self.chunks = await ask_model(self.harness, agent)
            agent.session.append(NOTE)


async def ask_model(harness: Harness, agent: Agent | None) -> tuple[int, list[Chunk]]:
    """Measure a message and ask the model about it, beside any turn."""
    messages = (Message("user", (Text(AGAIN),)),)
    tokens = await harness.llm.measure(agent, messages)
    async with harness.llm.stream(agent, Request("offline/script", messages)) as chunks:
        return tokens, [chunk async for chunk in chunks]


class Recorded(Stage):
    """An event is recorded while the agent is idle."""

    async def act(self) -> None:
        (await self.enter()).session.record(NOTE)


class Forked(Stage):
    """An agent takes up the fork of a session."""

    async def enter(self) -> Agent:
        sessions = self.harness.sessions
        if sessions.get("parent") is None:
            sessions.create("parent", seed=events(PAST))
        if sessions.get("child") is None:
            await sessions.fork("parent", new_id="child")
        self.agent = self.live_agent or await self.harness.agents.resume("child")
        return self.agent


class Seeded(Stage):
    """An agent starts with the events of another."""

    async def enter(self) -> Agent:
        self.agent = self.live_agent or self.harness.agents.create(seed=events(PAST))
        return self.agent


class Resumed(Stage):
    """An agent takes up a stored session that a crash interrupted."""

    def plugins(self) -> dict[str, object]:
        self.store = MemoryStore()
        self.store.headers["old"] = SessionHeader("old", 0.0)
        self.store.events["old"] = events(TORN)
        return {"store": self.store}

    async def enter(self) -> Agent:
        self.agent = self.live_agent or await self.harness.agents.resume("old")
        return self.agent


class Denied(Stage):
    """A policy denies the call."""

    verdict: ClassVar = Verdict("deny", "not today")

    def plugins(self) -> dict[str, object]:
        return {"policy": Policy(self.verdict)}


class Asked(Denied):
    """A policy asks about the call, and somebody says yes."""

    verdict: ClassVar = Verdict("ask", "May it?")


class Policy:
    """Says the same of every call, and yes to every question."""

    def __init__(self, verdict: Verdict):
        self._verdict = verdict

    @hookimpl
    async def tools_authorize(self) -> Verdict:
        return self._verdict

    @hookimpl
    async def approval_request(self) -> Approval:
        return Approval(True)


class Unknown(Stage):
    """The model calls a tool that does not exist."""

    opening: ClassVar = calling("levitate")


class Limited(Stage):
    """The turn may take one step."""

    settings: ClassVar = {"limits": {"max_steps": 1}}


class OwnHooks(Stage):
    """The agent overrides another plugin, and so has hooks of its own."""

    definition = AgentDefinition("own", plugins={"limits": (Layer("test", {"max_steps": 9}),)})


class OwnInstance(Stage):
    """The agent has an instance of the plugin for itself: only that one acts."""

    settings: ClassVar = {"it": {"acts": False}}
    definition = AgentDefinition("own", plugins={"it": (Layer("test", {"acts": True}),)})


class Failed(Stage):
    """The model fails for good."""

    def answer(self, request: Request) -> Any:
        return (
            "Fine." if last_said(request)[0] == AGAIN else {"text": "I", "fail": {"code": "AUTH"}}
        )


class Late(Stage):
    """The plugin is registered while the harness runs."""

    name: ClassVar = "late"

    def build(self, **plugins: object) -> Harness:
        return super().build(**plugins, it=Nobody())

    async def enter(self) -> Agent:
        if "late" not in {info.name for info in self.harness.plugins.infos()}:
            await self.harness.plugins.register(self.actor, "late")
        return await super().enter()


class Nobody:
    """Stands where the actor would."""


class Changed(Stage):
    """Tools, prompt sections and providers come and go while the harness runs."""

    async def act(self) -> None:
        await self.enter()
        harness = self.harness
        disposers = [
            harness.tools.register(extra, owner="tests"),
            harness.prompt.register(Section("tests", "Be brief."), owner="tests"),
            harness.llm.register_provider(ProviderConfig("more", "scripted"), owner="tests"),
        ]
        for dispose in disposers:
            dispose()


@tool
def extra() -> str:
    """Do more."""
    return "more"


class Outside(Stage):
    """The model is asked outside any agent."""

    async def begin(self) -> None:
        """There is no agent."""

    async def act(self) -> None:
        self.tokens, self.chunks = await ask_model(self.harness, None)


PATHS: dict[str, type[Stage]] = {
    "streaming": Streaming,
    "whole": Whole,
    "json": Json,
    "retry": Retried,
    "abort": Aborted,
    "abort-tool": AbortedTool,
    "dispose": DisposedInTurn,
    "steering": Steered,
    "injection": Injected,
    "exclusive": Exclusive,
    "record": Recorded,
    "fork": Forked,
    "seed": Seeded,
    "resume": Resumed,
    "denied": Denied,
    "asked": Asked,
    "unknown": Unknown,
    "limit": Limited,
    "own-hooks": OwnHooks,
    "own-instance": OwnInstance,
    "error": Failed,
    "late": Late,
    "changes": Changed,
    "outside": Outside,
}
