"""When room is made without being asked."""

from __future__ import annotations

import logging

import pytest
from compaction_stage import (
    WINDOW,
    fetches,
    is_summary_request,
    staged,
    summarising,
    texts,
)

from dsh_compaction import compact
from dsh_compaction.events import CompactionRequest, CompactionStart
from dsh_core import Layer, TurnResult, hookimpl
from dsh_core.events import ContextMessage, Errored, LlmRetry, ToolResultEvent
from dsh_core.testing.behaviours import call, context_overflow, empty, max_tokens, reply

LONG = [fetches(1500 + i) for i in range(12)]


# ---------------------------------------------------------------------------------- threshold


class Weightless:
    """Counts nothing, so that only what the provider says counts."""

    @hookimpl
    async def tokens_measure(self, agent, messages):
        return None if messages is agent.session.messages() else 0


@pytest.mark.parametrize(("counted", "is_enough"), [(799, False), (800, True)])
async def test_room_is_made_from_the_threshold_on_and_not_below_it(counted, is_enough):
    usage = {"prompt_tokens": counted, "completion_tokens": 0}
    script = [reply(calls=[call("fetch", {"characters": 60})], usage=usage), reply("Done.")]
    plugins = {"weightless": Weightless()}
    async with staged(script, window=None, model_window=1000, plugins=plugins) as s:
        await s.run("go")
        assert [start.tokens for start in s.logged(CompactionStart)] == [800] * is_enough


async def test_the_summary_request_begins_with_the_very_bytes_of_the_last_request():
    async with staged(summarising(*LONG)) as s:
        await s.run("go")
        requests = s.server.requests
        asked = [index for index, request in enumerate(requests) if is_summary_request(request)]
        assert asked
        for index in asked:
            before, summary = requests[index - 1], requests[index]
            pairs = enumerate(zip(before.raw, summary.raw, strict=False))
            shared = next(index for index, (one, other) in pairs if one != other)
            question = summary.raw.index(b"Room is running out")
            assert question - shared < len('{"role":"user","content":"') + 10
            assert len(summary.messages) > 5
            assert {k: v for k, v in summary.body.items() if k != "messages"} == {
                k: v for k, v in before.body.items() if k != "messages"
            }


async def test_the_first_request_and_the_newest_one_stay_word_for_word():
    async with staged(summarising(*LONG[:3], reply("One."), *LONG)) as s:
        await s.run("TASK-TOKEN: begin")
        await s.run("NEWER-TOKEN: go on")
        assert "compacted" in s.outcomes
        shown = texts(s.agent.session.messages())
        assert shown[0] == "TASK-TOKEN: begin"
        assert "NEWER-TOKEN: go on" in shown
        last = s.server.requests[-1].body
        assert last["messages"][0]["role"] == "system"


async def test_people_still_find_every_original_in_the_log():
    async with staged(summarising(*LONG)) as s:
        await s.run("go")
        assert "compacted" in s.outcomes
        originals = [d for d in s.logged(ToolResultEvent) if d.replaces is None]
        assert len(originals) == len(LONG)
        assert all(len(data.content[0].text) > 1400 for data in originals)


async def test_start_and_end_say_what_happened_and_front_ends_show_it():
    async with staged(summarising(*LONG)) as s:
        await s.run("go")
        start, end = s.logged(CompactionStart)[0], s.ends[0]
        (summary, *_) = [d for d in s.logged(ContextMessage) if d.replaces is not None]
        assert (start.trigger, start.window_tokens) == ("threshold", WINDOW)
        assert start.tokens >= 0.8 * WINDOW
        assert start.tokens == end.tokens_before
        assert end.saved_tokens > 0.3 * WINDOW
        assert end.usage.input_tokens > 1000
        assert start.notice == (
            f"compaction: the conversation takes about {start.tokens:,} of 4,000 tokens"
        )
        assert end.notice == (
            f"compaction: about {end.tokens_before:,} → {end.tokens_after:,} tokens "
            f"({end.replaced_messages} messages replaced)"
        )
        assert summary.replaces[0] < summary.replaces[1]


async def test_what_the_summary_costs_counts_for_the_turn():
    async with staged(summarising(*LONG)) as s:
        result: TurnResult = await s.run("go")
        spent = sum(end.usage.total_tokens for end in s.ends)
        others = [r for r in s.server.requests if not is_summary_request(r)]
        assert result.usage.total_tokens > spent + sum(r.tokens for r in others)


async def test_a_compaction_that_does_not_help_is_not_repeated_in_the_turn():
    long_summary = reply("SUMMARY " * 3000)
    async with staged(summarising(*LONG, summary=long_summary)) as s:
        result = await s.run("go")
        tries = len([r for r in s.server.requests if is_summary_request(r)])
        assert s.outcomes[0] == "failed"
        assert "not usable" in s.summary_requests[1].last_text
        assert tries <= 4  # two for the threshold, two for the refused request
        assert "replaces" in s.ends[0].problem
        assert isinstance(result.reason, Errored)
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert s.agent.session.generation == 0


async def test_a_summary_with_hardly_anything_new_behind_it_is_not_summarised_again():
    async with staged(summarising(fetches(6800), summary="S" * 6000)) as s:
        await s.run("x" * 4000)
        assert (await compact(s.agent)).outcome == "compacted"
        await s.run("hi")
        await s.run("y" * 2800)
        assert s.outcomes == ["compacted", "failed"]
        assert "tokens are left, the threshold is 3,200" in s.ends[1].problem
        assert len(s.summary_requests) == 1


async def test_where_requests_alone_fill_the_window_that_is_said():
    async with staged(summarising(fetches(400), fetches(400))) as s:
        await s.run("x" * 13_000)
        assert s.outcomes == ["failed"]
        assert "requests and pinned messages 3," in s.ends[0].problem
        assert s.summary_requests == []


async def test_an_unknown_window_is_said_once_and_stops_nothing(caplog):
    steps = [fetches(60 + 12 * i) for i in range(24)]
    with caplog.at_level(logging.WARNING, "dsh.compaction"):
        async with staged(summarising(*steps), window=None, model_window=None) as s:
            assert (await s.run("go")).is_success
            assert s.ends == []
    warnings = [r.getMessage() for r in caplog.records if "window" in r.getMessage()]
    assert len(warnings) == 1
    assert "providers.m.models.model.context_window_tokens" in warnings[0]


# ----------------------------------------------------------------------------------- overflow


async def test_a_refused_request_is_sent_again_after_room_was_made():
    steps = [fetches(1300 + i) for i in range(11)]
    async with staged(summarising(*steps), model_window=None) as s:
        result = await s.run("go")
        assert result.text == "Done."
        assert [r.behaviour for r in s.server.requests].count("context_overflow") >= 1
        assert {d.trigger for d in s.logged(CompactionStart)} == {"overflow"}
        assert s.logged(LlmRetry)[0].code == "CONTEXT_WINDOW_EXCEEDED"
        assert "failed" not in s.outcomes


async def test_one_huge_result_is_shortened_and_no_summary_is_needed():
    async with staged(summarising(fetches(30_000)), model_window=None) as s:
        assert (await s.run("go")).is_success
        assert s.summary_requests == []
        assert (s.ends[0].outcome, s.ends[0].pruned_results) == ("compacted", 1)
        shown = texts(s.agent.session.messages())
        assert len(shown[2]) < 6000
        assert "characters of this older result left out" in shown[2]
        assert shown[2].startswith("M30000")


async def test_without_progress_the_providers_error_stands_and_the_session_stays_usable():
    async with staged(summarising(), model_window=None) as s:
        result = await s.run("x" * 20_000)
        assert isinstance(result.reason, Errored)
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert len(s.server.requests) == 1
        assert s.outcomes == ["failed"]
    async with staged(summarising(*LONG, summary=empty()), model_window=None) as s:
        result = await s.run("go")
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert s.outcomes == ["failed"]
        assert s.agent.session.generation == 0
        again = await s.run("Still there?")
        assert again.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert texts(s.agent.session.messages())[0] == "go"


async def test_a_request_that_is_too_long_again_ends_the_turn():
    def answer(request):
        if is_summary_request(request):
            return reply("Short.")
        return fetches(2000) if request.number < 4 else context_overflow()

    async with staged(answer, window=None, model_window=None) as s:
        result = await s.run("go")
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert s.outcomes == ["compacted"]
        assert len(s.server.requests) == 6


async def test_a_result_cut_short_and_a_failing_summary_still_give_one_more_try():
    steps = [fetches(4000), fetches(4500), fetches(12_000)]
    async with staged(summarising(*steps, summary=max_tokens("Half a")), model_window=None) as s:
        result = await s.run("go")
        assert (s.ends[0].outcome, s.ends[0].pruned_results) == ("failed", 1)
        assert "not complete" in s.ends[0].problem
        assert result.is_success


# -------------------------------------------------------------------------------- switched off


async def test_automatic_compaction_can_be_switched_off():
    async with staged(summarising(*LONG), settings={"automatic": False}) as s:
        result = await s.run("go")
        assert result.reason.code == "CONTEXT_WINDOW_EXCEEDED"
        assert s.ends == []


async def test_an_agent_may_have_other_settings_or_none():
    early = {"compaction": (Layer("test", {"threshold": 0.4, "retain": 0.1}),)}
    async with staged(summarising(*LONG * 3)) as s:
        agent = s.create(name="early", plugins=early)
        await s.run("go", agent)
        starts = s.logged(CompactionStart, agent)
        assert starts
        assert 0.4 * WINDOW <= starts[0].tokens < 0.8 * WINDOW


async def test_requests_of_a_summary_can_be_rebuilt_from_the_log():
    async with staged(summarising(*LONG)) as s:
        await s.run("go")
        asked = s.logged(CompactionRequest)
        sent = s.summary_requests
        assert len(asked) == len(sent)
        for logged, request in zip(asked, sent, strict=True):
            assert logged.model == "m/model"
            assert request.last_text == logged.question.text
            assert (logged.keep_head, logged.keep_tail) == (logged.length, 0)
            assert len(request.messages) == 1 + logged.length + 1  # system text, history, question
