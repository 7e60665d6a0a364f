"""What a model may do wrong: failures, retries in the same step, and replies that are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from loop_stage import (
    Gate,
    bounded,
    calls,
    lines,
    nothing,
    paused,
    raising,
    says,
    stage,
)

from dsh_core import (
    Agent,
    Chunk,
    Request,
    Retry,
    hookimpl,
    tool,
)
from dsh_core.chunks import BlockStart, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh_core.content import Reasoning
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    LlmRetry,
    MaxTokens,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UsageEvent,
)

# ------------------------------------------------------------------------------ the model's faults


@pytest.mark.parametrize(
    "error",
    [ValueError("broken \ud800"), SystemExit(2), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("said", ["", "half"])
async def test_a_model_that_raises_anything_ends_the_turn_with_an_error(
    error: BaseException, said: str
) -> None:
    async def fails(request: Request) -> AsyncIterator[Chunk]:
        if said:
            yield TextDelta(0, said)
        raise error

    async with stage(fails) as s:
        result = await bounded(s.agent.run("go"))

        (logged,) = s.logged(ErrorEvent)
        assert (logged.code, result.reason.type) == ("UNKNOWN", "error")
        assert type(error).__name__ in logged.message
        assert s.logged(AssistantMessage) == []
        assert s.logged(AssistantChunk)[-1].chunk.type == "finish"
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ([], "EMPTY_RESPONSE"),
        ([Finish("stop")], "EMPTY_RESPONSE"),
        ([TextDelta(0, ""), Finish("stop")], "EMPTY_RESPONSE"),
        ([Finish("tool-calls")], "EMPTY_RESPONSE"),
        ([Finish("error")], "UNKNOWN"),
        ([Finish("aborted")], "ABORTED"),
        ([Finish("error", LlmFailure("QUOTA", "no money"))], "QUOTA"),
        ([BlockStart(0, "video"), Finish("stop")], "MALFORMED_RESPONSE"),
        (["text"], "MALFORMED_RESPONSE"),
        ([None], "MALFORMED_RESPONSE"),
    ],
)
async def test_a_reply_that_is_none_is_a_failure_with_a_code(reply: Any, code: str) -> None:
    settings = {"retry": {"max_retries": 0}}
    async with stage(reply, settings=settings) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, Errored)
        assert result.reason.code == code
        assert s.logged(AssistantMessage) == []
        assert lines(s.agent.session.messages()) == ["user: go"]


async def test_a_reply_of_reasoning_alone_is_one() -> None:
    async with stage([ReasoningDelta(0, "hm"), Finish("stop")]) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        assert s.logged(AssistantMessage)[0].content == (Reasoning("hm"),)


async def test_what_comes_after_the_finish_is_not_heard() -> None:
    async with stage([*says("a"), TextDelta(0, "b"), Finish("error")]) as s:
        assert (await bounded(s.agent.run("go"))).text == "a"


async def test_a_turn_without_a_model_says_both_remedies() -> None:
    async with stage() as s:
        agent = s.harness.agents.create(session_id="none")
        s.agents.append(agent)
        result = await bounded(agent.run("go"))

        assert isinstance(result.reason, Errored)
        assert result.reason.code == "CONFIG"
        for remedy in ("DEEPSEEK_API_KEY", "dsh.yaml"):
            assert remedy in result.reason.message
        assert agent.status == "idle"
        assert s.model.requests == []


async def test_a_prompt_that_cannot_be_assembled_sends_nothing_and_closes_the_step() -> None:
    plugin = raising("system_prompt_assemble", ValueError("unknown tool"))
    async with stage(plugin=plugin) as s:
        await bounded(s.agent.run("go"))

        assert s.model.requests == []
        assert s.types()[-4:] == ["step/start", "error", "step/end", "turn/end"]


# ------------------------------------------------------------------------------------ attempts


def retrying(*delays: float) -> object:
    class Retries:
        attempts: list[int] = []  # noqa: RUF012

        @hookimpl
        async def agent_request_error(self, failure: LlmFailure, attempt: int) -> Retry | None:
            self.attempts.append(attempt)
            return Retry(delays[attempt - 1]) if attempt <= len(delays) else None

    Retries.attempts = []
    return Retries()


async def test_a_failed_attempt_is_tried_again_in_the_same_step_and_never_a_message() -> None:
    async def half(request: Request) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "half of")
        yield ToolCallDelta(1, "c", "nothing", "{}")
        raise LlmFailure("SERVER", "overloaded", status=503)

    retries: Any = retrying(0, 0)
    async with stage(half, half, says("whole"), plugin=retries, tools=(nothing,)) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.text, result.is_success) == ("whole", True)
        assert (retries.attempts, len(s.model.requests)) == ([1, 2], 3)
        assert s.logged(LlmRetry) == [
            LlmRetry(1, 1, n, 0.0, "SERVER", "overloaded") for n in (1, 2)
        ]
        assert lines(s.agent.session.messages()) == ["user: go", "assistant: whole"]
        assert s.logged(ToolCallEvent) == []
        assert len([c for c in s.logged(AssistantChunk) if c.chunk.type == "text-delta"]) == 3
        assert s.types().count("step/start") == 1
        assert [str(error) for error in s.errors] == ["SERVER: overloaded"] * 2


async def test_a_failure_that_nobody_retries_any_more_is_the_turns_error() -> None:
    failures = [LlmFailure("SERVER", f"number {n}") for n in range(3)]
    async with stage(*failures, plugin=retrying(0, 0), settings={"retry": {"codes": []}}) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason == Errored("number 2", "SERVER")
        assert s.logged(ErrorEvent) == [ErrorEvent(1, 1, "number 2", "SERVER")]


async def test_a_failure_is_reported_though_judging_it_fails() -> None:
    plugin = raising("agent_request_error", ValueError("cannot judge"))
    async with stage(LlmFailure("AUTH", "no key"), plugin=plugin) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, Errored)
        assert result.reason.code == "PLUGIN"
        assert s.reports()[0] == "AUTH: no key"
        assert "cannot judge" in s.reports()[1]


async def test_each_attempt_asks_the_plugins_and_the_log_anew() -> None:
    class Models:
        count = 0

        @hookimpl
        async def agent_request(self, request: Request) -> None:
            self.count += 1
            request.parameters = {"attempt": self.count}

    class Injects:
        @hookimpl
        async def agent_request_error(self, agent: Agent, attempt: int) -> Retry | None:
            agent.inject("try harder")
            return Retry() if attempt == 1 else None

    plugins = {"models": Models(), "injects": Injects()}
    async with stage(LlmFailure("X", "x"), plugins=plugins) as s:
        await bounded(s.agent.run("go"))

        first, second = s.model.requests
        assert (first.parameters, second.parameters) == ({"attempt": 1}, {"attempt": 2})
        assert len(second.messages) == len(first.messages) + 1


async def test_an_abort_interrupts_the_wait_for_a_retry_and_keeps_nothing_of_what_failed() -> None:
    async def half(request: Request) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "half")
        raise LlmFailure("X", "x")

    async with stage(half, plugin=retrying(3600)) as s:
        s.agent.send("go")
        while not s.logged(LlmRetry):
            await asyncio.sleep(0)
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]
        assert s.logged(AssistantMessage) == []
        assert len(s.model.requests) == 1


@pytest.mark.parametrize("delay", [-1.0, float("nan"), float("inf"), "soon"])
async def test_a_delay_that_is_none_ends_the_turn(delay: Any) -> None:
    async with stage(LlmFailure("X", "x"), plugin=retrying(delay)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"


async def test_what_failed_attempts_cost_is_logged_too() -> None:
    empty = says("", usage=Usage(5, 0))
    async with stage(empty, says("ok", usage=Usage(5, 1)), plugin=retrying(0)) as s:
        result = await bounded(s.agent.run("go"))

        assert [event.usage for event in s.logged(UsageEvent)] == [Usage(5, 0), Usage(5, 1)]
        assert result.usage == Usage(10, 1)


async def test_a_failure_in_the_log_keeps_no_frames_alive() -> None:
    async def fails(request: Request) -> AsyncIterator[Chunk]:
        raise RuntimeError("with a traceback")
        yield TextDelta(0, "")

    async with stage(fails) as s:
        await bounded(s.agent.run("go"))

        (finish,) = (c.chunk for c in s.logged(AssistantChunk) if isinstance(c.chunk, Finish))
        assert finish.failure is not None
        assert (finish.failure.__cause__, finish.failure.__traceback__) == (None, None)


# ------------------------------------------------------------------------------------ max-tokens


async def test_a_reply_cut_in_its_text_ends_the_turn_as_cut() -> None:
    async with stage(says("half", finish="max-tokens")) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.reason, result.text) == (MaxTokens(), "half")


async def test_a_reply_cut_before_it_began_is_no_failure() -> None:
    async with stage([Finish("max-tokens")]) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.reason, s.logged(ErrorEvent)) == (MaxTokens(), [])
        assert lines(s.agent.session.messages()) == ["user: go"]


async def test_a_turn_that_was_cut_and_steered_on_stays_cut() -> None:
    gate = Gate()
    async with stage(paused(gate, *says("half", finish="max-tokens")), "whole") as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.steer("go on")
        gate.open()
        await bounded(s.agent.when_idle())

        assert len(s.model.requests) == 2
        assert s.logged(TurnEnd) == [TurnEnd(1, MaxTokens())]


def cut(*names: str) -> list[Chunk]:
    return [*calls(*((name, '{"a": ') for name in names))[:-1], Finish("max-tokens")]


async def test_truncated_calls_are_never_run_and_the_model_is_told() -> None:
    ran: list[str] = []

    @tool
    def writes(a: int = 0) -> str:
        """Write."""
        ran.append("ran")
        return "written"

    seen: list[tuple[str, str | None]] = []

    class Sees:
        @hookimpl
        async def tools_authorize(self) -> None:
            raise AssertionError("nobody judges what never runs")

        @hookimpl
        async def tools_result(self, call: Any, result: Any) -> None:
            seen.append((call.name, result.code))

    async with stage(cut("writes", "writes"), "ok", plugin=Sees(), tools=(writes,)) as s:
        result = await bounded(s.agent.run("go"))

        assert (ran, result.reason) == ([], Completed())
        assert [r.code for r in s.logged(ToolResultEvent)] == ["TRUNCATED"] * 2
        assert [c.verdict for c in s.logged(ToolCallEvent)] == ["deny"] * 2
        assert "cut at the output limit" in lines(s.model.requests[1].messages)[-1]
        assert seen == [("writes", "TRUNCATED")] * 2


async def test_a_model_that_is_cut_in_its_calls_again_and_again_is_stopped() -> None:
    async with stage(*[cut("nothing")] * 5, tools=(nothing,)) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.reason, len(s.model.requests)) == (MaxTokens(), 2)


async def test_a_whole_reply_between_cut_ones_starts_the_count_anew() -> None:
    replies = [cut("nothing"), calls(("nothing", "{}")), cut("nothing"), "done"]
    async with stage(*replies, tools=(nothing,)) as s:
        assert (await bounded(s.agent.run("go"))).is_success
