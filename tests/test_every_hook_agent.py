"""A plugin changes the outcome through each hook of an agent's life, its turns and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from offline import calling, offline, request_text

from dsh_core import Agent, PluginError, ToolContext, error_chain, hookimpl, text_of, tool
from dsh_core.events import Aborted, Errored, ErrorEvent, LimitReached, SteeringMessage, TurnEnd


@tool
def interrupt(ctx: ToolContext, text: str) -> str:
    """Steer the agent that calls."""
    ctx.agent.steer(text)
    return "steered"


async def test_hook_agent_created_refuses_an_agent() -> None:
    class Refuses:
        @hookimpl
        def agent_created(self, agent: Agent) -> None:
            raise ValueError("one agent is enough")

    async with offline(plugin=Refuses()) as stage:
        with pytest.raises(PluginError, match="one agent is enough"):
            stage.harness.agents.create(session_id="second")

        assert stage.harness.agents.list() == []
        assert stage.harness.sessions.get("second") is None


async def test_hook_agent_disposed_cleans_up_after_the_agent(tmp_path: Path) -> None:
    class Locks:
        @hookimpl
        def agent_created(self, agent: Agent) -> None:
            (tmp_path / agent.id).touch()

        @hookimpl
        def agent_disposed(self, agent: Agent) -> None:
            (tmp_path / agent.id).unlink()

    async with offline(plugin=Locks()) as stage:
        assert (tmp_path / stage.agent.id).exists()
        await stage.agent.dispose()

        assert not (tmp_path / stage.agent.id).exists()


async def test_hook_agent_status_gives_an_idle_agent_more_work() -> None:
    class Feeds:
        @hookimpl
        def agent_status(self, agent: Agent, status: str) -> None:
            if status == "idle" and agent.session.last_turn == 1:
                agent.send("And the tests?")

    async with offline("Written.", "Tested.", plugin=Feeds()) as stage:
        result = await stage.agent.run("Write it.")

    assert "And the tests?" in request_text(stage.requests[1])
    assert result.text == "Tested."


async def test_hook_agent_queued_adds_context_to_what_comes_in() -> None:
    class Dates:
        @hookimpl
        def agent_queued(self, agent: Agent, content: Any, steering: bool) -> None:
            agent.inject(f"{text_of(content)} came on a Monday, steering: {steering}.")

    async with offline("ok", plugin=Dates()) as stage:
        await stage.agent.run("Hello")

    assert "Hello came on a Monday, steering: False." in request_text(stage.requests[0])


async def test_hook_agent_turn_start_ends_a_turn_before_the_model_is_asked() -> None:
    class Locked:
        @hookimpl
        async def agent_turn_start(self, turn: int) -> None:
            raise BlockingIOError("another process has the session")

    async with offline("never", plugin=Locked()) as stage:
        result = await stage.agent.run("go")

    assert stage.requests == []
    assert isinstance(result.reason, Errored)
    assert "another process has the session" in result.reason.message


async def test_hook_agent_steering_stops_the_turn_it_joined() -> None:
    class Stops:
        @hookimpl
        def agent_steering(self, agent: Agent, content: Any) -> None:
            if text_of(content) == "stop":
                agent.abort("told to stop")

    script = [calling("interrupt", text="stop"), "never"]
    async with offline(*script, plugin=Stops(), tools=(interrupt,)) as stage:
        result = await stage.agent.run("go")

    assert len(stage.logged(SteeringMessage)) == 1
    assert len(stage.requests) == 1
    assert result.reason == Aborted("told to stop")


async def test_hook_agent_step_start_adds_to_the_request_of_its_step() -> None:
    class Counts:
        @hookimpl
        async def agent_step_start(self, agent: Agent, turn: int, step: int) -> None:
            agent.inject(f"This is step {turn}.{step}.")

    script = [calling("interrupt", text="go on"), "ok"]
    async with offline(*script, plugin=Counts(), tools=(interrupt,)) as stage:
        await stage.agent.run("go")

    assert "This is step 1.1." in request_text(stage.requests[0])
    assert "This is step 1.2." not in request_text(stage.requests[0])
    assert "This is step 1.2." in request_text(stage.requests[1])


async def test_hook_agent_step_end_makes_the_turn_go_on() -> None:
    class Reviews:
        @hookimpl
        async def agent_step_end(self, agent: Agent, step: int) -> None:
            if step == 1:
                agent.steer("Check it once more.")

    async with offline("Done.", "Checked.", plugin=Reviews()) as stage:
        result = await stage.agent.run("go")

    assert "Check it once more." in request_text(stage.requests[1])
    assert (result.text, result.turns) == ("Checked.", (1,))


async def test_hook_agent_turn_continuation_decides_about_another_step() -> None:
    defaults: list[bool] = []

    class ThreeSteps:
        @hookimpl
        async def agent_turn_continuation(self, default: bool) -> bool | LimitReached:
            defaults.append(default)
            return True if len(defaults) < 3 else LimitReached("patience", "enough")

    async with offline("one", "two", "three", "four", plugin=ThreeSteps()) as stage:
        result = await stage.agent.run("go")

    assert defaults == [False, False, False]
    assert len(stage.requests) == 3
    assert result.reason == LimitReached("patience", "enough")


async def test_hook_agent_turn_end_begins_the_next_turn() -> None:
    class Goal:
        @hookimpl
        async def agent_turn_end(self, agent: Agent, turn: int, reason: Any) -> None:
            if turn == 1:
                agent.send(f"It ended {reason.type}. Is the goal reached?")

    async with offline("Done.", "Yes.", plugin=Goal()) as stage:
        result = await stage.agent.run("go")

    assert "It ended completed. Is the goal reached?" in request_text(stage.requests[1])
    assert (result.text, result.turns) == ("Yes.", (1, 2))


async def test_hook_agent_error_answers_a_failure() -> None:
    class Recovers:
        @hookimpl
        def agent_error(self, agent: Agent, turn: int, step: int, error: BaseException) -> None:
            agent.send(f"Turn {turn}, step {step}: {error_chain(error)}")

    failing = {"fail": {"code": "AUTH", "message": "no such key"}}
    async with offline(failing, "I see.", plugin=Recovers()) as stage:
        result = await stage.agent.run("go")

    assert len(stage.logged(ErrorEvent)) == 1
    assert "Turn 1, step 1: " in request_text(stage.requests[1])
    assert "no such key" in request_text(stage.requests[1])
    assert result.text == "I see."
    assert [end.reason.type for end in stage.logged(TurnEnd)] == ["error", "completed"]
