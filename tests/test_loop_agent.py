"""What goes into an agent: messages, steering, context; and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import (
    Gate,
    Notes,
    bounded,
    calls,
    gated_tool,
    lines,
    nothing,
    paused,
    says,
    stage,
)

from dsh_core import (
    Agent,
    hookimpl,
)
from dsh_core.chunks import TextDelta, Usage
from dsh_core.content import Text
from dsh_core.events import (
    Aborted,
    Completed,
    Errored,
    InjectionTrigger,
    MessageTrigger,
    SteeringMessage,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.messages import PluginSource, UserSource

# --------------------------------------------------------------------------------- send, steer


async def test_a_message_starts_a_turn() -> None:
    notes = Notes()
    async with stage(says("hello there", usage=Usage(3, 4)), plugin=notes) as s:
        receipt = s.agent.send("hi", source=PluginSource("p"))
        assert s.agent.status == "idle"
        await bounded(s.agent.when_idle())

        (message,) = s.logged(UserMessage)
        assert (message.message_id, message.source) == (receipt.message_id, PluginSource("p"))
        assert s.logged(TurnStart) == [TurnStart(1, MessageTrigger(PluginSource("p")))]
        assert s.types() == [
            "turn/start",
            "user/message",
            "step/start",
            "request/header",
            "assistant/message",
            "usage",
            "step/end",
            "turn/end",
        ]
    assert notes.status == ["running", "idle", "disposed"]
    assert notes.turns == ["start 1", "end 1 completed"]
    assert notes.queued == [("hi", PluginSource("p"), False)]


async def test_messages_that_wait_together_share_a_turn_in_their_order() -> None:
    async with stage() as s:
        for text in "abc":
            s.agent.send(text)
        await bounded(s.agent.when_idle())

        assert [m.content[0].text for m in s.logged(UserMessage)] == ["a", "b", "c"]
        assert len(s.model.requests) == 1


async def test_a_message_to_a_running_agent_waits_for_the_next_turn() -> None:
    gate, notes = Gate(), Notes()
    async with stage(paused(gate), plugin=notes) as s:
        s.agent.send("first")
        await gate.reached()
        s.agent.send("second")
        gate.open()
        await bounded(s.agent.when_idle())

        assert [turn.turn for turn in s.logged(TurnEnd)] == [1, 2]
        assert lines(s.model.requests[1].messages)[-1] == "user: second"
    assert notes.status == ["running", "idle", "disposed"]


async def test_steering_joins_the_turn_behind_the_tool_results() -> None:
    gate, notes = Gate(), Notes()
    script = calls(("wait", "{}"), ("nothing", "{}"))
    async with stage(script, tools=(gated_tool(gate), nothing), plugin=notes) as s:
        s.agent.send("go")
        await gate.reached()
        receipt = s.agent.steer("hurry")
        gate.open()
        await bounded(s.agent.when_idle())

        assert s.types()[5:13] == [
            "tool/call",
            "tool/result",
            "tool/call",
            "tool/result",
            "steering/message",
            "step/end",
            "step/start",
            "assistant/message",
        ]
        shown = lines(s.model.requests[1].messages)
        assert shown[-3:-1] == ["user: waited", "user: done"]
        assert "hurry" in shown[-1]
        assert s.logged(SteeringMessage)[0].message_id == receipt.message_id
        assert len(s.logged(TurnEnd)) == 1
    assert notes.queued[-1] == ("hurry", UserSource(), True)


async def test_steering_keeps_a_turn_going_that_would_have_ended() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.steer("and then?")
        gate.open()
        await bounded(s.agent.when_idle())

        assert len(s.model.requests) == 2
        assert len(s.logged(TurnEnd)) == 1


async def test_steering_an_idle_agent_starts_a_turn() -> None:
    notes = Notes()
    async with stage(plugin=notes) as s:
        s.agent.steer("go")
        await bounded(s.agent.when_idle())

        assert (len(s.logged(UserMessage)), len(s.logged(SteeringMessage))) == (1, 0)
    assert notes.queued == [("go", UserSource(), False)]


@pytest.mark.parametrize("ending", ["abort", "failure", "hook"])
async def test_steering_that_finds_no_step_is_a_turn_of_its_own(ending: str) -> None:
    gate = Gate()

    class Breaks:
        @hookimpl
        def agent_steering(self) -> None:
            if ending == "hook":
                raise ValueError("no steering")

    async def fails(request: Any) -> Any:
        yield TextDelta(0, "a")
        await gate.wait()
        if ending == "failure":
            raise ValueError("the model broke")
        yield TextDelta(0, "b")

    async with stage(fails, plugin=Breaks()) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.steer("one")
        s.agent.send("two")
        s.agent.steer("three")
        if ending == "abort":
            s.agent.abort()
        gate.open()
        await bounded(s.agent.when_idle())

        sent = [m.content[0].text for m in s.logged(UserMessage)]
        joined = [m.content[0].text for m in s.logged(SteeringMessage)]
        assert joined == (["one"] if ending == "hook" else [])
        assert [*joined, *sent[1:]] == ["one", "two", "three"]
        assert [type(end.reason) for end in s.logged(TurnEnd)] == [
            Aborted if ending == "abort" else Errored,
            Completed,
        ]


async def test_steering_between_turn_end_and_idle_is_not_lost() -> None:
    class Steers:
        left = 1

        @hookimpl
        async def agent_turn_end(self, agent: Agent) -> None:
            if self.left:
                self.left -= 1
                agent.steer("one more thing")

    async with stage(plugin=Steers()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.turns == (1, 2)
        assert [m.content[0].text for m in s.logged(UserMessage)] == ["go", "one more thing"]


# ---------------------------------------------------------------------------------------- inject


async def test_context_for_an_idle_agent_is_a_one_shot_turn_without_the_model() -> None:
    notes = Notes()
    async with stage(plugin=notes) as s:
        s.agent.inject("the date", source=PluginSource("clock"))
        await asyncio.sleep(0)

        assert s.types() == ["turn/start", "context/message", "turn/end"]
        assert s.logged(TurnStart) == [TurnStart(1, InjectionTrigger(PluginSource("clock")))]
        assert s.agent.status == "idle"
        await s.harness.sessions.settle()
        assert (notes.flushed, notes.turns, s.model.requests) == (1, [], [])
        await s.agent.run("hi")
        assert "the date" in lines(s.model.requests[0].messages)[0]


async def test_context_during_a_turn_joins_it_and_stands_behind_the_results() -> None:
    gate = Gate()
    async with stage(calls(("wait", "{}")), tools=(gated_tool(gate),)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.inject("by the way")
        types = s.types()
        assert types[-2:] == ["tool/call", "context/message"]
        gate.open()
        await bounded(s.agent.when_idle())

        shown = lines(s.model.requests[1].messages)
        assert shown[-2] == "user: waited"
        assert "by the way" in shown[-1]
        assert len(s.logged(TurnStart)) == 1


async def test_context_right_after_a_message_does_not_take_the_number_of_its_turn() -> None:
    async with stage() as s:
        s.agent.send("hi")
        s.agent.inject("context")
        await bounded(s.agent.when_idle())
        s.agent.send("again")
        await asyncio.sleep(0)
        s.agent.inject("context")
        await bounded(s.agent.when_idle())

        assert [start.turn for start in s.logged(TurnStart)] == [1, 2, 3]


async def test_context_from_a_turn_end_hook_is_a_turn_of_its_own() -> None:
    class Adds:
        @hookimpl
        async def agent_turn_end(self, agent: Agent) -> None:
            agent.inject("afterwards")

    async with stage(plugin=Adds()) as s:
        result = await bounded(s.agent.run("go"))

        assert [start.turn for start in s.logged(TurnStart)] == [1, 2]
        assert result.turns == (1,)


# --------------------------------------------------------------------------------- bad input

BAD: list[tuple[Any, Any, type[Exception]]] = [
    ("", UserSource(), ValueError),
    (None, UserSource(), TypeError),
    ([3], UserSource(), TypeError),
    (Text(3), UserSource(), ValueError),
    ("ok", "user", TypeError),
    ("ok", PluginSource("\ud800"), ValueError),
    ("ok", PluginSource(5), ValueError),
]


@pytest.mark.parametrize(("content", "source", "error"), BAD)
@pytest.mark.parametrize("how", ["send", "steer", "inject", "run", "stream"])
async def test_input_that_cannot_be_logged_is_refused_before_anything_is(
    how: str, content: Any, source: Any, error: type[Exception]
) -> None:
    notes = Notes()
    async with stage(plugin=notes) as s:
        with pytest.raises(error):  # noqa: PT012
            made = getattr(s.agent, how)(content, source=source)
            if how == "run":
                await made
            elif how == "stream":
                await anext(made)

        assert (s.agent.session.events, notes.queued, s.agent.status) == ([], [], "idle")
        await bounded(s.agent.when_idle())
        assert (await s.agent.run("hi")).text == "done"


async def test_bad_input_does_not_disturb_a_running_turn() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        before = len(s.agent.session.events)
        for how in (s.agent.send, s.agent.steer, s.agent.inject):
            with pytest.raises(ValueError, match="empty"):
                how("")
        assert len(s.agent.session.events) == before
        gate.open()
        await bounded(s.agent.when_idle())

        assert len(s.logged(TurnEnd)) == 1


@pytest.mark.parametrize("reason", [5, "half \ud800", Errored(None), Aborted(["x"])], ids=repr)
async def test_a_reason_that_cannot_be_logged_aborts_nothing(reason: Any) -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        with pytest.raises(ValueError):  # noqa: PT011
            s.agent.abort(reason)
        gate.open()
        await bounded(s.agent.when_idle())

        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]


async def test_text_with_half_a_character_is_sent_with_a_whole_one() -> None:
    async with stage() as s:
        await s.agent.run("half \ud83d")

        assert s.logged(UserMessage)[0].content == (Text("half \ufffd"),)
