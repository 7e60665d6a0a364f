"""Beside the plugin that stores sessions: what was compacted is resumed compacted."""

from __future__ import annotations

import pytest
from compaction_stage import bounded, fetches, staged, summarising, texts

from dsh_compaction import compact, pin
from dsh_core.testing.behaviours import reply

persistence = pytest.importorskip("dsh_persistence")
WORK = [fetches(1500 + i) for i in range(12)]


def stored_in(folder):
    settings = {"persistence": {"folder": str(folder), "window_seconds": 0}}
    return {"plugins": {"persistence": persistence.Persistence}, "layers": settings}


async def test_a_stored_session_is_resumed_as_it_was_compacted(tmp_path):
    async with staged(summarising(*WORK), **stored_in(tmp_path)) as s:
        await s.run("TASK")
        await s.run("RULE: be kind")
        pin(s.agent, next(q for q, m in s.agent.session.message_sources() if "RULE" in m.text))
        await s.run("more " + "words " * 50)
        assert (await bounded(compact(s.agent))).outcome == "compacted"
        before, session_id = s.agent.session.messages(), s.agent.id
    async with staged(summarising(reply("Resumed.")), **stored_in(tmp_path)) as s:
        agent = await s.harness.agents.resume(session_id, definition=s.definition)
        s.agents.append(agent)
        assert agent.session.messages() == before
        await s.run("newest", agent)
        await s.run("and newer", agent)
        assert (await bounded(compact(agent))).outcome == "compacted"
        shown = texts(agent.session.messages())
        assert shown[0] == "TASK"
        assert "RULE: be kind" in shown
        fork = await s.harness.sessions.fork(session_id)
        assert fork.messages() == agent.session.messages()


async def test_by_hand_it_is_durable_when_that_is_said(tmp_path):
    async with staged(summarising(fetches(900), fetches(901)), **stored_in(tmp_path)) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        stored = await s.harness.store.load(s.agent.id)
        assert [event.type for event in stored.events[-3:]] == [
            "context/message",
            "compaction/end",
            "turn/end",
        ]
