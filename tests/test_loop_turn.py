"""A turn ends once, for one reason, with a balanced log, whatever is thrown into it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from loop_stage import Gate, Stage, bounded, calls, lines, paused, says, stage
from waterfalls import unplaced

from dsh_core import (
    Agent,
    Chunk,
    Event,
    Message,
    OnError,
    Request,
    Retry,
    ToolContext,
    UserError,
    hookimpl,
    hookspecs,
    tool,
)
from dsh_core.chunks import BlockStart, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh_core.content import Reasoning, Text, ToolCall
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Completed,
    ContextMessage,
    Errored,
    ErrorEvent,
    LimitReached,
    LlmRetry,
    MaxTokens,
    StepEnd,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UsageEvent,
)
from dsh_core.marks import MODE_ATTRIBUTE, Mode


@tool
def steers(ctx: ToolContext) -> str:
    """Steer the agent that calls."""
    ctx.agent.steer("hurry")
    return "steered"


@tool
def nothing() -> str:
    """Do nothing."""
    return "done"


# ------------------------------------------------------------------- what a raising plugin causes

MODES: dict[str, Mode] = {
    name: getattr(spec, MODE_ATTRIBUTE)
    for name, spec in vars(hookspecs).items()
    if hasattr(spec, MODE_ATTRIBUTE)
}
END_TURN = [name for name, mode in MODES.items() if mode.on_error is OnError.END_TURN]
REPORTED = [
    "agent_status",
    "agent_queued",
    "agent_error",
    "agent_turn_end",
    "session_event",
    "session_flush",
    "tools_result",
    "tokens_measure",
]
ERRORS = [
    ValueError("half \ud800"),
    SystemExit(3),
    asyncio.CancelledError("nobody asked"),
    UserError("in the user's words"),
    LlmFailure("SERVER", "a failure"),
]


def raising(hook: str, error: BaseException, *, times: int = 1) -> object:
    """A plugin whose implementation of a hook raises, the first few times."""
    left = [times]

    def fail() -> None:
        if left[0]:
            left[0] -= 1
            raise error

    def plain(self: object) -> None:
        fail()

    async def eventually(self: object) -> None:
        fail()

    function = eventually if MODES[hook].is_async else plain
    return type("Raising", (), {hook: hookimpl(function)})()


def script(hook: str) -> list[Any]:
    first = [LlmFailure("AUTH", "no key")] if hook == "agent_request_error" else []
    return [*first, calls(("steers", "{}")), "done"]


def test_the_contract_lists_the_hooks_that_end_a_turn() -> None:
    assert set(END_TURN) == {
        "agent_turn_start",
        "agent_step_start",
        "agent_step_end",
        "agent_stream_chunk",
        "agent_steering",
        "agent_request",
        "agent_step_result",
        "agent_turn_continuation",
        "agent_request_error",
        "llm_stream",
        "system_prompt_sections",
        "system_prompt_assemble",
    }


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("hook", END_TURN)
async def test_a_raising_plugin_ends_the_turn_with_one_error_and_the_loop_goes_on(
    hook: str, error: BaseException
) -> None:
    async with stage(*script(hook), plugin=raising(hook, error), tools=(steers,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.turns[0] == 1
        (logged,) = s.logged(ErrorEvent)
        first_end = s.logged(TurnEnd)[0]
        assert first_end == TurnEnd(1, Errored(logged.message, logged.code))
        if isinstance(error, UserError):
            assert (logged.code, logged.message) == ("CONFIG", "in the user's words")
        elif isinstance(error, LlmFailure):
            assert (logged.code, logged.message) == ("SERVER", "a failure")
        else:
            assert (logged.code, logged.plugin) == ("PLUGIN", "it")
            assert hook in logged.message
        assert len(s.errors) == (2 if hook == "agent_request_error" else 1)
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize("error", ERRORS[:3], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("hook", REPORTED)
async def test_a_raising_observer_changes_nothing(hook: str, error: BaseException) -> None:
    broken = LlmFailure("SERVER", "once") if hook == "agent_error" else "fine"
    plugin = raising(hook, error, times=1_000)
    replies = [broken, calls(("nothing", "{}")), "done"]
    settings = {"retry": {"initial_delay_seconds": 0.0}}
    async with stage(*replies, plugin=plugin, tools=(nothing,), settings=settings) as s:
        result = await bounded(s.agent.run("go"))
        await s.harness.llm.measure(s.agent, s.agent.session.messages())

        assert result.is_success
        assert s.logged(ErrorEvent) == []


async def test_two_plugins_that_raise_cause_one_error_and_one_report() -> None:
    hook = "agent_step_start"
    plugins = {"a": raising(hook, ValueError("A")), "b": raising(hook, ValueError("B"))}
    async with stage(plugins=plugins) as s:
        await bounded(s.agent.run("go"))

        (logged,) = s.logged(ErrorEvent)
        assert (logged.plugin, "ValueError: A" in logged.message) == ("a", True)
        assert unplaced(s.reports()) == [
            "plugin 'b' in agent_step_start: ValueError: B",
            "plugin 'a' in agent_step_start: ValueError: A",
        ]


async def test_a_step_that_ends_by_error_has_its_end_told_too() -> None:
    seen: list[str] = []

    class Both:
        @hookimpl
        async def agent_step_end(self, turn: int, step: int) -> None:
            seen.append(f"{turn}.{step}")
            raise ValueError("and again")

    plugins = {"it": raising("agent_request", ValueError("first")), "both": Both()}
    async with stage(plugins=plugins) as s:
        await bounded(s.agent.run("go"))

        assert seen == ["1.1"]
        (logged,) = s.logged(ErrorEvent)
        assert "first" in logged.message
        assert s.types()[-3:] == ["error", "step/end", "turn/end"]
        assert len(s.errors) == 2


@pytest.mark.parametrize(
    "refused",
    ["step/start", "request/header", "assistant/message", "usage", "step/end", "error", "turn/end"],
)
async def test_an_event_that_a_plugin_refuses_leaves_a_balanced_log(refused: str) -> None:
    class Refuses:
        left = 1

        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == refused and self.left:
                self.left -= 1
                raise ValueError("not this")

    first = ValueError("the model broke") if refused == "error" else says("a", usage=Usage(1))
    async with stage(first, plugin=Refuses()) as s:
        result = await bounded(s.agent.run("go"))

        owed = refused in ("usage", "step/end", "turn/end")
        assert result.is_success is owed
        assert any("not this" in report for report in s.reports())
        assert len(s.logged(ErrorEvent)) == (0 if owed else 1)
        assert (await bounded(s.agent.run("again"))).is_success


async def test_a_reply_whose_cost_is_refused_stands_and_its_calls_run() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == "usage":
                raise ValueError("not this")

    reply = [*calls(("nothing", "{}"))[:-1], *says("", usage=Usage(1), finish="tool-calls")]
    async with stage(reply, plugin=Refuses(), tools=(nothing,)) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.is_success, result.usage) == (True, Usage())
        assert [r.code for r in s.logged(ToolResultEvent)] == [None]
        assert len(s.errors) == 1


@pytest.mark.parametrize("refused", ["turn/end", "step/end"])
async def test_a_plugin_that_closes_the_turn_itself_does_not_break_the_loop(refused: str) -> None:
    class Meddles:
        @hookimpl
        async def agent_step_start(self, agent: Agent, turn: int, step: int) -> None:
            if turn == 1:
                agent.session.append(StepEnd(turn, step))
                if refused == "turn/end":
                    agent.session.append(TurnEnd(turn, Completed()))

    async with stage(plugin=Meddles()) as s:
        s.agent.send("go")
        await bounded(s.agent.when_idle())
        assert (await bounded(s.agent.run("again"))).is_success
        s.agents.clear()  # the plugin unbalanced the log, the loop did not


async def test_a_cancelled_turn_task_is_an_error_not_the_end_of_the_agent() -> None:
    class Cancels:
        left = 1

        @hookimpl
        async def agent_step_start(self) -> None:
            if self.left:
                self.left -= 1
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)

    async with stage(plugin=Cancels()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert (await bounded(s.agent.run("again"))).is_success


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


# ---------------------------------------------------------------------------------- continuation


def deciding(decide: Callable[[bool, int], Any]) -> object:
    class Decides:
        defaults: list[bool] = []  # noqa: RUF012

        @hookimpl
        async def agent_turn_continuation(self, default: bool) -> Any:
            self.defaults.append(default)
            return decide(default, len(self.defaults))

    Decides.defaults = []
    return Decides()


async def test_by_default_a_turn_goes_on_while_tools_run() -> None:
    decides: Any = deciding(lambda default, count: None)
    async with stage(calls(("nothing", "{}")), "done", plugin=decides, tools=(nothing,)) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        assert decides.defaults == [True, False]


async def test_a_plugin_makes_a_turn_go_on_or_end() -> None:
    on: Any = deciding(lambda default, count: count < 3)
    async with stage(plugin=on) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        assert len(s.model.requests) == 3
    async with stage(calls(("nothing", "{}")), plugin=deciding(lambda d, c: False)) as s:
        result = await bounded(s.agent.run("go"))
        assert (result.reason, len(s.model.requests)) == (Completed(), 1)


async def test_a_reason_ends_the_turn_in_spite_of_steering() -> None:
    reason = LimitReached("cost", "spent")
    gate = Gate()
    async with stage(paused(gate), plugin=deciding(lambda default, count: reason)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.steer("more")
        gate.open()
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, reason)]
        assert "more" in lines(s.agent.session.messages())[-1]


async def test_steering_that_comes_while_a_reason_is_found_is_a_turn_of_its_own() -> None:
    reason = LimitReached("cost", "spent")

    class Ends:
        left = 1

        @hookimpl
        async def agent_turn_continuation(self, agent: Agent) -> Any:
            if not self.left:
                return None
            self.left -= 1
            agent.steer("more")
            return reason

    async with stage(plugin=Ends()) as s:
        result = await bounded(s.agent.run("go"))

        assert [end.reason for end in s.logged(TurnEnd)] == [reason, Completed()]
        assert result.reason == Completed()


async def test_steering_counts_for_more_than_a_plugin_that_wants_to_end() -> None:
    gate = Gate()
    async with stage(paused(gate), plugin=deciding(lambda d, c: False)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.steer("more")
        gate.open()
        await bounded(s.agent.when_idle())

        assert len(s.model.requests) == 2
        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]


async def test_steering_while_the_plugins_decide_is_not_overheard() -> None:
    class Steers:
        left = 1

        @hookimpl
        async def agent_turn_continuation(self, agent: Agent) -> bool:
            if self.left:
                self.left -= 1
                agent.steer("wait")
            return False

    async with stage(plugin=Steers()) as s:
        result = await bounded(s.agent.run("go"))

        assert (len(s.model.requests), result.turns) == (2, (1,))


@pytest.mark.parametrize("junk", ["yes", 1, Errored("half \ud800"), LimitReached("a", None)])
async def test_a_decision_that_is_none_is_an_error(junk: Any) -> None:
    async with stage(plugin=deciding(lambda d, c: junk if c == 1 else None)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert len(s.logged(ErrorEvent)) == 1
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"max_steps": 3}, "max_steps"),
        ({"max_tokens": 25}, "max_tokens"),
        ({"max_repeats": 3}, "max_repeats"),
    ],
)
async def test_a_budget_ends_the_turn_between_steps(settings: Any, limit: str) -> None:
    reply = [*calls(("nothing", "{}"))[:-1], *says("", usage=Usage(10), finish="tool-calls")]
    model = [reply] * 10
    async with stage(*model, tools=(nothing,), settings={"limits": settings}) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, LimitReached)
        assert result.reason.limit == limit
        assert len(s.model.requests) == 3
        if limit == "max_steps":
            assert any("last step" in str(c.content) for c in s.logged(ContextMessage))
        assert (await bounded(s.agent.run("again"))).reason.type == "limit"


async def test_the_clock_ends_a_turn_in_mid_stream() -> None:
    gate = Gate()
    settings = {"limits": {"max_seconds": 0.05}}
    async with stage(paused(gate, before="half"), settings=settings) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, LimitReached)
        assert result.reason.limit == "max_seconds"
        assert s.logged(AssistantMessage)[0].interrupted


# -------------------------------------------------------------------------------- agent_step_result


async def test_what_a_plugin_makes_of_the_reply_is_logged_and_run() -> None:
    class Rewrites:
        @hookimpl
        async def agent_step_result(
            self, message: Message, *, call_next: Callable[[], Awaitable[Message]]
        ) -> Message:
            message = await call_next()
            if "secret" not in message.text:
                return message
            call = ToolCall("c", "nothing", "{}")
            return Message("assistant", (Text("redacted"), call), model=message.model)

    async with stage(says("the secret"), "ok", plugin=Rewrites(), tools=(nothing,)) as s:
        await bounded(s.agent.run("go"))

        assert s.logged(AssistantMessage)[0].content[0] == Text("redacted")
        assert [call.name for call in s.logged(ToolCallEvent)] == ["nothing"]
        assert "secret" not in str(s.agent.session.messages())


@pytest.mark.parametrize("content", [("text",), "text", None, (Text("\ud800"),)])
async def test_a_rewritten_reply_that_cannot_be_logged_is_an_error(content: Any) -> None:
    class Breaks:
        left = 1

        @hookimpl
        async def agent_step_result(self, message: Message) -> Message | None:
            if not self.left:
                return None
            self.left -= 1
            return Message("assistant", content)

    async with stage(plugin=Breaks()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert (await bounded(s.agent.run("again"))).is_success


# ----------------------------------------------------------------------------- interrupted replies


async def interrupted(s: Stage, gate: Gate) -> list[AssistantMessage]:
    s.agent.send("go")
    await gate.reached()
    s.agent.abort("enough")
    await bounded(s.agent.when_idle())
    assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]
    return s.logged(AssistantMessage)


async def test_what_was_said_before_an_abort_is_kept() -> None:
    gate = Gate()

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        yield ReasoningDelta(0, "hm")
        yield TextDelta(1, "half of it \ud83d")
        yield ToolCallDelta(2, "c", "nothing", "{}")
        await gate.wait()

    async with stage(stream, tools=(nothing,)) as s:
        (kept,) = await interrupted(s, gate)

        assert kept.content == (Reasoning("hm"), Text("half of it \ufffd"))
        assert (kept.interrupted, kept.finish, kept.model) == (True, "aborted", "m/model")
        assert s.logged(ToolCallEvent) == []
        await bounded(s.agent.run("again"))
        assert "half of it" in lines(s.model.requests[1].messages)[1]


@pytest.mark.parametrize("chunks", [[], [TextDelta(0, " \n")], [ToolCallDelta(0, "c", "x", "{}")]])
async def test_of_an_abort_before_anything_was_said_nothing_is_kept(chunks: Any) -> None:
    gate = Gate()

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        for chunk in chunks:
            yield chunk
        await gate.wait()

    async with stage(stream) as s:
        assert await interrupted(s, gate) == []


async def test_plugins_review_what_is_kept_of_an_interrupted_reply() -> None:
    class Redacts:
        @hookimpl
        async def agent_step_result(self, message: Message) -> Message:
            call = ToolCall("c", "nothing", "{}")
            return Message("assistant", (Text(message.text.replace("secret", "…")), call))

    gate = Gate()
    async with stage(paused(gate, before="the secret"), plugin=Redacts()) as s:
        (kept,) = await interrupted(s, gate)

        assert kept.content == (Text("the …"),)
        assert s.types()[-3:] == ["assistant/message", "step/end", "turn/end"]


@pytest.mark.parametrize("fault", ["raises", "hangs"])
async def test_what_no_plugin_could_review_is_not_kept(fault: str) -> None:
    class Fails:
        @hookimpl
        async def agent_step_result(self) -> Message | None:
            if fault == "raises":
                raise ValueError("no review")
            await asyncio.Event().wait()
            return None

    gate = Gate()
    async with stage(paused(gate, before="the secret"), plugin=Fails()) as s:
        assert await interrupted(s, gate) == []
        assert len(s.errors) == 1
        assert s.logged(ErrorEvent) == []


async def test_a_reply_that_is_whole_but_not_yet_reviewed_is_kept_as_interrupted() -> None:
    gate = Gate()

    class Slow:
        left = 1

        @hookimpl
        async def agent_step_result(self) -> None:
            if self.left:
                self.left -= 1
                await gate.wait()

    async with stage(says("all of it"), plugin=Slow()) as s:
        (kept,) = await interrupted(s, gate)

        assert (kept.content, kept.interrupted) == ((Text("all of it"),), True)


async def test_an_interrupted_reply_that_is_refused_does_not_hide_the_abort() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == "assistant/message":
                raise ValueError("no")

    gate = Gate()
    async with stage(paused(gate, before="half"), plugin=Refuses()) as s:
        assert await interrupted(s, gate) == []
        assert s.logged(ErrorEvent) == []


# --------------------------------------------------------------------------- abort and its limits


@pytest.mark.parametrize(
    "hook",
    [
        "agent_turn_start",
        "agent_step_start",
        "agent_request",
        "agent_step_result",
        "agent_step_end",
        "agent_turn_continuation",
        "tools_authorize",
        "tools_result",
        "tools_execute",
        "system_prompt_sections",
        "system_prompt_assemble",
    ],
)
async def test_a_hook_that_swallows_its_cancellation_does_not_swallow_the_abort(hook: str) -> None:
    gate = Gate()

    async def swallows(self: object) -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            return

    plugin = type("Swallows", (), {hook: hookimpl(swallows)})()
    async with stage(calls(("nothing", "{}")), "never", plugin=plugin, tools=(nothing,)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]
        assert len(s.model.requests) <= 1
        gate.open()
        assert (await bounded(s.agent.run("again"))).is_success


async def test_what_a_plugin_raises_because_of_an_abort_is_reported_and_no_error() -> None:
    gate = Gate()

    class Cleans:
        @hookimpl
        async def agent_step_start(self) -> None:
            try:
                await gate.wait()
            finally:
                raise ValueError("the cleanup failed")

    async with stage(plugin=Cleans()) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("enough"))]
        assert s.logged(ErrorEvent) == []
        assert "the cleanup failed" in s.reports()[0]


async def test_the_first_reason_counts() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort("first")
        s.agent.abort("second")
        s.agent.abort(LimitReached("a", "b"))
        await bounded(s.agent.dispose())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("first"))]


async def test_an_idle_agent_is_not_aborted() -> None:
    async with stage() as s:
        s.agent.abort()
        s.agent.send("queued messages stay")
        s.agent.abort()

        await bounded(s.agent.when_idle())
        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]


@pytest.mark.parametrize(
    "hook", ["agent_status", "session_event", "agent_stream_chunk", "agent_steering"]
)
async def test_a_sync_hook_may_abort_the_turn_it_is_called_in(hook: str) -> None:
    class Aborts:
        left = 1

        def now(self, agent: Agent) -> None:
            if self.left and agent.session.open_step:
                self.left -= 1
                agent.abort("from a hook")

    aborts = Aborts()
    if hook == "session_event":

        def function(self: object, session: Any) -> None:
            aborts.now(s.agent)

    else:

        def function(self: object, agent: Agent) -> None:
            aborts.now(agent)

    plugin = type("Plugin", (), {hook: hookimpl(function)})()
    async with stage(calls(("steers", "{}")), "never", plugin=plugin, tools=(steers,)) as s:
        await bounded(s.agent.run("go"))

        if hook == "agent_status":
            assert aborts.left  # no step is open when the status changes
        else:
            assert s.logged(TurnEnd)[0] == TurnEnd(1, Aborted("from a hook"))


async def test_a_model_that_never_waits_is_stopped_between_two_chunks() -> None:
    class Stops:
        @hookimpl
        def agent_stream_chunk(self, agent: Agent, chunk: Chunk) -> None:
            agent.abort("enough")

    async with stage([TextDelta(0, "x")] * 1_000, plugin=Stops()) as s:
        await bounded(s.agent.run("go"))

        assert len(s.logged(AssistantChunk)) == 1


async def test_a_step_end_hook_that_hangs_does_not_hold_up_an_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dsh_core.loop.turn.STEP_END_SECONDS", 0.05)
    gate = Gate()

    class Hangs:
        @hookimpl
        async def agent_step_end(self) -> None:
            await asyncio.Event().wait()

    async with stage(paused(gate), plugin=Hangs()) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort()
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted())]
        assert "took more than 0.05 s" in s.reports()[0]


async def test_a_program_that_ends_closes_the_turn() -> None:
    gate = Gate()
    logs: list[Any] = []

    async def program() -> None:
        async with stage(paused(gate, before="half")) as s:
            logs.append(s.agent.session)
            s.agent.send("go")
            await gate.reached()
            for task in asyncio.all_tasks():
                if (task.get_name() or "").startswith("dsh-"):
                    task.cancel()
            while s.agent.session.open_turn:
                await asyncio.sleep(0)

    await bounded(program())
    assert logs[0].events[-1].data == TurnEnd(1, Aborted("cancelled"))
