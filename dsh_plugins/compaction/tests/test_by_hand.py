"""`/compact` and `await compact(agent)`, between two turns."""

from __future__ import annotations

import asyncio

import pytest
from compaction_stage import (
    WINDOW,
    bounded,
    fetches,
    is_summary_request,
    staged,
    summarising,
    texts,
)

from dsh_compaction import CompactionError, compact
from dsh_compaction.events import CompactionEnd
from dsh_core import AgentError, Layer, UserError
from dsh_core.events import (
    Aborted,
    Disposed,
    ErrorEvent,
    MaintenanceTrigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.testing.behaviours import call, reply, server_error, stall

WORK = [fetches(600), fetches(700), reply("Half of it is done.")]


async def test_everything_but_the_requests_is_summarised():
    async with staged(summarising(*WORK, reply("Noted."), summary="Fetched two.")) as s:
        await s.run("TASK")
        await s.run("and MORE")
        end = await bounded(compact(s.agent))
        shown = texts(s.agent.session.messages())
        assert (shown[0], shown[2]) == ("TASK", "and MORE")
        assert "part of the summary further down" in shown[1] or "Fetched two." in shown[1]
        assert len(shown) <= 4
        assert end.outcome == "compacted"
        assert end.tokens_after < end.tokens_before / 2
        assert s.logged(TurnStart)[-1].trigger == MaintenanceTrigger("compaction")
        assert s.ends == [end]
        await s.run("go on")
        assert s.server.requests[-1].last_text == "go on"


async def test_the_command_says_what_was_saved_and_takes_a_wish():
    async with staged(summarising(*WORK, summary="Fetched two.")) as s:
        await s.run("TASK")
        said = await bounded(s.harness.commands.execute(s.agent, "/compact the RED door"))
        assert said.startswith("Compaction: about ")
        assert "messages replaced)." in said
        assert s.summary_requests[0].last_text.endswith("keep above all: the RED door")


async def test_with_nothing_to_summarise_that_is_said_and_no_request_made():
    async with staged(summarising(*WORK)) as s:
        assert (await bounded(compact(s.agent))).outcome == "unchanged"
        await s.run("TASK")
        assert (await bounded(compact(s.agent))).outcome == "compacted"
        requests = len(s.server.requests)
        end = await bounded(compact(s.agent))
        assert end.outcome == "unchanged"
        assert end.text == "nothing changed: there is nothing older to summarise"
        assert len(s.server.requests) == requests


async def test_a_failure_leaves_the_history_and_is_told():
    async with staged(summarising(*WORK, summary=server_error())) as s:
        await s.run("TASK")
        before = s.agent.session.messages()
        with pytest.raises(CompactionError, match="SERVER"):
            await bounded(compact(s.agent))
        assert s.agent.session.messages() is before
        assert s.logged(ErrorEvent) == []
        said = await bounded(s.harness.commands.execute(s.agent, "/compact"))
        assert said.startswith("Compaction failed, the history is as it was: no usable summary")
        assert any("SERVER" in report for report in s.reports())


async def test_a_busy_agent_is_not_compacted_and_its_calls_stay_whole():
    script = summarising(stall("thinking"))
    async with staged(script) as s:
        s.agent.send("TASK")
        await s.server.until(lambda: len(s.server.requests) == 1)
        with pytest.raises(AgentError, match="busy"):
            await compact(s.agent)
        with pytest.raises(UserError, match="busy; wait until it is idle"):
            await s.harness.commands.execute(s.agent, "/compact")
        s.agent.abort()
        await bounded(s.agent.when_idle())
        assert s.ends == []


async def test_messages_wait_while_it_runs_and_the_next_turn_sees_the_summary():
    async with staged(summarising(*WORK, summary=reply("Fetched two.", delay_seconds=0.01))) as s:
        await s.run("TASK")
        compacting = asyncio.ensure_future(compact(s.agent))
        await s.server.until(lambda: is_summary_request(s.server.requests[-1]))
        s.agent.send("queued")
        s.agent.steer("steered")
        assert (await bounded(compacting)).outcome == "compacted"
        await bounded(s.agent.when_idle())
        sent = [data.content[0].text for data in s.logged(UserMessage)]
        assert sent == ["TASK", "queued", "steered"]
        assert "Fetched two." in str(s.server.requests[-1].body)


@pytest.mark.parametrize("how", ["abort", "cancel", "dispose"])
async def test_it_can_be_ended_in_the_middle(how):
    async with staged(summarising(*WORK, summary=stall("Half a summ"))) as s:
        agent = s.agent
        await s.run("TASK")
        before = agent.session.messages()
        compacting = asyncio.ensure_future(compact(agent))
        await s.server.until(lambda: is_summary_request(s.server.requests[-1]))
        if how == "abort":
            agent.abort("enough")
        elif how == "dispose":
            await bounded(agent.dispose())
        else:
            compacting.cancel()
        with pytest.raises(asyncio.CancelledError if how == "cancel" else AgentError):
            await bounded(compacting)
        reasons = {
            "abort": Aborted("enough"),
            "cancel": Aborted("cancelled"),
            "dispose": Disposed(),
        }
        assert s.logged(TurnEnd)[-1].reason == reasons[how]
        assert s.outcomes == ["aborted"]
        assert agent.session.messages() == before
        await s.server.until(lambda: s.server.requests[-1].state == "gone")


async def test_where_the_plugin_is_off_that_is_said():
    off = {"compaction": (Layer("test", False),)}
    async with staged(summarising(*WORK, *[fetches(1500 + i) for i in range(12)])) as s:
        agent = s.create(name="plain", plugins=off)
        with pytest.raises(UserError, match="compaction is off for agent 'plain'"):
            await compact(agent)
        assert await s.harness.commands.execute(agent, "/compact") is None
        result = await s.run("TASK", agent)
        assert result.text == "Half of it is done."
        result = await s.run("go on", agent)
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert s.logged(CompactionEnd, agent) == []
        assert max(request.tokens for request in s.server.requests) > WINDOW


async def test_an_agents_own_settings_count_for_the_command():
    own = {"compaction": (Layer("test", {"strategy": "outline"}),)}
    async with staged(summarising(*WORK, fetches(500), fetches(501))) as s:
        agent = s.create(name="thrifty", plugins=own)
        await s.run("TASK", agent)
        requests = len(s.server.requests)
        assert (await bounded(compact(agent))).outcome == "compacted"
        assert len(s.server.requests) == requests
        assert "call: fetch" in texts(agent.session.messages())[1]


async def test_parallel_calls_stay_together():
    batch = reply(calls=[call("fetch", {"characters": 300 + i}) for i in range(4)])
    async with staged(summarising(batch, batch, reply("ok"), summary="x")) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        assert [message.role for message in s.agent.session.messages()] == ["user", "user"]
        await s.run("next")  # the strict server refuses what is not balanced
