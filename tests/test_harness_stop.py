"""Stopping a harness: once, whole, and not from inside a turn."""

from __future__ import annotations

import asyncio

import pytest
from offline import offline

from dsh_core import Agent, AgentError, Harness, hookimpl


async def test_a_cancelled_stop_goes_on_and_the_next_one_waits_for_it() -> None:
    gate, stopped = asyncio.Event(), []

    class Slow:
        @hookimpl
        async def harness_stop(self, harness: Harness) -> None:
            await gate.wait()
            stopped.append(True)

    async with offline("hi", plugin=Slow()) as stage:
        harness = stage.agent.harness
        first = asyncio.create_task(harness.stop())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.set()
        await harness.stop()

        assert stopped == [True]
        assert stage.agent.status == "disposed"


async def test_a_stop_from_inside_a_turn_is_refused_and_nothing_is_stopped() -> None:
    errors: list[BaseException] = []

    class Impatient:
        @hookimpl
        async def agent_turn_start(self, agent: Agent) -> None:
            try:
                await agent.harness.stop()
            except AgentError as error:
                errors.append(error)

    async with offline("hi", plugin=Impatient()) as stage:
        harness = stage.agent.harness
        other = harness.agents.create(harness.definition(stage.agent.name))
        result = await stage.agent.run("go")

        assert (other.status, other in harness.agents.list()) == ("idle", True)
        assert result.text == "hi"
        assert len(errors) == 1
        assert stage.agent.harness.is_running
