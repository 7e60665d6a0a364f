"""An abort at any point of a turn: the log balances, nothing is lost, and the agent goes on.

The scenario is rich on purpose. It is run once undisturbed to count its points, and then once per
point: each pass of the event loop, and each event of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from loop_stage import Stage, bounded, stage

from dsh_core import (
    Agent,
    Approval,
    Call,
    Chunk,
    Event,
    Request,
    Retry,
    ToolContext,
    ToolOutput,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.chunks import Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage, UsageChunk
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    Aborted,
    Completed,
    ContextMessage,
    Disposed,
    SteeringMessage,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UserMessage,
)
from dsh_core.testing.log import assert_balanced


class Everywhere:
    """A plugin that takes a moment in every async hook of a turn."""

    @hookimpl
    async def agent_turn_start(self) -> None:
        await asyncio.sleep(0)

    agent_step_start = agent_step_end = agent_request = agent_turn_end = agent_turn_start
    system_prompt_sections = system_prompt_assemble = agent_step_result = agent_turn_start
    agent_turn_continuation = tools_result = session_flush = tool_effects = agent_turn_start

    @hookimpl
    async def tools_authorize(self, call: Call) -> Verdict | None:
        await asyncio.sleep(0)
        return Verdict("ask", "may it?") if call.name == "writes" else None

    @hookimpl
    async def approval_request(self) -> Approval:
        await asyncio.sleep(0)
        return Approval(True)

    @hookimpl
    async def tools_execute(self, *, call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        await asyncio.sleep(0)
        return await call_next()

    @hookimpl
    async def agent_request_error(self, attempt: int) -> Retry | None:
        await asyncio.sleep(0)
        return Retry() if attempt == 1 else None


@tool(read_only=True)
async def reads(ctx: ToolContext) -> str:
    """Read, and steer the agent on the way."""
    await asyncio.sleep(0)
    if ctx.call_id == "r0" and ctx.call.turn == 1:
        ctx.agent.steer("steering")
        ctx.agent.inject("context")
        ctx.agent.send("sent")
    ctx.progress("half way")
    await asyncio.sleep(0)
    return "read"


@tool
async def writes() -> str:
    """Write."""
    await asyncio.sleep(0)
    return "written"


async def fails(request: Request) -> AsyncIterator[Chunk]:
    await asyncio.sleep(0)
    yield TextDelta(0, "half")
    await asyncio.sleep(0)
    raise LlmFailure("SERVER", "overloaded")


async def asks(request: Request) -> AsyncIterator[Chunk]:
    await asyncio.sleep(0)
    yield ReasoningDelta(0, "hm")
    await asyncio.sleep(0)
    for index, (call_id, name) in enumerate([("r0", "reads"), ("r1", "reads"), ("w", "writes")], 1):
        yield ToolCallDelta(index, call_id, name, "{}")
    yield UsageChunk(Usage(1, 1))
    await asyncio.sleep(0)
    yield Finish("tool-calls")


async def answers(request: Request) -> AsyncIterator[Chunk]:
    for word in ("all ", "done"):
        await asyncio.sleep(0)
        yield TextDelta(0, word)
    yield Finish("stop")


@asynccontextmanager
async def scene() -> AsyncIterator[Stage]:
    async with stage(
        *(fails, asks, answers, answers),
        plugin=Everywhere(),
        tools=(reads, writes),
        settings={"retry": False},
        grace_seconds=60,  # nothing here ignores an abort, and the machine may be busy
    ) as s:
        yield s


class Ticker:
    """Calls something at a given pass of the event loop, or counts the passes."""

    def __init__(self, at: int | None, action: Callable[[], Any]):
        self.passes = 0
        self._at = at
        self._action = action
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self.passes += 1
        if self.passes == self._at:
            self._action()
            return
        self._handle = self._loop.call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()


async def count_passes() -> int:
    async with scene() as s:
        ticker = Ticker(None, lambda: None)
        result = await bounded(s.agent.run("go"))
        ticker.stop()
        assert result.is_success
        return ticker.passes


async def count_events() -> int:
    async with scene() as s:
        await bounded(s.agent.run("go"))
        return len(s.agent.session.events)


PASSES = asyncio.run(count_passes())
EVENTS = asyncio.run(count_events())


def check(s: Stage, agent: Agent) -> None:
    """What holds after every abort."""
    assert_balanced(agent.session.events)
    assert agent.session.open_turn is None
    logged = s.logged(UserMessage, agent) + s.logged(SteeringMessage, agent)
    said = [message.content[0].text for message in logged]
    was_sent = s.logged(ContextMessage, agent) != []  # by the tool, in the same breath
    assert sorted(said) == sorted(["go", *(["steering", "sent"] if was_sent else [])])
    answered = [r.call_id for r in s.logged(ToolResultEvent, agent) if r.turn == 1]
    assert answered in ([], ["r0", "r1", "w"])
    assert len(s.logged(ToolCallEvent, agent)) == len(s.logged(ToolResultEvent, agent))


def test_the_scenario_has_many_points() -> None:
    assert PASSES > 40
    assert EVENTS > 30


@pytest.mark.parametrize("part", range(4))
async def test_an_abort_at_any_pass_of_the_loop(part: int) -> None:
    for at in range(1 + part, PASSES + 2, 4):
        async with scene() as s:
            agent = s.agent
            ticker = Ticker(at, lambda agent=agent: agent.abort("now"))
            await bounded(agent.run("go"))
            ticker.stop()
            check(s, agent)
            reasons = [end.reason for end in s.logged(TurnEnd)]
            assert set(map(type, reasons)) <= {Completed, Aborted}
            assert s.errors == [] or [str(e) for e in s.errors] == ["SERVER: overloaded"]

            s.model.replies = []
            again = await bounded(agent.run("again"))
            assert again.is_success, f"after an abort at pass {at}"


@pytest.mark.parametrize("part", range(4))
async def test_an_abort_at_any_event_of_the_log(part: int) -> None:
    for at in range(part, EVENTS, 4):
        async with scene() as s:
            agent = s.agent

            def abort(event: Event, at: int = at, agent: Agent = agent) -> None:
                if event.seq == at:
                    agent.abort("now")

            agent.session.subscribe(abort)
            await bounded(agent.run("go"))
            check(s, agent)
            event = agent.session.events[at]
            ends = [end.reason for end in s.logged(TurnEnd)]
            if event.type != "turn/end":
                assert Aborted("now") in ends, f"abort at event {at} {event.type}"

            s.model.replies = []
            again = await bounded(agent.run("again"))
            assert again.is_success, f"after an abort at event {at}"


async def test_a_dispose_at_any_pass_of_the_loop() -> None:
    for at in range(1, PASSES + 2):
        async with scene() as s:
            agent, disposing = s.agent, []

            def dispose(agent: Agent = agent, disposing: list[Any] = disposing) -> None:
                disposing.extend(asyncio.ensure_future(agent.dispose()) for _ in range(2))

            ticker = Ticker(at, dispose)
            with suppress(Exception):  # a message whose turn never came
                await bounded(agent.run("go"))
            ticker.stop()
            await bounded(asyncio.gather(*disposing))
            if disposing:
                assert agent.status == "disposed"
                assert s.harness.agents.list() == []
                assert_balanced(agent.session.events)
                reasons = {type(end.reason) for end in s.logged(TurnEnd, agent)}
                assert reasons <= {Completed, Disposed}
                left = [t for t in asyncio.all_tasks() if t.get_name().startswith("dsh-")]
                assert left == []


async def test_a_run_cancelled_at_any_pass_of_the_loop() -> None:
    for at in range(1, PASSES + 2):
        async with scene() as s:
            agent = s.agent
            running = asyncio.ensure_future(agent.run("go"))
            ticker = Ticker(at, running.cancel)
            with suppress(asyncio.CancelledError):
                await bounded(running)
            ticker.stop()
            held = [m for m in s.logged(UserMessage, agent) if m.content[0].text == "go"]
            first_end = next(iter(s.logged(TurnEnd, agent)), None)
            assert (first_end is None) is (held == []), "the turn of the message is closed"
            await bounded(agent.when_idle())
            assert_balanced(agent.session.events)

            s.model.replies = []
            assert (await bounded(agent.run("again"))).is_success


async def test_a_program_that_is_cancelled_at_any_pass_leaves_a_balanced_log() -> None:
    """As `asyncio.run` does on Ctrl-C: every task is cancelled at once."""
    for at in range(1, PASSES + 2):
        async with scene() as s:
            agent = s.agent

            def cancel_all() -> None:
                for task in asyncio.all_tasks():
                    if task.get_name().startswith("dsh-"):
                        task.cancel()

            agent.send("go")
            ticker = Ticker(at, cancel_all)
            for _ in range(PASSES + 20):
                await asyncio.sleep(0)
            ticker.stop()
            await bounded(agent.dispose())
            assert_balanced(agent.session.events)
            assert agent.session.open_turn is None
