"""How large a conversation is taken to be."""

from __future__ import annotations

import pytest
from compaction_stage import bounded, fetches, staged, summarising

from dsh_compaction import compact
from dsh_core import Text, hookimpl
from dsh_core.events import UserMessage
from dsh_core.testing.behaviours import reply

WORK = [fetches(800), fetches(900), reply("Half of it is done.")]


async def measured(s, agent=None):
    agent = agent or s.agent
    return await s.harness.llm.measure(agent, agent.session.messages())


async def test_the_providers_count_is_the_base_and_an_estimate_comes_on_top():
    usage = {"prompt_tokens": 5000, "completion_tokens": 3}
    async with staged([reply("x" * 40, usage=usage)]) as s:
        await s.run("go")
        assert await measured(s) == 5000 + 4 + 10
        s.agent.inject("y" * 4)
        tagged = s.agent.session.messages()[-1].text
        assert await measured(s) == 5000 + 14 + 4 + len(tagged) // 4


async def test_cached_tokens_count():
    usage = {
        "prompt_tokens": 5000,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4000},
    }
    async with staged([reply("x" * 40, usage=usage)]) as s:
        await s.run("go")
        assert await measured(s) == 5014


async def test_without_usage_all_is_estimated_system_text_and_tools_too():
    async with staged([reply("x" * 40, usage=None), reply("z" * 40, usage=None)]) as s:
        await s.run("go")
        messages = s.agent.session.messages()
        alone = await s.harness.llm.measure(s.agent, (*messages,))
        whole = await measured(s)
        assert alone == 4 + 4 + 10
        assert whole > alone + 50
        await s.run("more")
        assert await measured(s) > whole + 10


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "completion_tokens": 0}, None])
async def test_a_count_of_nothing_is_no_base(usage):
    async with staged([reply("x" * 4000, usage=usage)]) as s:
        await s.run("go")
        assert await measured(s) > 1000


async def test_a_part_of_a_history_and_another_conversation_are_only_estimated():
    async with staged(summarising(*WORK)) as s:
        await s.run("go")
        messages = s.agent.session.messages()
        assert await s.harness.llm.measure(s.agent, messages[:1]) == 4
        assert await s.harness.llm.measure(None, messages) < await measured(s)


async def test_after_a_compaction_the_measure_follows_before_the_next_request():
    async with staged(summarising(*WORK)) as s:
        await s.run("go")
        before = await measured(s)
        end = await bounded(compact(s.agent))
        after = await measured(s)
        assert after < before / 2
        assert after == end.tokens_after
        await s.run("go on")
        sent = s.server.requests[-1].tokens
        assert after == pytest.approx(sent, rel=0.35)


async def test_what_another_plugin_replaces_is_measured_anew():
    async with staged(summarising(*WORK)) as s:
        await s.run("go")
        before = await measured(s)
        session = s.agent.session
        seq = session.message_sources()[2][0]
        result = session.events[seq].data
        session.record(
            type(result)(
                result.turn,
                result.step,
                result.call_id,
                (Text("short"),),
                replaces=(seq, seq),
            )
        )
        assert await measured(s) < before - 100
        seq = session.message_sources()[0][0]
        session.record(UserMessage((Text("words " * 400),), replaces=(seq, seq)))
        assert await measured(s) > before


async def test_other_plugins_may_count_and_are_used_for_what_is_new():
    class Exact:
        before = ()

        @hookimpl
        async def tokens_measure(self, agent, messages):
            if agent is None or messages is not agent.session.messages():
                return 1000 * len(messages)
            return None

    async with staged([reply("x", usage={"prompt_tokens": 70})], plugins={"exact": Exact()}) as s:
        await s.run("go")
        assert await measured(s) == 1070


async def test_a_step_measures_only_what_is_new():
    """However long the conversation: two messages a step, and no reading of the whole log."""
    counted = []

    class Counts:
        @hookimpl
        async def tokens_measure(self, agent, messages):
            if messages is not agent.session.messages():
                counted.append(len(messages))

    steps = [fetches(60 + i) for i in range(40)]
    async with staged(
        summarising(*steps), window=10**6, model_window=10**6, plugins={"counts": Counts()}
    ) as s:
        await s.run("go")
        assert len(s.server.requests) == 41
        assert max(counted[3:]) <= 2
        assert sum(counted) < 41 * 3
