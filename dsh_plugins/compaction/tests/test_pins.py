"""Messages that stay."""

from __future__ import annotations

import pytest
from compaction_stage import bounded, fetches, staged, summarising, texts

from dsh_compaction import compact, pin
from dsh_compaction.events import CompactionPin
from dsh_core import PluginSource, UserError, hookimpl
from dsh_core.testing.behaviours import reply

WORK = [fetches(800), fetches(900), reply("Half of it is done.")]
LONG = [fetches(1500 + i) for i in range(12)]


def seq_of(agent, text):
    return next(seq for seq, message in agent.session.message_sources() if text in message.text)


async def test_a_pinned_message_stays_until_it_is_unpinned():
    async with staged(summarising(*WORK, reply("Noted."), *WORK)) as s:
        agent = s.agent
        await s.run("TASK")
        await s.run("RULE: never push")
        seq = seq_of(agent, "RULE")
        await s.run("go on")
        pin(agent, seq)
        await bounded(compact(agent))
        assert "RULE: never push" in texts(agent.session.messages())
        pin(agent, seq, is_pinned=False)
        await s.run("and on " + "words " * 300)
        await s.run("newest")
        await bounded(compact(agent))
        assert "RULE: never push" not in texts(agent.session.messages())
        assert s.logged(CompactionPin) == [CompactionPin(seq), CompactionPin(seq, False)]


async def test_a_plugin_names_what_stays():
    class Notes:
        @hookimpl
        async def agent_turn_start(self, agent, turn):
            if turn == 1:
                agent.inject("RULE-TOKEN: be kind", source=PluginSource("notes"))

        @hookimpl(optionalhook=True)
        async def compaction_pins(self, agent):
            return [seq_of(agent, "RULE-TOKEN")]

    async with staged(summarising(*LONG), plugins={"notes": Notes()}) as s:
        result = await s.run("TASK")
        assert result.is_success
        assert "compacted" in s.outcomes
        assert any("RULE-TOKEN: be kind" in text for text in texts(s.agent.session.messages()))
        assert "RULE-TOKEN" in str(s.server.requests[-1].body)


@pytest.mark.parametrize("junk", [7, ["a"], "x", ValueError("broken")])
async def test_a_plugin_that_names_junk_is_reported_and_compaction_goes_on(junk):
    class Junk:
        @hookimpl(optionalhook=True)
        async def compaction_pins(self):
            if isinstance(junk, Exception):
                raise junk
            return junk

    async with staged(summarising(*WORK), plugins={"junk": Junk()}) as s:
        await s.run("TASK")
        assert (await bounded(compact(s.agent))).outcome == "compacted"
        assert any("'junk' in compaction_pins" in report for report in s.reports())


async def test_a_pinned_result_keeps_its_reply_and_the_results_beside_it():
    batch = fetches(400, 401, 402)
    async with staged(summarising(*WORK[:2], batch, reply("ok"), reply("Noted."))) as s:
        agent = s.agent
        await s.run("TASK")
        pin(agent, next(q for q, m in agent.session.message_sources() if "M401" in str(m)))
        await bounded(compact(agent))
        shown = texts(agent.session.messages())
        assert [text[:4] for text in shown if text.startswith("M")] == ["M400", "M401", "M402"]
        await s.run("next")  # the strict server refuses what is not balanced


async def test_what_the_model_does_not_see_cannot_be_pinned():
    async with staged(summarising(reply("Hi."))) as s:
        await s.run("TASK")
        with pytest.raises(UserError, match="sees no message of event 0"):
            pin(s.agent, 0)


async def test_many_pins_do_not_pile_up_markers():
    async with staged(summarising(*[reply(f"Answer {i} " * 40) for i in range(12)])) as s:
        agent = s.agent
        for number in range(6):
            await s.run(f"question {number} " + "words " * 100)
            pin(agent, seq_of(agent, f"question {number}"))
        for _ in range(3):
            await s.run("more " + "words " * 100)
            await bounded(compact(agent))
        shown = texts(agent.session.messages())
        assert sum("further down" in text for text in shown) <= 6
        assert [text.split()[1] for text in shown if text.startswith("question")] == [*"012345"]
