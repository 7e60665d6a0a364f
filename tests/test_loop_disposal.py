"""Holding an idle agent, taking one down, and making its log durable."""

from __future__ import annotations

import asyncio

import pytest
from loop_stage import (
    Gate,
    Notes,
    bounded,
    calls,
    gated_tool,
    paused,
    stage,
)
from memory_store import MemoryStore
from waterfalls import unplaced

from dsh_core import (
    AgentDisposedError,
    AgentError,
    SessionHeader,
    hookimpl,
)
from dsh_core.content import Text
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    ContextMessage,
    Disposed,
    ErrorEvent,
    MaintenanceTrigger,
    RecordTrigger,
    TurnEnd,
    TurnStart,
)
from dsh_core.messages import AgentSource

# ---------------------------------------------------------------------------------- exclusive


async def test_an_idle_agent_can_be_held_for_maintenance() -> None:
    notes = Notes()
    async with stage(plugin=notes) as s:
        async with s.agent.exclusive("compaction"):
            s.agent.session.append(ContextMessage((Text("inside"),)))
            s.agent.inject("inside too")
            s.agent.send("waits")
            await asyncio.sleep(0)
            assert s.agent.status == "idle"
            assert s.model.requests == []
        await bounded(s.agent.when_idle())

        assert s.types()[:5] == [
            "turn/start",
            "context/message",
            "context/message",
            "turn/end",
            "turn/start",
        ]
        assert s.logged(TurnStart)[0] == TurnStart(1, MaintenanceTrigger("compaction"))
        assert len(s.model.requests) == 1
    assert notes.turns == ["start 2", "end 2 completed"]
    assert notes.flushed == 2


async def test_maintenance_may_have_a_trigger_of_its_own() -> None:
    async with stage() as s:
        async with s.agent.exclusive(RecordTrigger("tests/note")):
            pass

        assert s.logged(TurnStart) == [TurnStart(1, RecordTrigger("tests/note"))]


async def test_a_busy_agent_cannot_be_held() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        for _ in range(2):  # queued, then running
            with pytest.raises(AgentError, match="is busy"):
                async with s.agent.exclusive("x"):
                    raise AssertionError("unreachable")
            await gate.reached()
        gate.open()
        await bounded(s.agent.when_idle())
        async with s.agent.exclusive("x"):
            with pytest.raises(AgentError, match="is busy"):
                async with s.agent.exclusive("y"):
                    raise AssertionError("unreachable")
        assert s.errors == []


async def test_what_fails_in_maintenance_is_its_reason_and_frees_the_agent() -> None:
    async with stage() as s:
        with pytest.raises(ValueError, match="broke"):  # noqa: PT012
            async with s.agent.exclusive("x"):
                s.agent.send("waits")
                raise ValueError("broke")
        await bounded(s.agent.when_idle())

        assert [end.reason.type for end in s.logged(TurnEnd)] == ["error", "completed"]


async def test_cancelled_maintenance_frees_the_agent() -> None:
    gate = Gate()
    async with stage() as s:

        async def maintain() -> None:
            async with s.agent.exclusive("x"):
                await gate.wait()

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        waiting = asyncio.ensure_future(s.agent.when_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        maintaining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await maintaining
        await bounded(waiting)

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("cancelled"))]


async def test_an_abort_ends_maintenance_with_its_reason() -> None:
    gate = Gate()
    async with stage() as s:

        async def maintain() -> str:
            with pytest.raises(AgentError, match="ended early: aborted"):
                async with s.agent.exclusive("x"):
                    await gate.wait()
            await asyncio.sleep(0)  # nothing of the cancellation is left
            return "goes on"

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        s.agent.send("waits")
        s.agent.abort("enough")
        assert await bounded(maintaining) == "goes on"
        await bounded(s.agent.when_idle())

        assert [end.reason for end in s.logged(TurnEnd)] == [Aborted("enough"), Completed()]


async def test_maintenance_may_abort_itself() -> None:
    async with stage() as s:
        with pytest.raises(AgentError, match="ended early: aborted"):
            async with s.agent.exclusive("x"):
                s.agent.abort("enough")
        await asyncio.sleep(0)

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]


async def test_a_caller_that_is_cancelled_beside_an_abort_stays_cancelled() -> None:
    gate = Gate()
    async with stage() as s:

        async def maintain() -> None:
            async with s.agent.exclusive("x"):
                await gate.wait()

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        s.agent.abort("enough")
        maintaining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await maintaining

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]


# ------------------------------------------------------------------------------------ dispose


@pytest.mark.parametrize("how", ["send", "steer", "inject", "run", "stream", "abort", "exclusive"])
async def test_a_disposed_agent_takes_nothing_more(how: str) -> None:
    async with stage() as s:
        agent = s.agent
        await agent.run("hi")
        before = list(agent.session.events)
        await agent.dispose()

        with pytest.raises(AgentDisposedError, match="is disposed"):  # noqa: PT012
            made = getattr(agent, how)("x")
            if how == "run":
                await made
            elif how == "stream":
                await anext(made)
            elif how == "exclusive":
                await made.__aenter__()
        assert list(agent.session.events) == before
        assert agent.status == "disposed"
        await bounded(agent.when_idle())
        await bounded(agent.dispose())


async def test_dispose_in_mid_stream_ends_the_turn_as_disposed() -> None:
    gate, notes = Gate(), Notes()
    async with stage(paused(gate, before="half"), plugin=notes) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        agent.send("never taken")
        await bounded(agent.dispose())

        assert s.logged(TurnEnd) == [TurnEnd(1, Disposed())]
        assert s.logged(AssistantMessage)[0].interrupted
    assert notes.status == ["running", "disposed"]
    assert notes.turns == ["start 1", "end 1 disposed"]
    assert notes.flushed == 1


async def test_dispose_during_a_tool_gives_its_call_a_result() -> None:
    gate = Gate()
    async with stage(calls(("wait", "{}")), tools=(gated_tool(gate),)) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        await bounded(agent.dispose())

        assert s.types()[-3:] == ["tool/result", "step/end", "turn/end"]


async def test_dispose_waits_for_the_flush_of_the_turn() -> None:
    gate = Gate()

    class Flushes:
        is_done = False

        @hookimpl
        async def session_flush(self) -> None:
            await gate.wait()
            self.is_done = True

    flushes = Flushes()
    async with stage(plugin=flushes) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        disposing = [asyncio.ensure_future(agent.dispose()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in disposing)
        gate.open()
        await bounded(asyncio.gather(*disposing))

        assert flushes.is_done


async def test_several_owners_share_one_teardown() -> None:
    gate = Gate()

    class Ends:
        count = 0

        @hookimpl
        async def agent_turn_end(self) -> None:
            await gate.wait()

        @hookimpl
        def agent_disposed(self) -> None:
            self.count += 1

    ends = Ends()
    async with stage(plugin=ends) as s:
        agent = s.agent
        agent.send("go")
        owners = [asyncio.ensure_future(agent.dispose()) for _ in range(3)]
        waiting = asyncio.ensure_future(agent.when_idle())
        await asyncio.sleep(0)
        owners[0].cancel()  # one owner gives up; the others still get the whole teardown
        gate.open()
        results = await bounded(asyncio.gather(*owners, return_exceptions=True))
        await bounded(waiting)

        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [None, None]
        assert (ends.count, agent.status) == (1, "disposed")


async def test_a_run_on_an_agent_that_is_disposed_ends() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        agent = s.agent
        first = asyncio.ensure_future(agent.run("first"))
        await gate.reached()
        second = asyncio.ensure_future(agent.run("second"))
        await asyncio.sleep(0)
        await bounded(agent.dispose())

        assert (await bounded(first)).reason == Disposed()
        with pytest.raises(AgentDisposedError, match="before the message's turn"):
            await bounded(second)


async def test_dispose_ends_maintenance_and_waits_for_what_it_still_does() -> None:
    gate, cleanup = Gate(), Gate()
    async with stage() as s:
        agent = s.agent

        async def maintain() -> None:
            async with agent.exclusive("x"):
                try:
                    await gate.wait()
                finally:
                    await cleanup.wait()

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        disposing = asyncio.ensure_future(agent.dispose())
        await cleanup.reached()
        assert agent.status == "idle"
        cleanup.open()
        await bounded(disposing)
        with pytest.raises(AgentError, match="maintenance: ended early: disposed"):
            await maintaining

        assert s.logged(TurnEnd) == [TurnEnd(1, Disposed())]


async def test_a_lock_that_cannot_be_released_keeps_nobody_from_disposing() -> None:
    store = MemoryStore()
    await store.append(SessionHeader("old", 0.0), [])

    class Stuck:
        async def release(self) -> None:
            raise OSError("stuck")

    async def lock(session_id: str) -> Stuck:
        return Stuck()

    store.lock = lock
    async with stage(plugins={"store": store}) as s:
        agent = await s.harness.agents.resume("old")
        await bounded(agent.dispose())

        assert s.harness.agents.list() == []
        assert s.reports() == ["stuck"]


async def test_the_harness_disposes_its_agents_when_it_stops() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        agent = s.agent

    assert agent.status == "disposed"


# -------------------------------------------------------------------------------------- flush


async def test_each_turn_is_flushed_once_whatever_its_end() -> None:
    gate, notes = Gate(), Notes()
    async with stage("ok", ValueError("broke"), paused(gate), plugin=notes) as s:
        await s.agent.run("completes")
        await s.agent.run("fails")
        s.agent.send("is aborted")
        await gate.reached()
        s.agent.abort()
        await bounded(s.agent.when_idle())
        assert notes.flushed == 3
        s.agent.inject("one-shot")
        await s.harness.sessions.settle()
        assert notes.flushed == 4


async def test_a_flush_or_a_turn_end_that_fails_is_reported_and_not_logged() -> None:
    class Breaks:
        @hookimpl
        async def session_flush(self) -> None:
            raise OSError("the disk is full")

        @hookimpl
        async def agent_turn_end(self) -> None:
            raise ValueError("no end")

    async with stage(plugin=Breaks()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert s.logged(ErrorEvent) == []
        assert unplaced(s.reports()) == [
            "plugin 'it' in agent_turn_end: ValueError: no end",
            "plugin 'it' in session_flush: OSError: the disk is full",
        ]
        assert (await bounded(s.agent.run("again"))).is_success


async def test_other_agents_are_not_disturbed_by_one() -> None:
    gate = Gate()
    async with stage() as s:
        first, second = s.create(), s.create()
        s.model.replies = [paused(gate)]
        first.send("go")
        await gate.reached()

        result = await bounded(second.run("go", source=AgentSource("first")))

        assert result.is_success
        assert first.status == "running"
        gate.open()
        await bounded(first.when_idle())
