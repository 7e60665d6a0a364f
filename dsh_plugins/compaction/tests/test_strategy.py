"""Strategies: the plugin's own outline, and one that another plugin brings."""

from __future__ import annotations

import asyncio

import pytest
from compaction_stage import bounded, fetches, staged, summarising, texts

from dsh_compaction import CompactionError, Span, compact
from dsh_compaction.events import CompactionRequest
from dsh_compaction.outline import outline
from dsh_compaction.view import MARKER, SUMMARY
from dsh_compaction.wording import wrapped
from dsh_core import Message, Text, ToolCall, ToolResult, hookimpl
from dsh_core.testing.behaviours import reply

WORK = [fetches(800), fetches(900), reply("Half of it is done.")]
LONG = [fetches(1500 + i) for i in range(12)]


class Forgetful:
    """A second strategy: keeps nothing."""

    def __init__(self, answer="[{count} older messages were dropped]"):
        self.answer = answer
        self.spans = []

    @hookimpl(optionalhook=True)
    async def compaction_strategy(self, agent, span):
        self.spans.append(span)
        return self.answer.format(count=len(span.messages))


async def test_a_plugin_may_bring_a_strategy_that_asks_no_model():
    forgetful = Forgetful()
    async with staged(summarising(*LONG), plugins={"forgetful": forgetful}) as s:
        result = await s.run("TASK")
        assert result.is_success
        assert s.logged(CompactionRequest) == []
        assert set(s.outcomes) == {"compacted"}
        shown = texts(s.agent.session.messages())
        assert shown[0] == "TASK"
        assert f"[{len(forgetful.spans[-1].messages)} older messages were dropped]" in shown[1]


async def test_it_sees_the_span_the_prefix_and_the_wish():
    forgetful = Forgetful()
    async with staged(summarising(*WORK), plugins={"forgetful": forgetful}) as s:
        await s.run("TASK")
        before = s.agent.session.messages()
        await bounded(compact(s.agent, focus="the red door"))
        (span,) = forgetful.spans
        assert span.messages == before[1:]
        assert span.prefix == before
        assert span.focus == "the red door"
        assert span.tokens > 400


@pytest.mark.parametrize(
    ("answer", "problem"), [("  ", "blank"), ("word " * 3000, "not less than")]
)
async def test_its_answer_has_to_pass_the_same_checks(answer, problem):
    async with staged(summarising(*WORK), plugins={"f": Forgetful(answer)}) as s:
        await s.run("TASK")
        with pytest.raises(CompactionError, match=problem):
            await bounded(compact(s.agent))
        assert s.agent.session.generation == 0


@pytest.mark.parametrize("junk", [7, ["text"], ValueError("broken")])
async def test_a_broken_one_is_reported_and_the_plugins_own_takes_its_place(junk):
    class Broken:
        @hookimpl(optionalhook=True)
        async def compaction_strategy(self):
            if isinstance(junk, Exception):
                raise junk
            return junk

    async with staged(summarising(*WORK, summary="Own."), plugins={"broken": Broken()}) as s:
        await s.run("TASK")
        assert (await bounded(compact(s.agent))).outcome == "compacted"
        assert "Own." in texts(s.agent.session.messages())[1]
        assert any("'broken' in compaction_strategy" in report for report in s.reports())


async def test_a_strategy_may_wrap_the_plugins_own():
    class Signs:
        @hookimpl(optionalhook=True)
        async def compaction_strategy(self, *, call_next):
            return f"{await call_next()}\nSigned."

    async with staged(summarising(*WORK, summary="Own."), plugins={"signs": Signs()}) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        assert "Own.\nSigned." in texts(s.agent.session.messages())[1]


async def test_a_stuck_strategy_ends_with_the_turn():
    class Stuck:
        @hookimpl(optionalhook=True)
        async def compaction_strategy(self):
            reached.set()
            await asyncio.Event().wait()

    reached = asyncio.Event()
    async with staged(summarising(*LONG), plugins={"stuck": Stuck()}) as s:
        running = asyncio.ensure_future(s.agent.run("TASK"))
        await bounded(reached.wait())
        s.agent.abort("enough")
        assert (await bounded(running)).reason.type == "aborted"
        assert s.outcomes == ["aborted"]


# ------------------------------------------------------------------------------------ outline


async def test_with_the_outline_a_long_piece_of_work_finishes_without_summaries():
    async with staged(summarising(*LONG, *LONG), settings={"strategy": "outline"}) as s:
        result = await s.run("TASK")
        assert result.is_success
        assert s.summary_requests == []
        assert len(s.outcomes) > 1
        assert set(s.outcomes) == {"compacted"}


def message(role, *blocks, source=None):
    return Message(role, blocks, source=source)


def test_an_outline_says_who_said_and_called_what():
    span = Span(
        (
            message("user", Text("look\nat it")),
            message("assistant", Text("Will do."), ToolCall("c", "read", '{"path": "a"}')),
            message("user", ToolResult("c", (Text("no such\nfile"),), is_error=True)),
        ),
        (),
        1000,
    )

    assert outline(span).splitlines() == [
        "user: look at it",
        "agent: Will do.",
        'call: read {"path": "a"}',
        "  failed: no such file",
    ]


def test_an_outline_takes_over_an_earlier_one_and_drops_the_oldest_lines_first():
    earlier = message("user", Text(wrapped("old line\nnewer line")), source=SUMMARY)
    marker = message("user", Text("nothing"), source=MARKER)
    span = Span((earlier, marker, message("user", Text("newest"))), (), 1000)

    assert outline(span).splitlines() == ["old line", "newer line", "user: newest"]
    small = Span(span.messages, (), 30)
    assert outline(small).splitlines() == ["(1 older lines left out)", "newer line", "user: newest"]


def test_long_texts_are_cut_in_an_outline():
    span = Span((message("user", Text("x" * 10_000)),), (), 2500)

    assert outline(span) == f"user: {'x' * 600} …"
