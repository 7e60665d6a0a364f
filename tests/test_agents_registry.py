"""Agents are created by one factory, all or nothing, and found until they are disposed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from loop_stage import bounded, lines, stage
from memory_store import MemoryStore

from dsh_core import (
    Agent,
    AgentDefinition,
    AgentError,
    ConfigError,
    Event,
    Harness,
    HarnessConfig,
    Layer,
    PluginError,
    Session,
    SessionError,
    SessionHeader,
    UserError,
    hookimpl,
)
from dsh_core.content import Text
from dsh_core.events import (
    Interrupted,
    MessageTrigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)

OPEN_TURN = [
    Event(0, 0.0, TurnStart(1, MessageTrigger())),
    Event(1, 0.0, UserMessage((Text("first"),))),
]


async def test_a_live_agent_is_found_by_its_session_id() -> None:
    async with stage() as s:
        first, second = s.create(), s.create(name="other")

        assert s.harness.agents.get(first.id) is first
        assert s.harness.agents.list() == [first, second]
        assert s.harness.sessions.get(first.id) is first.session
        assert (first.id, second.name) == (first.session.id, "other")

        await first.dispose()
        assert s.harness.agents.list() == [second]
        assert s.harness.agents.get(first.id) is None
        assert s.harness.sessions.get(first.id) is None


async def test_an_id_is_free_again_after_dispose() -> None:
    async with stage() as s:
        first = s.harness.agents.create(session_id="a")
        await first.dispose()
        second = s.harness.agents.create(session_id="a")

        await first.dispose()

        assert s.harness.agents.get("a") is second


async def test_a_live_duplicate_is_refused_and_the_first_one_lives_on() -> None:
    async with stage() as s:
        first = s.harness.agents.create(AgentDefinition(model="m/x"), session_id="a")

        with pytest.raises(SessionError, match="'a' is live already"):
            s.harness.agents.create(session_id="a")
        with pytest.raises(AgentError, match="'a' is live already"):
            s.harness.agents.register(first)
        with pytest.raises(AgentError, match="'a' is live already"):
            await s.harness.agents.resume("a")

        assert (await first.run("hi")).text == "done"


async def test_a_registration_is_disposed_exactly() -> None:
    async with stage() as s:
        agents = s.harness.agents
        first = s.create()
        agents.remove(first)
        dispose = agents.register(first)
        dispose()
        assert agents.list() == []
        dispose_again = agents.register(first)

        dispose()
        assert agents.list() == [first]
        dispose_again()
        assert agents.list() == []
        agents.register(first)


# ----------------------------------------------------------------------------------- factories


async def test_a_second_factory_is_refused_naming_the_first() -> None:
    async with stage() as s:
        with pytest.raises(AgentError, match="'agent_loop' creates the agents already"):
            s.harness.agents.set_factory(Any, owner="other")


async def test_without_a_factory_nothing_is_created_and_nothing_left_behind() -> None:
    store = MemoryStore()
    await store.append(SessionHeader("old", 0.0), [])
    off = HarnessConfig(autoload=False, plugins={"agent_loop": (Layer("test", False),)})
    async with Harness(off, plugins={"store": store}) as harness:
        with pytest.raises(AgentError, match="`agent_loop` is off"):
            harness.agents.create()
        with pytest.raises(AgentError, match="`agent_loop` is off"):
            await harness.agents.resume("old")

        assert (harness.sessions.list(), store.locked) == ([], set())


async def test_the_slot_is_free_again_when_its_owner_goes() -> None:
    class Factory:
        def build(self, *args: Any, **kwargs: Any) -> Any:
            raise ValueError("no agents today")

    async with stage() as s:
        agents = s.harness.agents
        await s.harness.plugins.unregister("agent_loop")
        factory = Factory()
        dispose = agents.set_factory(factory)
        dispose()
        again = agents.set_factory(factory)
        dispose()

        with pytest.raises(ValueError, match="no agents today"):
            agents.create()
        assert s.harness.sessions.list() == []
        again()
        with pytest.raises(AgentError, match="no plugin creates agents"):
            agents.create()


# ------------------------------------------------------------------------------------ creating


class Sees:
    """A plugin that notes what happens to agents, and refuses where it is told to."""

    def __init__(self, refuses: str = ""):
        self.refuses = refuses
        self.seen: list[str] = []

    def _note(self, what: str) -> None:
        self.seen.append(what)
        if what == self.refuses:
            raise ValueError("refused")

    @hookimpl
    def session_created(self, session: Session) -> None:
        self._note("session_created")

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        assert agent.harness.agents.get(agent.id) is agent
        self._note("agent_created")

    @hookimpl
    def agent_status(self, status: str) -> None:
        self._note(status)

    @hookimpl
    def agent_disposed(self) -> None:
        self._note("agent_disposed")


async def test_creating_announces_session_and_agent_before_it_starts() -> None:
    sees = Sees()
    async with stage(plugin=sees) as s:
        await s.agent.run("hi")

    assert sees.seen == [
        "session_created",
        "agent_created",
        "running",
        "idle",
        "disposed",
        "agent_disposed",
    ]


async def test_a_refused_agent_leaves_no_trace() -> None:
    sees, other = Sees("agent_created"), Sees()
    async with stage(plugin=sees, plugins={"other": other}) as s:
        with pytest.raises(PluginError, match=r"plugin 'it' in agent_created: .*refused"):
            s.harness.agents.create(session_id="a")
        await asyncio.sleep(0)

        assert (s.harness.agents.list(), s.harness.sessions.list()) == ([], [])
        assert other.seen == ["session_created", "agent_created"]
        sees.refuses = ""
        assert s.harness.agents.create(session_id="a").id == "a"


async def test_a_plugin_may_send_to_an_agent_that_is_not_started_yet() -> None:
    class Greets:
        @hookimpl
        def agent_created(self, agent: Agent) -> None:
            agent.send("from the plugin")
            agent.inject("context")

    async with stage(plugin=Greets()) as s:
        await bounded(s.agent.when_idle())

        shown = lines(s.model.requests[0].messages)
        assert "from the plugin" in shown[1]
        assert "context" in shown[0]


async def test_creating_needs_an_event_loop_and_says_so_before_anything_happens() -> None:
    sees = Sees()
    async with stage(plugin=sees) as s:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await asyncio.to_thread(s.harness.agents.create)

        assert (sees.seen, s.harness.sessions.list()) == ([], [])


@pytest.mark.parametrize(
    ("definition", "error", "why"),
    [
        ("nobody", ConfigError, "there is no agent 'nobody'"),
        (AgentDefinition(tools=("reed",)), ConfigError, "there is no tool 'reed'"),
    ],
)
async def test_a_definition_that_cannot_be_used_leaves_no_session(
    definition: Any, error: type[Exception], why: str
) -> None:
    sees = Sees()
    async with stage(plugin=sees) as s:
        with pytest.raises(error, match=why):
            s.harness.agents.create(definition)

        assert (s.harness.sessions.list(), sees.seen) == ([], [])


async def test_an_agent_has_what_it_was_created_with(tmp_path: Path) -> None:
    async with stage(cwd=tmp_path) as s:
        definition = AgentDefinition("coder", model="m/x", parameters={"temperature": 0})
        first = s.harness.agents.create(definition)
        second = s.harness.agents.create(cwd="/")

        assert (first.name, first.cwd, first.options.model) == ("coder", tmp_path, "m/x")
        assert first.options.parameters == {"temperature": 0}
        assert (first.status, second.cwd) == ("idle", Path("/"))
        assert first.session.hooks is first.hooks
        assert "coder" in repr(first)


async def test_an_agent_starts_with_its_seed() -> None:
    async with stage() as s:
        agent = s.harness.agents.create(AgentDefinition(model="m/x"), seed=OPEN_TURN)
        s.agents.append(agent)

        assert agent.session.events[-1].data == TurnEnd(1, Interrupted())
        result = await agent.run("second")

        assert result.turns == (2,)
        assert lines(s.model.requests[0].messages) == ["user: first", "user: second"]


async def test_agents_that_start_by_themselves_do_and_one_that_cannot_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = HarnessConfig(
        autoload=False,
        agents={
            "bad": AgentDefinition("bad", tools=("none",), autostart=True),
            "good": AgentDefinition("good", autostart=True),
            "asleep": AgentDefinition("asleep"),
        },
    )
    async with stage(config=config) as s:
        assert [agent.name for agent in s.harness.agents.list()] == ["good"]
        assert "agent 'bad' did not start" in caplog.text


# ------------------------------------------------------------------------------------ resuming


async def stored(session_id: str = "old", **header: Any) -> MemoryStore:
    store = MemoryStore()
    await store.append(SessionHeader(session_id, 1.0, **header), OPEN_TURN)
    return store


async def test_a_stored_session_is_resumed_where_it_stopped() -> None:
    store = await stored(cwd="/", agent=None)
    sees = Sees()
    async with stage(plugin=sees, plugins={"store": store}) as s:
        agent = await s.harness.agents.resume("old", definition=AgentDefinition(model="m/x"))
        s.agents.append(agent)

        assert (agent.id, agent.cwd, store.locked) == ("old", Path("/"), {"old"})
        assert agent.session.events[-1].data == TurnEnd(1, Interrupted())
        assert agent.session.header is store.headers["old"]
        result = await agent.run("go on")
        assert result.turns == (2,)
        assert lines(s.model.requests[0].messages) == ["user: first", "user: go on"]
        await agent.dispose()
        assert store.locked == set()
    assert sees.seen[:2] == ["session_created", "agent_created"]


async def test_the_definition_is_the_one_the_session_was_made_with() -> None:
    store = await stored(agent="coder")
    config = HarnessConfig(
        autoload=False, agents={name: AgentDefinition(name) for name in ("first", "coder")}
    )
    async with stage(plugins={"store": store}, config=config) as s:
        assert (await s.harness.agents.resume("old")).name == "coder"


async def test_nobody_resumes_what_nobody_stores() -> None:
    async with stage() as s:
        with pytest.raises(UserError, match="nothing stores sessions here") as refused:
            await s.harness.agents.resume("old")
        assert "pip install dsh-persistence" in str(refused.value)


@pytest.mark.parametrize("fault", ["missing", "definition", "tool", "refused", "damaged"])
async def test_a_resume_that_fails_gives_the_lock_back_and_leaves_no_trace(fault: str) -> None:
    store = await stored(agent="gone" if fault == "definition" else None)
    if fault == "damaged":
        store.events["old"][0] = Event(0, 0.0, UserMessage((Text("outside"),)))
    wanted = AgentDefinition(tools=("none",)) if fault == "tool" else None
    sees = Sees("agent_created" if fault == "refused" else "")
    async with stage(plugin=sees, plugins={"store": store}) as s:
        with pytest.raises((UserError, PluginError, SessionError)):
            await s.harness.agents.resume(
                "none" if fault == "missing" else "old", definition=wanted
            )

        assert store.locked == set()
        assert (s.harness.agents.list(), s.harness.sessions.list()) == ([], [])


async def test_a_session_another_process_has_is_not_resumed() -> None:
    store = await stored()
    store.locked.add("old")
    async with stage(plugins={"store": store}) as s:
        with pytest.raises(UserError, match="in use by process 1"):
            await s.harness.agents.resume("old")

    assert store.locked == {"old"}


async def test_an_agent_is_created_on_a_live_fork() -> None:
    sees = Sees()
    async with stage("one", "two", plugin=sees) as s:
        await s.agent.run("first")
        fork = await s.harness.sessions.fork(s.agent.id)
        sees.seen.clear()

        agent = await s.harness.agents.resume(fork.id, definition=AgentDefinition(model="m/x"))
        s.agents.append(agent)
        await agent.run("second")

        assert agent.session is fork
        assert sees.seen[0] == "agent_created"
        assert lines(s.model.requests[1].messages) == [
            "user: first",
            "assistant: one",
            "user: second",
        ]
        assert len(s.agent.session.messages()) == 2


async def test_a_fork_whose_agent_is_refused_stays_a_session() -> None:
    sees = Sees()
    async with stage(plugin=sees) as s:
        fork = await s.harness.sessions.fork(s.agent.id)
        hooks = fork.hooks
        sees.refuses = "agent_created"

        with pytest.raises(PluginError):
            await s.harness.agents.resume(fork.id)

        assert s.harness.sessions.get(fork.id) is fork
        assert fork.hooks is hooks
