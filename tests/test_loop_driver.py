"""What ends the driver of an agent, or seems to: nobody waits for ever, and the agent goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_stage import Gate, bounded, calls, nothing, paused, stage
from waterfalls import unplaced

from dsh_core import Agent, Chunk, Event, Request, Session, ToolContext, hookimpl, tool
from dsh_core.chunks import TextDelta
from dsh_core.events import Aborted, Completed, ErrorEvent, TurnEnd

ASYNC_HOOKS = [
    "agent_turn_start",
    "agent_step_start",
    "system_prompt_sections",
    "system_prompt_assemble",
    "agent_request",
    "agent_step_result",
    "agent_step_end",
    "agent_turn_continuation",
    "agent_turn_end",
    "tool_effects",
    "tools_authorize",
    "tools_execute",
    "tools_result",
    "session_flush",
]
SYNC_HOOKS = [
    "agent_status",
    "agent_queued",
    "agent_stream_chunk",
    "session_event",
    "session_validate",
]


def raising(hook: str, failure: type[BaseException], *, is_async: bool) -> Any:
    """A plugin that raises once in one hook."""
    left = [failure]

    def fails(self: object) -> None:
        if left:
            raise left.pop()()

    async def fails_later(self: object) -> None:
        if left:
            await asyncio.sleep(0)
            fails(self)

    return type("Fails", (), {hook: hookimpl(fails_later if is_async else fails)})()


def cancels_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


# ------------------------------------------------------------------- GeneratorExit and friends


@pytest.mark.parametrize("failure", [GeneratorExit, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
@pytest.mark.parametrize("hook", ASYNC_HOOKS)
async def test_what_a_hook_raises_never_ends_the_driver(
    hook: str, is_async: bool, failure: type[BaseException]
) -> None:
    plugin = raising(hook, failure, is_async=is_async)
    async with stage(calls(("nothing", "{}")), plugin=plugin, tools=(nothing,)) as s:
        await bounded(s.agent.run("go"))

        assert any(failure.__name__ in report for report in s.reports())
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize("failure", [GeneratorExit, asyncio.CancelledError, SystemExit])
@pytest.mark.parametrize("hook", SYNC_HOOKS)
async def test_what_a_sync_hook_raises_never_ends_the_driver(
    hook: str, failure: type[BaseException]
) -> None:
    plugin = raising(hook, failure, is_async=False)
    async with stage(plugin=plugin) as s:
        s.agent.send("go")
        await bounded(s.agent.when_idle())

        assert any(failure.__name__ in report for report in s.reports())
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize("is_async", [True, False], ids=["async def", "def"])
async def test_a_tool_that_raises_generator_exit_fails_alone(is_async: bool) -> None:
    def breaks() -> str:
        """Break."""
        raise GeneratorExit

    async def breaks_later() -> str:
        """Break later."""
        await asyncio.sleep(0)
        raise GeneratorExit

    broken = tool(name="breaks")(breaks_later if is_async else breaks)
    async with stage(calls(("breaks", "{}")), tools=(broken,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert "GeneratorExit" in str(s.model.requests[1].messages[-1])


@pytest.mark.parametrize("failure", [KeyboardInterrupt, StopIteration, SystemExit])
async def test_a_sync_body_that_raises_what_steers_its_caller_fails_alone(
    failure: type[BaseException],
) -> None:
    """Ctrl-C reaches the main thread only: in a body's thread it is the body's own doing."""

    @tool
    def breaks() -> str:
        """Break."""
        raise failure

    async with stage(calls(("breaks", "{}")), tools=(breaks,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert failure.__name__ in str(s.model.requests[1].messages[-1])


async def test_an_adapter_that_raises_generator_exit_fails_the_request() -> None:
    async def breaks(request: Request) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "half")
        raise GeneratorExit

    async with stage(breaks, settings={"retry": False}) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert [event.code for event in s.logged(ErrorEvent)] == ["UNKNOWN"]
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize("failure", [GeneratorExit, asyncio.CancelledError, SystemExit, ValueError])
async def test_a_listener_that_raises_is_reported_once_a_turn(
    failure: type[BaseException],
) -> None:
    def listens(event: Event) -> None:
        raise failure

    async with stage() as s:
        s.agent.session.subscribe(listens)
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        said = [report for report in s.reports() if "session.subscribe" in report]
        assert said
        assert all("listens" in report and failure.__name__ in report for report in said)
        assert len(said) <= 3  # of the turn, and of its two ends


# ---------------------------------------------------------------------------- cancelling the driver


@pytest.mark.parametrize("hook", ["agent_turn_end", "session_flush", "agent_status"])
async def test_a_sync_hook_that_cancels_the_driver_is_reported(hook: str) -> None:
    heard: list[str] = []

    def cancels(self: object) -> None:
        heard.append(hook)
        cancels_its_task()

    class Flushes:
        @hookimpl
        async def session_flush(self) -> None:
            heard.append("flushed")

    plugin = type("Cancels", (), {hook: hookimpl(cancels)})()
    async with stage(plugins={"it": plugin, "flushes": Flushes()}) as s:
        for turn in (1, 2):
            result = await bounded(s.agent.run("go"))
            assert result.is_success
            assert heard.count("flushed") == turn
        assert any(hook in report and "cancelled the task" in report for report in s.reports())


async def test_a_tool_that_awaits_a_task_which_raised_generator_exit_fails_alone() -> None:
    @tool
    async def breaks() -> str:
        """Break in a task."""

        async def inner() -> str:
            raise GeneratorExit

        return await asyncio.create_task(inner())

    async with stage(calls(("breaks", "{}")), tools=(breaks,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert "GeneratorExit" in str(s.model.requests[1].messages[-1])


@pytest.mark.parametrize("hook", ["agent_status", "agent_disposed"])
async def test_a_sync_hook_that_cancels_the_teardown_is_reported(hook: str) -> None:
    def cancels(self: object, agent: Agent) -> None:
        if agent.status == "disposed":
            cancels_its_task()

    plugin = type("Cancels", (), {hook: hookimpl(cancels)})()
    async with stage(plugin=plugin) as s:
        agent = s.agent
        await bounded(agent.dispose())

        assert s.harness.agents.list() == []
        assert s.reports() == [
            f"plugin '?' in {hook}: a plugin cancelled the task it was called in"
        ]


async def test_a_hook_that_cancels_the_driver_in_one_agent_disturbs_no_other() -> None:
    class Cancels:
        @hookimpl
        def session_event(self, session: Session, event: Event) -> None:
            if event.type == "turn/start" and session.id == victim.id:
                cancels_its_task()

    async with stage(plugin=Cancels()) as s:
        victim, other = s.create(), s.create()

        assert (await bounded(victim.run("go"))).reason == Aborted("cancelled")
        assert (await bounded(other.run("go"))).is_success
        assert (await bounded(victim.run("again"))).reason == Aborted("cancelled")


def driver(agent: Agent) -> asyncio.Task[Any]:
    (found,) = [t for t in asyncio.all_tasks() if t.get_name() == f"dsh-agent-{agent.id}"]
    return found


async def test_a_message_starts_a_driver_that_was_cancelled_again() -> None:
    async with stage() as s:
        await bounded(s.agent.run("go"))
        driver(s.agent).cancel()
        for _ in range(3):
            await asyncio.sleep(0)

        assert s.reports() == [f"the loop of agent {s.agent.id} was cancelled"]
        await bounded(s.agent.when_idle())
        assert (await bounded(s.agent.run("again"))).is_success


async def test_who_waits_starts_a_driver_that_was_cancelled_with_messages_in_the_queue() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        first = asyncio.ensure_future(s.agent.run("first"))
        await gate.reached()
        second = asyncio.ensure_future(s.agent.run("second"))
        await asyncio.sleep(0)
        driver(s.agent).cancel()

        await bounded(asyncio.gather(first, second))
        ends = [end.reason for end in s.logged(TurnEnd)]
        assert ends == [Aborted("cancelled"), Completed()]
        assert s.agent.status == "idle"


async def test_a_turn_whose_driver_was_cancelled_is_flushed_nevertheless() -> None:
    flushed: list[int | None] = []

    class Flushes:
        @hookimpl
        async def session_flush(self, session: Session) -> None:
            flushed.append(session.last_turn)

    gate = Gate()
    async with stage(paused(gate), plugin=Flushes()) as s:
        s.agent.send("go")
        await gate.reached()
        driver(s.agent).cancel()
        await bounded(s.agent.when_idle())
        while s.agent.session.open_turn is not None:
            await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        await bounded(s.harness.sessions.settle())

    assert flushed == [1]


async def test_an_agent_whose_driver_was_cancelled_can_be_disposed() -> None:
    async with stage() as s:
        agent = s.agent
        driver(agent).cancel()
        await asyncio.sleep(0)
        await bounded(agent.dispose())

        assert agent.status == "disposed"


# ------------------------------------------------------------------ abort and what raises in it


async def test_a_sync_hook_that_raises_cancelled_error_in_an_abort_is_the_plugins_failure() -> None:
    class Raises:
        @hookimpl
        def session_event(self, event: Event) -> None:
            if event.type == "tool/result":
                raise asyncio.CancelledError("mine")

    gate = Gate()

    @tool
    async def waits(ctx: ToolContext) -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    async with stage(calls(("waits", "{}")), plugin=Raises(), tools=(waits,)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]
        assert unplaced(s.reports()) == ["plugin 'it' in session_event: CancelledError: mine"]
