"""The handle of an agent: what goes in, waiting for it, and taking it down."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from loop_stage import Gate, Stage, bounded, calls, lines, paused, says, stage
from memory_store import MemoryStore
from waterfalls import unplaced

from dsh_core import (
    Agent,
    AgentDisposedError,
    AgentError,
    Event,
    Session,
    SessionHeader,
    ToolContext,
    hookimpl,
    tool,
)
from dsh_core.chunks import TextDelta, Usage
from dsh_core.content import Text
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    ContextMessage,
    Disposed,
    Errored,
    ErrorEvent,
    InjectionTrigger,
    MaintenanceTrigger,
    MessageTrigger,
    RecordTrigger,
    SteeringMessage,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.messages import AgentSource, PluginSource, UserSource


class Notes:
    """A plugin that notes the hooks of an agent's life."""

    def __init__(self) -> None:
        self.status: list[str] = []
        self.queued: list[tuple[str, Any, bool]] = []
        self.turns: list[str] = []
        self.flushed = 0

    @hookimpl
    def agent_status(self, status: str) -> None:
        self.status.append(status)

    @hookimpl
    def agent_queued(self, content: Any, source: Any, steering: bool) -> None:
        self.queued.append((content[0].text, source, steering))

    @hookimpl
    async def agent_turn_start(self, turn: int) -> None:
        self.turns.append(f"start {turn}")

    @hookimpl
    async def agent_turn_end(self, turn: int, reason: Any) -> None:
        self.turns.append(f"end {turn} {reason.type}")

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        self.flushed += 1


@tool
def nothing() -> str:
    """Do nothing."""
    return "done"


def gated_tool(gate: Gate) -> Any:
    @tool
    async def wait() -> str:
        """Wait at the gate."""
        await gate.wait()
        return "waited"

    return wait


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


# ---------------------------------------------------------------------------------- exclusive


async def test_an_idle_agent_can_be_held_for_maintenance() -> None:
    notes = Notes()
    async with stage(plugin=notes) as s:
        async with s.agent.exclusive("compaction"):
            s.agent.session.append(ContextMessage((Text("inside"),)))
            s.agent.inject("inside too")
            s.agent.send("waits")
            await asyncio.sleep(0)
            assert s.agent.status == "idle"
            assert s.model.requests == []
        await bounded(s.agent.when_idle())

        assert s.types()[:5] == [
            "turn/start",
            "context/message",
            "context/message",
            "turn/end",
            "turn/start",
        ]
        assert s.logged(TurnStart)[0] == TurnStart(1, MaintenanceTrigger("compaction"))
        assert len(s.model.requests) == 1
    assert notes.turns == ["start 2", "end 2 completed"]
    assert notes.flushed == 2


async def test_maintenance_may_have_a_trigger_of_its_own() -> None:
    async with stage() as s:
        async with s.agent.exclusive(RecordTrigger("tests/note")):
            pass

        assert s.logged(TurnStart) == [TurnStart(1, RecordTrigger("tests/note"))]


async def test_a_busy_agent_cannot_be_held() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        for _ in range(2):  # queued, then running
            with pytest.raises(AgentError, match="is busy"):
                async with s.agent.exclusive("x"):
                    raise AssertionError("unreachable")
            await gate.reached()
        gate.open()
        await bounded(s.agent.when_idle())
        async with s.agent.exclusive("x"):
            with pytest.raises(AgentError, match="is busy"):
                async with s.agent.exclusive("y"):
                    raise AssertionError("unreachable")
        assert s.errors == []


async def test_what_fails_in_maintenance_is_its_reason_and_frees_the_agent() -> None:
    async with stage() as s:
        with pytest.raises(ValueError, match="broke"):  # noqa: PT012
            async with s.agent.exclusive("x"):
                s.agent.send("waits")
                raise ValueError("broke")
        await bounded(s.agent.when_idle())

        assert [end.reason.type for end in s.logged(TurnEnd)] == ["error", "completed"]


async def test_cancelled_maintenance_frees_the_agent() -> None:
    gate = Gate()
    async with stage() as s:

        async def maintain() -> None:
            async with s.agent.exclusive("x"):
                await gate.wait()

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        waiting = asyncio.ensure_future(s.agent.when_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        maintaining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await maintaining
        await bounded(waiting)

        assert s.logged(TurnEnd) == [TurnEnd(1, Aborted("cancelled"))]


# ------------------------------------------------------------------------------------ dispose


@pytest.mark.parametrize("how", ["send", "steer", "inject", "run", "stream", "abort", "exclusive"])
async def test_a_disposed_agent_takes_nothing_more(how: str) -> None:
    async with stage() as s:
        agent = s.agent
        await agent.run("hi")
        before = list(agent.session.events)
        await agent.dispose()

        with pytest.raises(AgentDisposedError, match="is disposed"):  # noqa: PT012
            made = getattr(agent, how)("x")
            if how == "run":
                await made
            elif how == "stream":
                await anext(made)
            elif how == "exclusive":
                await made.__aenter__()
        assert list(agent.session.events) == before
        assert agent.status == "disposed"
        await bounded(agent.when_idle())
        await bounded(agent.dispose())


async def test_dispose_in_mid_stream_ends_the_turn_as_disposed() -> None:
    gate, notes = Gate(), Notes()
    async with stage(paused(gate, before="half"), plugin=notes) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        agent.send("never taken")
        await bounded(agent.dispose())

        assert s.logged(TurnEnd) == [TurnEnd(1, Disposed())]
        assert s.logged(AssistantMessage)[0].interrupted
    assert notes.status == ["running", "disposed"]
    assert notes.turns == ["start 1", "end 1 disposed"]
    assert notes.flushed == 1


async def test_dispose_during_a_tool_gives_its_call_a_result() -> None:
    gate = Gate()
    async with stage(calls(("wait", "{}")), tools=(gated_tool(gate),)) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        await bounded(agent.dispose())

        assert s.types()[-3:] == ["tool/result", "step/end", "turn/end"]


async def test_dispose_waits_for_the_flush_of_the_turn() -> None:
    gate = Gate()

    class Flushes:
        is_done = False

        @hookimpl
        async def session_flush(self) -> None:
            await gate.wait()
            self.is_done = True

    flushes = Flushes()
    async with stage(plugin=flushes) as s:
        agent = s.agent
        agent.send("go")
        await gate.reached()
        disposing = [asyncio.ensure_future(agent.dispose()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in disposing)
        gate.open()
        await bounded(asyncio.gather(*disposing))

        assert flushes.is_done


async def test_several_owners_share_one_teardown() -> None:
    gate = Gate()

    class Ends:
        count = 0

        @hookimpl
        async def agent_turn_end(self) -> None:
            await gate.wait()

        @hookimpl
        def agent_disposed(self) -> None:
            self.count += 1

    ends = Ends()
    async with stage(plugin=ends) as s:
        agent = s.agent
        agent.send("go")
        owners = [asyncio.ensure_future(agent.dispose()) for _ in range(3)]
        waiting = asyncio.ensure_future(agent.when_idle())
        await asyncio.sleep(0)
        owners[0].cancel()  # one owner gives up; the others still get the whole teardown
        gate.open()
        results = await bounded(asyncio.gather(*owners, return_exceptions=True))
        await bounded(waiting)

        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == [None, None]
        assert (ends.count, agent.status) == (1, "disposed")


async def test_a_run_on_an_agent_that_is_disposed_ends() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        agent = s.agent
        first = asyncio.ensure_future(agent.run("first"))
        await gate.reached()
        second = asyncio.ensure_future(agent.run("second"))
        await asyncio.sleep(0)
        await bounded(agent.dispose())

        assert (await bounded(first)).reason == Disposed()
        with pytest.raises(AgentDisposedError, match="before the message's turn"):
            await bounded(second)


async def test_dispose_waits_for_maintenance() -> None:
    gate = Gate()
    async with stage() as s:
        agent = s.agent

        async def maintain() -> None:
            async with agent.exclusive("x"):
                await gate.wait()

        maintaining = asyncio.ensure_future(maintain())
        await gate.reached()
        disposing = asyncio.ensure_future(agent.dispose())
        for _ in range(20):
            await asyncio.sleep(0)
        assert agent.status == "idle"
        gate.open()
        await bounded(asyncio.gather(disposing, maintaining))

        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]


async def test_a_lock_that_cannot_be_released_keeps_nobody_from_disposing() -> None:
    store = MemoryStore()
    await store.append(SessionHeader("old", 0.0), [])

    class Stuck:
        async def release(self) -> None:
            raise OSError("stuck")

    async def lock(session_id: str) -> Stuck:
        return Stuck()

    store.lock = lock
    async with stage(plugins={"store": store}) as s:
        agent = await s.harness.agents.resume("old")
        await bounded(agent.dispose())

        assert s.harness.agents.list() == []
        assert s.reports() == ["stuck"]


async def test_the_harness_disposes_its_agents_when_it_stops() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        agent = s.agent

    assert agent.status == "disposed"


# -------------------------------------------------------------------------------------- flush


async def test_each_turn_is_flushed_once_whatever_its_end() -> None:
    gate, notes = Gate(), Notes()
    async with stage("ok", ValueError("broke"), paused(gate), plugin=notes) as s:
        await s.agent.run("completes")
        await s.agent.run("fails")
        s.agent.send("is aborted")
        await gate.reached()
        s.agent.abort()
        await bounded(s.agent.when_idle())
        assert notes.flushed == 3
        s.agent.inject("one-shot")
        await s.harness.sessions.settle()
        assert notes.flushed == 4


async def test_a_flush_or_a_turn_end_that_fails_is_reported_and_not_logged() -> None:
    class Breaks:
        @hookimpl
        async def session_flush(self) -> None:
            raise OSError("the disk is full")

        @hookimpl
        async def agent_turn_end(self) -> None:
            raise ValueError("no end")

    async with stage(plugin=Breaks()) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert s.logged(ErrorEvent) == []
        assert unplaced(s.reports()) == [
            "plugin 'it' in agent_turn_end: ValueError: no end",
            "plugin 'it' in session_flush: OSError: the disk is full",
        ]
        assert (await bounded(s.agent.run("again"))).is_success


async def test_other_agents_are_not_disturbed_by_one() -> None:
    gate = Gate()
    async with stage() as s:
        first, second = s.create(), s.create()
        s.model.replies = [paused(gate)]
        first.send("go")
        await gate.reached()

        result = await bounded(second.run("go", source=AgentSource("first")))

        assert result.is_success
        assert first.status == "running"
        gate.open()
        await bounded(first.when_idle())
