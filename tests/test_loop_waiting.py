"""Waiting for an agent: until it is idle, for a result, event by event; never for oneself."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from loop_stage import (
    Gate,
    Notes,
    Stage,
    bounded,
    calls,
    gated_tool,
    nothing,
    paused,
    says,
    stage,
)

from dsh_core import (
    Agent,
    AgentError,
    Event,
    ToolContext,
    hookimpl,
    tool,
)
from dsh_core.chunks import Usage
from dsh_core.content import Text
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    ContextMessage,
    TurnEnd,
    TurnStart,
    UserMessage,
)

# ------------------------------------------------------------------------------------- when_idle


async def test_an_idle_agent_is_idle_at_once() -> None:
    async with stage() as s:
        await bounded(s.agent.when_idle())


async def test_idle_means_that_nothing_more_is_queued() -> None:
    class Feeds:
        left = 3

        @hookimpl
        async def agent_turn_end(self, agent: Agent) -> None:
            if self.left:
                self.left -= 1
                agent.send("more")

    async with stage(plugin=Feeds()) as s:
        s.agent.send("go")
        await bounded(asyncio.gather(*(s.agent.when_idle() for _ in range(3))))

        assert len(s.logged(TurnEnd)) == 4


async def test_who_waits_does_not_wake_between_two_activities() -> None:
    """The one that was told first sends again; the second must go on waiting."""
    async with stage() as s:
        agent, seen = s.agent, []

        async def first() -> None:
            await agent.when_idle()
            agent.send("again")

        async def second() -> None:
            await agent.when_idle()
            seen.append(len(s.logged(TurnEnd)))

        agent.send("go")
        await bounded(asyncio.gather(first(), second()))

        assert seen == [2]


async def test_an_idle_agent_may_be_given_work_by_a_plugin() -> None:
    class Feeds:
        left = 1

        @hookimpl
        def agent_status(self, agent: Agent, status: str) -> None:
            if status == "idle" and self.left:
                self.left -= 1
                agent.send("more")

    async with stage(plugin=Feeds()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.turns == (1, 2)


# --------------------------------------------------------------------------- from inside a turn

WAITS: dict[str, Callable[[Agent], Awaitable[Any]]] = {
    "when_idle": lambda agent: agent.when_idle(),
    "run": lambda agent: agent.run("inside"),
    "stream": lambda agent: anext(aiter(agent.stream("inside"))),
    "dispose": lambda agent: agent.dispose(),
}
PLACES = [
    "agent_turn_start",
    "agent_step_start",
    "agent_step_end",
    "agent_turn_end",
    "session_flush",
]


@pytest.mark.parametrize("what", WAITS)
@pytest.mark.parametrize("place", [*PLACES, "tool", "sync tool", "task", "exclusive"])
async def test_waiting_for_the_turn_one_is_in_raises(place: str, what: str) -> None:
    caught: list[AgentError] = []
    agents: list[Agent] = []

    async def wait() -> None:
        try:
            await WAITS[what](agents[0])
        except AgentError as error:
            caught.append(error)

    async def hook(self: Any) -> None:
        await wait()

    @tool
    async def waits() -> str:
        """Wait for the own turn."""
        await (asyncio.create_task(wait()) if place == "task" else wait())
        return "ok"

    @tool(name="waits")
    def blocks() -> str:
        """Ask from a thread, where the context of the turn holds too."""
        asyncio.run_coroutine_threadsafe(wait(), loop).result()
        return "ok"

    loop = asyncio.get_running_loop()
    plugin = type("Waits", (), {place: hookimpl(hook)} if place in PLACES else {})()
    body = blocks if place == "sync tool" else waits
    async with stage(calls(("waits", "{}")), plugin=plugin, tools=(body,)) as s:
        agents.append(s.agent)
        if place == "exclusive":
            async with s.agent.exclusive("x"):
                await bounded(wait())
        else:
            result = await bounded(s.agent.run("go"))
            assert result.is_success
        assert caught
        assert "would wait for the turn it is awaited in" in str(caught[0])
        assert s.agent.status == "idle"


async def test_waiting_for_another_agent_is_fine() -> None:
    async with stage() as s:
        child, answers = s.create(), []

        @tool
        async def delegate() -> str:
            """Let the other agent do it."""
            await child.when_idle()
            answers.append(await child.run("do it"))
            inner = s.create()
            answers.append(await inner.run("you too"))
            await inner.dispose()
            return answers[0].text

        s.harness.tools.register(delegate, owner="test")
        s.model.replies = [calls(("delegate", "{}")), "from the child", "from the inner one"]
        result = await bounded(s.create().run("go"))

        assert result.is_success
        assert [answer.text for answer in answers] == ["from the child", "from the inner one"]


async def test_an_agent_made_inside_a_turn_may_not_wait_for_it() -> None:
    caught: list[BaseException] = []
    async with stage() as s:
        parent = s.create()

        @tool
        async def delegate() -> str:
            """Make an agent whose tool waits for its maker."""
            await s.create().run("wait for your parent")
            return "ok"

        @tool
        async def wait() -> str:
            """Wait for the parent."""
            try:
                await parent.when_idle()
            except AgentError as error:
                caught.append(error)
            return "ok"

        for one in (delegate, wait):
            s.harness.tools.register(one, owner="test")
        s.model.replies = [calls(("delegate", "{}")), calls(("wait", "{}")), "ok", "ok"]
        assert (await bounded(parent.run("go"))).is_success

    assert len(caught) == 1


async def test_a_task_that_outlives_the_turn_may_wait_for_the_agent() -> None:
    tasks: list[asyncio.Task[None]] = []
    gate = Gate()

    @tool
    async def leaves(ctx: ToolContext) -> str:
        """Leave a task behind."""

        async def later() -> None:
            await gate.wait()
            await ctx.agent.when_idle()
            await ctx.agent.run("again")

        tasks.append(asyncio.create_task(later()))
        return "left"

    async with stage(calls(("leaves", "{}")), tools=(leaves,)) as s:
        await bounded(s.agent.run("go"))
        gate.open()
        await bounded(tasks[0])

        assert len(s.logged(TurnEnd)) == 2


# --------------------------------------------------------------------------------------- run


async def test_a_result_says_what_came_of_the_message() -> None:
    script = [
        [*calls(("nothing", "{}"))[:-1], *says("", usage=Usage(1, 2), finish="tool-calls")],
        says("the answer", usage=Usage(10, 20)),
    ]
    async with stage(*script, tools=(nothing,)) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.text, result.turns) == ("the answer", (1,))
        assert result.usage == Usage(11, 22)
        assert (result.reason, result.is_success) == (Completed(), True)


async def test_a_result_lasts_until_the_whole_agent_is_idle() -> None:
    gate = Gate()
    async with stage("zero", paused(gate), says("second")) as s:
        await s.agent.run("before")
        running = asyncio.ensure_future(s.agent.run("first"))
        await gate.reached()
        s.agent.send("second")
        s.agent.inject("in between")
        gate.open()
        result = await bounded(running)

        assert (result.text, result.turns) == ("second", (2, 3))


async def test_one_shot_turns_are_no_part_of_a_result() -> None:
    class Injects:
        @hookimpl
        async def agent_turn_end(self, agent: Agent) -> None:
            agent.inject("a turn that completes")
            agent.session.record(ContextMessage((Text("another"),)))

    async with stage(ValueError("the model broke"), plugin=Injects()) as s:
        result = await bounded(s.agent.run("go"))

        assert (result.reason.type, result.turns, result.text) == ("error", (1,), "")
        assert [start.trigger.type for start in s.logged(TurnStart)] == [
            "message",
            "injection",
            "record",
        ]


async def test_a_replacement_in_the_history_is_no_answer() -> None:
    class Compacts:
        @hookimpl
        async def agent_step_end(self, agent: Agent) -> None:
            seqs = [seq for seq, _ in agent.session.message_sources()]
            summary = AssistantMessage(1, 1, (Text("summary"),), replaces=(seqs[0], seqs[-1]))
            agent.session.append(summary)

    async with stage("the answer", plugin=Compacts()) as s:
        assert (await bounded(s.agent.run("go"))).text == "the answer"
        assert s.agent.session.messages()[0].text == "summary"


class RefusesTurns:
    """A plugin that lets no turn start while it is closed."""

    is_closed = True

    @hookimpl
    def session_validate(self, event: Event) -> None:
        if event.type == "turn/start" and self.is_closed:
            raise ValueError("closed")


async def test_a_message_whose_turn_cannot_start_is_parked_until_the_next_one() -> None:
    refuses, notes = RefusesTurns(), Notes()
    async with stage(plugin=refuses, plugins={"notes": notes}) as s:
        s.agent.send("first")
        await bounded(s.agent.when_idle())
        assert (s.agent.session.events, s.agent.status) == ([], "idle")
        assert (notes.turns, notes.flushed) == ([], 0)
        assert "plugin 'it' in session_validate: ValueError: closed" in s.reports()[0]

        refuses.is_closed = False
        s.agent.send("second")
        await bounded(s.agent.when_idle())

        assert [m.content[0].text for m in s.logged(UserMessage)] == ["first", "second"]


async def test_a_run_whose_turn_cannot_start_raises_and_takes_its_message_back() -> None:
    refuses = RefusesTurns()
    async with stage(plugin=refuses) as s:
        with pytest.raises(AgentError, match="no turn could start for the message"):
            await bounded(s.agent.run("first"))

        refuses.is_closed = False
        await bounded(s.agent.run("second"))
        assert [m.content[0].text for m in s.logged(UserMessage)] == ["second"]


async def test_of_several_messages_only_the_refused_one_is_lost() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if getattr(event.data, "content", None) == (Text("bad"),):
                raise ValueError("bad")

    async with stage(plugin=Refuses()) as s:
        for text in ("one", "bad", "three"):
            s.agent.send(text)
        await bounded(s.agent.when_idle())

        assert [m.content[0].text for m in s.logged(UserMessage)] == ["one", "three"]
        assert [end.reason.type for end in s.logged(TurnEnd)] == ["error", "completed"]
        with pytest.raises(AgentError, match="was not taken by a turn"):
            await bounded(s.agent.run("bad"))


async def test_a_cancelled_run_whose_message_waits_takes_it_back() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("first")
        await gate.reached()
        running = asyncio.ensure_future(s.agent.run("second"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bounded(running)
        gate.open()
        await bounded(s.agent.when_idle())

        assert [m.content[0].text for m in s.logged(UserMessage)] == ["first"]
        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]


async def test_a_cancelled_run_leaves_an_idle_agent_that_is_free_at_once() -> None:
    async with stage() as s:
        async with s.agent.exclusive("x"):
            running = asyncio.create_task(s.agent.run("never"), context=contextvars.Context())
            await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await bounded(running)
        async with s.agent.exclusive("y"):
            pass
        await bounded(s.agent.when_idle())

        assert s.logged(UserMessage) == []


async def cancel_run(s: Stage, gate: Gate) -> None:
    running = asyncio.ensure_future(s.agent.run("go"))
    await gate.reached()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bounded(running)
    assert s.agent.session.open_turn is None
    assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("the caller was cancelled"))]
    gate.open()
    assert (await bounded(s.agent.run("again"))).is_success


async def test_a_run_cancelled_in_mid_stream_aborts_its_turn() -> None:
    gate = Gate()
    async with stage(paused(gate, before="half")) as s:
        await cancel_run(s, gate)


async def test_a_run_cancelled_during_a_tool_aborts_its_turn() -> None:
    gate = Gate()
    async with stage(calls(("wait", "{}")), tools=(gated_tool(gate),)) as s:
        await cancel_run(s, gate)


async def test_a_run_cancelled_during_an_approval_aborts_its_turn() -> None:
    from dsh_core import Approval, Verdict

    gate = Gate()

    class Asks:
        @hookimpl
        async def tools_authorize(self) -> Verdict:
            return Verdict("ask", "may it?")

        @hookimpl
        async def approval_request(self) -> Approval:
            await gate.wait()
            return Approval(True)

    async with stage(calls(("nothing", "{}")), plugin=Asks(), tools=(nothing,)) as s:
        await cancel_run(s, gate)
        decided = [e.to_json()["data"] for e in s.agent.session.events if "decided" in e.type]
        assert decided[0]["allowed"] is False


async def test_a_cancelled_run_leaves_the_turns_of_others_alone() -> None:
    gate = Gate()
    async with stage("first", paused(gate)) as s:
        running = asyncio.ensure_future(s.agent.run("mine"))
        await asyncio.sleep(0)
        agent = s.agent
        while not s.logged(TurnStart):
            await asyncio.sleep(0)
        agent.send("of somebody else")
        await gate.reached()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bounded(running)
        gate.open()
        await bounded(agent.when_idle())

        assert [end.reason for end in s.logged(TurnEnd)] == [Completed(), Completed()]


# ------------------------------------------------------------------------------------- stream


async def test_a_stream_yields_every_event_until_idle() -> None:
    async with stage(calls(("nothing", "{}")), "done", tools=(nothing,)) as s:
        events = [event async for event in s.agent.stream("go")]

        assert events == list(s.agent.session.events)
        assert events[-1].type == "turn/end"


async def test_leaving_a_stream_aborts_the_turn() -> None:
    gate = Gate()
    async with stage(paused(gate, before="half")) as s:
        stream = s.agent.stream("go")
        async for event in stream:
            if event.type == "assistant/chunk":
                break
        await stream.aclose()

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("the caller was cancelled"))]
        assert (await bounded(s.agent.run("again"))).is_success


async def test_a_stream_of_a_disposed_agent_ends() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        agent, seen = s.agent, []

        async def read() -> None:
            async for event in agent.stream("go"):
                seen.append(event.type)

        reading = asyncio.ensure_future(read())
        await gate.reached()
        await bounded(agent.dispose())
        await bounded(reading)

        assert seen[-1] == "turn/end"
