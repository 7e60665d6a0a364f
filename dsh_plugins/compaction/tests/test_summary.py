"""Which replies become a summary, and what is asked."""

from __future__ import annotations

import pytest
from compaction_stage import bounded, fetches, is_summary_request, staged, summarising, texts

from dsh_compaction import CompactionError, compact
from dsh_compaction.events import CompactionProgress, CompactionRequest
from dsh_compaction.view import SUMMARY
from dsh_core import Text, hookimpl
from dsh_core.events import UsageEvent
from dsh_core.testing.behaviours import (
    auth_error,
    call,
    content_filter,
    context_overflow,
    empty,
    error_in_stream,
    max_tokens,
    partial_disconnect,
    rate_limit,
    reply,
    server_error,
)

WORK = [fetches(800), fetches(900), reply("Half of it is done.")]


def answering(*summaries, work=WORK):
    """Answer summary requests one after the other, the last one for ever."""
    left, script = list(summaries), summarising(*work)

    def answer(request):
        if is_summary_request(request):
            return left.pop(0) if len(left) > 1 else left[0]
        return script(request)

    return answer


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (empty(), "EMPTY_RESPONSE"),
        (reply("", reasoning="hm"), "it is empty"),
        (reply("  \n "), "it is empty"),
        (max_tokens("half of a summ"), "it is not complete: max-tokens"),
        (reply("Summary.", calls=[call("fetch", {"characters": 9})]), "it called tools"),
        (call("fetch", {"characters": 9}), "it called tools"),
        (reply("long words " * 500), "tokens, what it replaces"),
        (content_filter("I can"), "CONTENT_FILTER"),
        (auth_error(), "AUTH"),
        (error_in_stream(after_text="Half"), "SERVER"),
        (partial_disconnect("Half"), "TRANSPORT"),
    ],
    ids=lambda value: getattr(value, "verb", None),
)
async def test_what_is_no_summary_leaves_the_history_as_it_is(bad, problem):
    async with staged(answering(bad), settings={"attempts": 1}) as s:
        await s.run("TASK")
        before = s.agent.session.messages()
        with pytest.raises(CompactionError, match=problem):
            await bounded(compact(s.agent))
        assert s.agent.session.messages() is before
        assert len(s.summary_requests) == 1
        await s.run("still there?")


async def test_an_unusable_reply_is_asked_for_again_saying_why():
    async with staged(answering(call("fetch", {"characters": 9}), reply("Good."))) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        first, second = s.summary_requests
        assert second.messages[:-1] == first.messages[:-1]
        assert second.last_text.startswith(first.last_text)
        assert "not usable: it called tools instead of answering." in second.last_text
        assert [asked.attempt for asked in s.logged(CompactionRequest)] == [1, 2]


async def test_attempts_are_bounded():
    async with staged(answering(empty()), settings={"attempts": 3}) as s:
        await s.run("TASK")
        with pytest.raises(CompactionError):
            await bounded(compact(s.agent))
        assert len(s.summary_requests) == 3


@pytest.mark.parametrize("passing", [rate_limit(retry_after=0), server_error()])
async def test_a_failure_that_passes_is_waited_for(passing):
    async with staged(answering(passing, reply("Good."))) as s:
        await s.run("TASK")
        assert (await bounded(compact(s.agent))).outcome == "compacted"


async def test_reasoning_is_no_part_of_the_summary():
    async with staged(answering(reply("Short notes.", reasoning="SECRET THOUGHT"))) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        shown = texts(s.agent.session.messages())[1]
        assert "Short notes." in shown
        assert "SECRET THOUGHT" not in shown


async def test_a_request_that_does_not_fit_is_made_about_half_until_it_does():
    sizes = []

    def answer(request):
        if is_summary_request(request):
            sizes.append(len(request.messages))
            return context_overflow() if request.tokens > 1500 else reply("Part.")
        return script(request)

    script = summarising(*[fetches(700 + i) for i in range(14)], reply("Done."))
    async with staged(answer, window=None, model_window=None) as s:
        await s.run("TASK")
        end = await bounded(compact(s.agent))
        assert end.outcome == "compacted"
        assert sizes[0] > sizes[1]
        assert texts(s.agent.session.messages())[0] == "TASK"
        assert end.tokens_after < end.tokens_before / 2


async def test_a_known_window_is_never_exceeded_by_the_request_for_a_summary():
    work = [*[fetches(3000 + i) for i in range(7)], reply("Done.")]
    async with staged(
        answering(reply("Part."), work=work),
        window=20_000,
        model_window=3000,
        settings={"automatic": False},
    ) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        assert len(s.summary_requests) > 1
        assert all(request.tokens < 3000 for request in s.summary_requests)
        assert len(s.agent.session.messages()) <= 3


async def test_model_and_parameters_of_summaries_can_be_chosen():
    settings = {"model": "m/small", "parameters": {"max_tokens": 99}}
    async with staged(answering(reply("Good.")), settings=settings) as s:
        agent = s.create(parameters={"temperature": 0})
        await s.run("TASK", agent)
        await bounded(compact(agent))
        body = s.summary_requests[0].body
        assert (body["model"], body["max_tokens"], body["temperature"]) == ("small", 99, 0)
        assert "max_tokens" not in s.server.requests[0].body


async def test_plugins_edit_the_request_for_a_summary_like_any_other():
    class Redacts:
        @hookimpl
        async def agent_request(self, request):
            request.system += "\nBe polite."
            request.messages = tuple(
                m if "PASSWORD" not in m.text else type(m)(m.role, (Text("[redacted]"),))
                for m in request.messages
            )

    async with staged(answering(reply("Good.")), plugins={"redacts": Redacts()}) as s:
        await s.run("the PASSWORD is 1234")
        await bounded(compact(s.agent))
        body = s.summary_requests[0].body
        assert body["messages"][0]["content"].endswith("Be polite.")
        assert body["messages"][0]["content"].count("Be polite.") == 1
        assert "1234" not in str(body)
        (asked,) = s.logged(CompactionRequest)
        assert (asked.keep_head, asked.keep_tail) == (0, asked.length - 1)
        assert [message.text for message in asked.messages] == ["[redacted]"]


async def test_a_plugin_that_breaks_the_stream_is_named_and_asked_once():
    class Breaks:
        @hookimpl
        async def llm_stream(self, request, *, call_next):
            if "summary" in request.messages[-1].text:
                raise ValueError("no summaries here")
            async for chunk in await call_next():
                yield chunk

    async with staged(answering(reply("Good.")), plugins={"breaks": Breaks()}) as s:
        await s.run("TASK")
        with pytest.raises(CompactionError, match=r"'breaks' in llm_stream.*no summaries here"):
            await bounded(compact(s.agent))
        assert len(s.logged(CompactionRequest)) == 1


async def test_an_earlier_summary_is_taken_over_by_the_next_one():
    async with staged(answering(reply("FIRST notes."), reply("SECOND notes."))) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        await s.run("more")
        script_more = [m for m in s.agent.session.messages() if m.source == SUMMARY]
        assert len(script_more) == 1
        for number in range(3):
            await s.run(f"and {number} " + "words " * 60)
        await bounded(compact(s.agent))
        second = s.summary_requests[-1]
        assert any("FIRST notes." in str(message) for message in second.messages)
        shown = "".join(texts(s.agent.session.messages()))
        assert "SECOND notes." in shown
        assert "FIRST notes." not in shown


async def test_progress_is_shown_while_a_summary_comes(monkeypatch):
    monkeypatch.setattr("dsh_compaction.summary.PROGRESS_SECONDS", -1.0)
    async with staged(answering(reply("A summary in some pieces of text."))) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        progress = s.logged(CompactionProgress)
        assert [one.characters for one in progress] == [16, 32, 33]
        assert progress[0].notice == "compaction: 16 characters so far …"
        assert (
            s.logged(CompactionRequest)[0].notice == "compaction: m/model summarises 6 messages …"
        )


async def test_outside_a_step_no_usage_event_is_logged_and_the_end_has_it():
    async with staged(answering(reply("Good."))) as s:
        await s.run("TASK")
        count = len(s.logged(UsageEvent))
        end = await bounded(compact(s.agent))
        assert len(s.logged(UsageEvent)) == count
        assert end.usage.input_tokens == s.summary_requests[0].tokens
