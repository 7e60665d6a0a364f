"""A turn ends once, for one reason, with a balanced log, whatever a plugin throws into it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import (
    MODES,
    bounded,
    calls,
    nothing,
    raising,
    says,
    stage,
)
from waterfalls import unplaced

from dsh_core import (
    Agent,
    Event,
    OnError,
    ToolContext,
    UserError,
    hookimpl,
    tool,
)
from dsh_core.chunks import Usage
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    Completed,
    Errored,
    ErrorEvent,
    StepEnd,
    ToolResultEvent,
    TurnEnd,
)


@tool
def steers(ctx: ToolContext) -> str:
    """Steer the agent that calls."""
    ctx.agent.steer("hurry")
    return "steered"


# ------------------------------------------------------------------- what a raising plugin causes

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
