"""Whatever is thrown at an agent in whatever order: no message is lost and the log balances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from generated import few
from hypothesis import given
from hypothesis import strategies as st
from loop_stage import Stage, bounded, calls, stage

from dsh_core import (
    Agent,
    AgentDisposedError,
    AgentError,
    Chunk,
    Request,
    ToolContext,
    hookimpl,
    tool,
)
from dsh_core.chunks import Finish, TextDelta
from dsh_core.content import Text, text_of
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    ContextMessage,
    MessageTrigger,
    SteeringMessage,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.testing.log import assert_balanced


async def slowly(request: Request) -> AsyncIterator[Chunk]:
    for word in ("one ", "two"):
        await asyncio.sleep(0)
        yield TextDelta(0, word)
    await asyncio.sleep(0)
    yield Finish("stop")


async def breaks(request: Request) -> AsyncIterator[Chunk]:
    yield TextDelta(0, "half")
    await asyncio.sleep(0)
    raise LlmFailure("AUTH", "no")


REPLIES = {
    "slow": slowly,
    "quick": "quick",
    "broken": breaks,
    "calls": calls(("reads", "{}"), ("reads", "{}"), ("writes", "{}")),
    "cut": [TextDelta(0, "x"), Finish("max-tokens")],
}


@tool(read_only=True)
async def reads() -> str:
    """Read."""
    await asyncio.sleep(0)
    return "read"


@tool
async def writes(ctx: ToolContext) -> str:
    """Write, with progress."""
    ctx.progress("writing")
    await asyncio.sleep(0)
    return "written"


class Moody:
    """A plugin that raises in some hooks, some of the time."""

    def __init__(self, moods: list[int]):
        self._moods = moods

    async def _moment(self) -> None:
        await asyncio.sleep(0)
        if self._moods and self._moods.pop() == 0:
            raise ValueError("in a mood")

    @hookimpl
    async def agent_step_start(self) -> None:
        await self._moment()

    agent_turn_start = agent_step_end = agent_turn_end = session_flush = agent_step_start
    tools_result = agent_turn_continuation = agent_request = agent_step_start


class Burst:
    """Throws actions at an agent and remembers what it was promised."""

    def __init__(self, s: Stage):
        self._agent: Agent = s.agent
        self._runs: list[asyncio.Task[Any]] = []
        self.sent: list[str] = []
        self.steered: list[str] = []
        self.injected: list[str] = []
        self.is_disposed = False

    async def act(self, action: str, number: int) -> None:
        agent, text = self._agent, f"{action} {number}"
        with suppress(AgentDisposedError):
            match action:
                case "send":
                    agent.send(text)
                    self.sent.append(text)
                case "steer":
                    agent.steer(text)
                    self.steered.append(text)
                case "inject":
                    agent.inject(text)
                    self.injected.append(text)
                case "record":
                    agent.session.record(ContextMessage((Text(text),)))
                    self.injected.append(text)
                case "abort":
                    agent.abort(text)
                case "run":
                    self._runs.append(asyncio.ensure_future(agent.run(text)))
                case "cancel" if self._runs:
                    self._runs.pop(0).cancel()
                case "dispose":
                    self.is_disposed = True
                    self._runs.append(asyncio.ensure_future(agent.dispose()))
                case "hold":
                    await self._hold(text)

    async def _hold(self, text: str) -> None:
        with suppress(AgentError):
            async with self._agent.exclusive(text):
                await asyncio.sleep(0)

    async def settle(self) -> None:
        with suppress(AgentError):
            await bounded(self._agent.when_idle())
        results = await bounded(asyncio.gather(*self._runs, return_exceptions=True))
        for error in results:
            assert not isinstance(error, BaseException) or isinstance(
                error, (AgentError, asyncio.CancelledError)
            ), error
        if not self.is_disposed:
            await bounded(self._agent.when_idle())


actions = st.tuples(
    st.sampled_from(
        ["send"] * 4
        + ["steer"] * 3
        + ["inject", "record", "abort", "abort", "run", "run", "cancel", "hold", "dispose"]
    ),
    st.integers(0, 12),
)


def texts_of(messages: list[Any]) -> list[str]:
    return [text_of(message.content) for message in messages]


@few
@given(
    st.lists(actions, max_size=25),
    st.lists(st.sampled_from(sorted(REPLIES)), max_size=12),
    st.lists(st.integers(0, 6), max_size=30),
)
async def test_a_burst_of_anything_loses_no_message_and_leaves_a_balanced_log(
    schedule: list[tuple[str, int]], replies: list[str], moods: list[int]
) -> None:
    settings = {"retry": {"max_retries": 0}}
    async with stage(
        *(REPLIES[name] for name in replies),
        plugin=Moody(moods),
        tools=(reads, writes),
        settings=settings,
    ) as s:
        agent, burst = s.agent, Burst(s)
        for number, (action, passes) in enumerate(schedule):
            await burst.act(action, number)
            for _ in range(passes):
                await asyncio.sleep(0)
        await burst.settle()

        assert_balanced(agent.session.events)
        assert agent.session.open_turn is None
        logged = texts_of([*s.logged(UserMessage, agent), *s.logged(SteeringMessage, agent)])
        assert len(set(logged)) == len(logged), "each message is logged once"
        assert texts_of(s.logged(ContextMessage, agent)) == burst.injected
        promised = {*burst.sent, *burst.steered}
        assert promised >= {text for text in logged if not text.startswith("run")}
        users = [t for t in texts_of(s.logged(UserMessage, agent)) if t.startswith("send")]
        assert users == [text for text in burst.sent if text in users], "in order"
        starts = [t for t in s.logged(TurnStart, agent) if isinstance(t.trigger, MessageTrigger)]
        assert len(starts) <= len(s.logged(TurnEnd, agent))
        if burst.is_disposed:
            assert agent.status == "disposed"
        else:
            assert promised <= set(logged), "no message is lost"
            assert agent.status == "idle"
            s.model.replies.clear()
            moods.clear()
            assert (await bounded(agent.run("again"))).is_success
