"""How a turn goes on or ends: decisions, rewritten and interrupted replies, aborts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from loop_stage import (
    Gate,
    Stage,
    bounded,
    calls,
    lines,
    nothing,
    paused,
    says,
    stage,
)

from dsh_core import (
    Agent,
    Chunk,
    Event,
    Message,
    Request,
    ToolContext,
    hookimpl,
    tool,
)
from dsh_core.chunks import ReasoningDelta, TextDelta, ToolCallDelta, Usage
from dsh_core.content import Reasoning, Text, ToolCall
from dsh_core.events import (
    Aborted,
    AssistantChunk,
    AssistantMessage,
    Completed,
    ContextMessage,
    Errored,
    ErrorEvent,
    LimitReached,
    ToolCallEvent,
    TurnEnd,
)


@tool
def steers(ctx: ToolContext) -> str:
    """Steer the agent that calls."""
    ctx.agent.steer("hurry")
    return "steered"


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
