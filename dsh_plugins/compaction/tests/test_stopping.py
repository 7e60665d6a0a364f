"""What happens around an automatic compaction while it runs."""

from __future__ import annotations

import asyncio

import pytest
from compaction_stage import bounded, fetches, is_summary_request, staged, summarising, texts

from dsh_core import hookimpl
from dsh_core.events import (
    Aborted,
    Completed,
    Disposed,
    SteeringMessage,
    StepEnd,
    StepStart,
    TurnEnd,
)
from dsh_core.testing.behaviours import reply, stall

LONG = [fetches(1500 + i) for i in range(12)]


@pytest.mark.parametrize("how", ["abort", "dispose"])
async def test_ending_the_turn_ends_the_compaction_and_balances_the_log(how):
    async with staged(summarising(*LONG, summary=stall("Half a"))) as s:
        agent = s.agent
        running = asyncio.ensure_future(agent.run("go"))
        await s.server.until(
            lambda: bool(s.server.requests) and is_summary_request(s.server.requests[-1])
        )
        if how == "abort":
            agent.abort("enough")
        else:
            await bounded(agent.dispose())
        result = await bounded(running)
        assert result.reason == (Aborted("enough") if how == "abort" else Disposed())
        assert s.outcomes == ["aborted"]
        assert agent.session.generation == 0
        assert len(s.logged(StepStart)) == len(s.logged(StepEnd))
        await s.server.until(lambda: s.server.requests[-1].state == "gone")


async def test_after_an_abort_the_next_turn_compacts():
    stalls = iter([stall("Half a")])
    script = summarising(*LONG)

    def answer(request):
        if is_summary_request(request):
            return next(stalls, None) or reply("All so far.")
        return script(request)

    async with staged(answer) as s:
        running = asyncio.ensure_future(s.agent.run("go"))
        await s.server.until(
            lambda: bool(s.server.requests) and is_summary_request(s.server.requests[-1])
        )
        s.agent.abort()
        await bounded(running)
        result = await s.run("go on")
        assert result.is_success
        assert s.outcomes[:2] == ["aborted", "compacted"]


async def test_steering_and_queued_messages_are_not_lost_while_it_runs():
    summary = reply("All so far.", delay_seconds=0.01)
    async with staged(summarising(*LONG, summary=summary)) as s:
        running = asyncio.ensure_future(s.agent.run("go"))
        await s.server.until(
            lambda: bool(s.server.requests) and is_summary_request(s.server.requests[-1])
        )
        s.agent.steer("STEERED: mind the gap")
        s.agent.send("QUEUED: next task")
        s.agent.inject("INJECTED: a fact")
        await bounded(running)
        sent = str(s.server.requests[-1].body)
        assert "compacted" in s.outcomes
        assert "failed" not in s.outcomes
        assert len(s.logged(SteeringMessage)) == 1
        assert "QUEUED: next task" in sent
        assert [end.reason for end in s.logged(TurnEnd)] == [Completed(), Completed()]
        everything = "".join(str(request.body) for request in s.server.requests)
        assert "STEERED: mind the gap" in everything
        assert "INJECTED: a fact" in everything


async def test_a_history_that_somebody_else_replaced_meanwhile_is_left_alone():
    async with staged(summarising(*LONG)) as s:

        class Meddles:
            @hookimpl
            async def llm_stream(self, agent, request, *, call_next):
                async for chunk in await call_next():
                    yield chunk
                if request.messages[-1].text.startswith("Room is running out"):
                    self.replace(agent)

            def replace(self, agent):
                from dsh_core import Text
                from dsh_core.events import UserMessage

                seq = agent.session.message_sources()[0][0]
                agent.session.append(UserMessage((Text("other words"),), replaces=(seq, seq)))

        await s.harness.plugins.register(Meddles(), "meddles")
        await s.run("go")
        assert s.outcomes[0] == "failed"
        assert s.ends[0].problem == "the history was replaced by somebody else meanwhile"
        assert texts(s.agent.session.messages())[0] == "other words"


async def test_a_refused_event_changes_nothing_and_the_turn_goes_on():
    class Refuses:
        @hookimpl
        def session_validate(self, session, event):
            if getattr(event.data, "replaces", None) is not None:
                raise ValueError("not in my log")

    async with staged(summarising(*LONG), plugins={"refuses": Refuses()}) as s:
        result = await s.run("go")
        assert s.outcomes[0] == "failed"
        assert "not in my log" in s.ends[0].problem
        assert s.agent.session.generation == 0
        assert result.reason.type == "error"  # the provider's, later
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
