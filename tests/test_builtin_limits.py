"""Budgets per turn: what ends it, and what the model is told beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from offline import calling, offline, request_text

from dsh_core import ToolOutput, hookimpl, tool
from dsh_core.builtin.limits import METER, Limits, _canonical
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.content import text_of
from dsh_core.errors import ConfigError
from dsh_core.events import ContextMessage, LimitReached, ToolResultEvent
from dsh_core.harness import Harness
from dsh_core.plugins.info import PluginInfo


def limited(**settings: Any) -> HarnessConfig:
    return HarnessConfig(autoload=False, plugins={"limits": (Layer("dsh.yaml", settings),)})


@tool
async def look(at: int = 0) -> str:
    """Look at something.

    Args:
        at: What.
    """
    return "nothing"


def looking(*at: int) -> list[dict[str, Any]]:
    return [calling("look", at=each) for each in at]


LAST = "This is the last step of the turn"


async def test_the_last_step_is_announced_and_the_turn_ends_after_it() -> None:
    config = limited(max_steps=3)
    async with offline(*looking(1, 2, 3, 4), tools=(look,), config=config) as stage:
        result = await stage.agent.run("go")
        assert result.reason == LimitReached("max_steps", "the turn took 3 steps")
        told = [request for request in stage.requests if LAST in request_text(request)]
        assert told == stage.requests[2:] == [stage.requests[-1]]
        assert len(stage.requests) == 3


async def test_a_single_step_is_announced_when_the_turn_starts() -> None:
    async with offline(*looking(1, 2), tools=(look,), config=limited(max_steps=1)) as stage:
        result = await stage.agent.run("go")
        assert isinstance(result.reason, LimitReached)
        (request,) = stage.requests
        assert LAST in request_text(request)


async def test_an_answer_in_the_last_step_is_a_completed_turn() -> None:
    async with offline(*looking(1), "done", tools=(look,), config=limited(max_steps=2)) as stage:
        result = await stage.agent.run("go")
        assert (result.reason.type, result.text) == ("completed", "done")


async def test_every_turn_has_budgets_of_its_own() -> None:
    replies = [*looking(1), "one", *looking(1), "two"]
    async with offline(*replies, tools=(look,), config=limited(max_steps=2)) as stage:
        assert (await stage.agent.run("go")).text == "one"
        assert (await stage.agent.run("go")).text == "two"


async def test_steps_that_steering_forces_count_too() -> None:
    class Steers:
        @hookimpl(wrapper=True, tryfirst=True)
        def agent_turn_continuation(self, agent: Any) -> Any:
            decision = yield
            if len(stage.requests) < 3:
                agent.steer("and another thing")
            return decision

    config = limited(max_steps=3)
    async with offline("a", "b", *looking(1), "d", tools=(look,), config=config) as stage:
        await stage.harness.plugins.register(Steers(), "steers")
        result = await stage.agent.run("go")
        assert result.reason == LimitReached("max_steps", "the turn took 3 steps")


async def test_a_reason_of_another_plugin_stands() -> None:
    class Ends:
        @hookimpl
        async def agent_turn_continuation(self) -> LimitReached:
            return LimitReached("cost", "spent")

    config = limited(max_steps=1)
    async with offline(*looking(1), tools=(look,), plugin=Ends(), config=config) as stage:
        assert (await stage.agent.run("go")).reason == LimitReached("cost", "spent")


async def test_tokens_of_all_requests_count() -> None:
    config = limited(max_tokens=30)
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 5}
    replies = [{**reply, "usage": usage} for reply in looking(1, 2, 3)]
    async with offline(*replies, tools=(look,), config=config) as stage:
        result = await stage.agent.run("go")
        assert result.reason == LimitReached("max_tokens", "the turn took 40 tokens")
        assert len(stage.requests) == 2


async def test_the_clock_interrupts_what_runs() -> None:
    started = asyncio.Event()

    @tool
    async def forever() -> str:
        """Never end."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    config = limited(max_seconds=0.05)
    async with offline(calling("forever"), tools=(forever,), config=config) as stage:
        result = await stage.agent.run("go")
        assert result.reason == LimitReached("max_seconds", "the turn took 0.05 s")
        assert started.is_set()


async def test_the_clock_stops_with_the_turn() -> None:
    async with offline("quick", "quick", config=limited(max_seconds=60)) as stage:
        timers = []

        class Watches:
            @hookimpl(trylast=True)
            async def agent_turn_start(self, agent: Any) -> None:
                timers.append(agent.stash[METER].timer)

        await stage.harness.plugins.register(Watches(), "watches")
        await stage.agent.run("go")
        assert [timer.cancelled() for timer in timers] == [True]
        assert METER not in stage.agent.stash


async def test_the_clock_of_an_agent_that_is_being_disposed_rings_in_vain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = asyncio.Event()
    started = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore being cancelled."""
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    config = limited(max_seconds=0.05)
    async with offline(calling("stubborn"), tools=(stubborn,), config=config) as stage:
        stage.agent.send("go")
        await started.wait()
        meter = stage.agent.stash[METER]
        disposing = asyncio.create_task(stage.agent.dispose())
        has_rung = asyncio.Event()
        asyncio.get_running_loop().call_at(meter.timer.when() + 0.01, has_rung.set)
        await has_rung.wait()
        release.set()
        await disposing
    assert "Exception in callback" not in caplog.text


# ------------------------------------------------------------------------------- repetition


async def test_repeating_a_call_is_warned_about_and_then_ends_the_turn() -> None:
    config = limited(max_repeats=4)
    async with offline(*looking(7, 7, 7, 7, 7), tools=(look,), config=config) as stage:
        result = await stage.agent.run("go")
        assert result.reason == LimitReached(
            "max_repeats", "the same tool call came 4 times in a row"
        )
        (warning,) = stage.logged(ContextMessage)
        assert "same tool call 2 times in a row" in text_of(warning.content)


async def test_other_calls_between_begin_the_count_anew() -> None:
    config = limited(max_repeats=3)
    replies = [*looking(7, 7, 8, 7, 7), "done"]
    async with offline(*replies, tools=(look,), config=config) as stage:
        assert (await stage.agent.run("go")).text == "done"


def test_reordered_arguments_are_the_same_call() -> None:
    assert _canonical('{"a": 1, "b": [2]}') == _canonical('{"b":[2],"a":1}')
    assert _canonical("") == _canonical("{}")
    assert _canonical("{broken") == "{broken"


# ------------------------------------------------------------------------------------ tools


async def test_a_tool_without_a_timeout_is_stopped_and_waited_for() -> None:
    ended = []

    @tool
    async def slow() -> str:
        """Take for ever, and a moment to end."""
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)
        return "never"

    config = limited(tool_seconds=0.05)
    async with offline(calling("slow"), "done", tools=(slow,), config=config) as stage:
        assert (await stage.agent.run("go")).text == "done"
        (result,) = stage.logged(ToolResultEvent)
        assert (result.is_error, result.code) == (True, "TOOL_TIMEOUT")
        assert "slow took more than 0.05 s" in text_of(result.content)
        assert ended == [True]


async def test_a_tool_that_bounds_itself_is_left_alone() -> None:
    seen: list[Callable[..., Any]] = []

    @tool(timeout_seconds=60)
    async def bounded() -> str:
        """Check in which task it runs."""
        return "fine"

    class Watches:
        @hookimpl(trylast=True)
        async def tools_execute(self, *, call_next: Any) -> ToolOutput:
            seen.append(call_next)
            result: ToolOutput = await call_next()
            return result

    config = limited(tool_seconds=0.000001)
    replies = [calling("bounded"), "done"]
    async with offline(*replies, tools=(bounded,), plugin=Watches(), config=config) as stage:
        await stage.agent.run("go")
        (result,) = stage.logged(ToolResultEvent)
        assert not result.is_error
        assert len(seen) == 1


# --------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", Limits.Settings.__dataclass_fields__)
def test_a_budget_is_positive_or_none(name: str) -> None:
    Limits.Settings(**{name: None})
    with pytest.raises(ConfigError, match=f"{name} must be positive, or null for no limit"):
        Harness(limited(**{name: 0})).plugins.load()


def test_an_agent_can_have_budgets_of_its_own() -> None:
    harness = Harness(limited(max_steps=5))
    harness.plugins.load()
    (info,) = [info for info in harness.plugins.infos() if info.name == "limits"]
    assert isinstance(info, PluginInfo)
    assert info.settings.max_steps == 5


async def test_a_tool_that_ignores_its_time_limit_is_abandoned_and_the_turn_goes_on() -> None:
    release = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Go on whatever happens."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    config = limited(tool_seconds=0.01)
    async with offline(calling("stubborn"), "done", tools=(stubborn,), config=config) as stage:
        stage.agent.grace_seconds = 0.01
        result = await stage.agent.run("go")
        release.set()

    assert result.text == "done"
    (answer,) = stage.logged(ToolResultEvent)
    assert answer.code == "TOOL_TIMEOUT"
