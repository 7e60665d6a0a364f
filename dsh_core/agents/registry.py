"""The live agents of a harness, and the seam through which a loop creates them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dsh_core import hookspecs
from dsh_core.agents.handle import Agent, AgentOptions
from dsh_core.errors import AgentError, UserError
from dsh_core.events import Event
from dsh_core.hooks import Hooks
from dsh_core.session import Session, SessionHeader, SessionLock

if TYPE_CHECKING:
    from dsh_core.config.model import AgentDefinition
    from dsh_core.harness import Harness


class StartableAgent(Agent, Protocol):
    """What a factory builds: an agent that does nothing until it is started."""

    def start(self) -> None:
        """Begin to take messages."""


class AgentFactory(Protocol):
    """Builds agents; the built-in plugin `agent_loop` brings the one of the core."""

    def build(
        self,
        harness: Harness,
        session: Session,
        *,
        name: str,
        options: AgentOptions,
        hooks: Hooks,
        cwd: Path,
        lock: SessionLock | None,
    ) -> StartableAgent:
        """Return an agent on the session; sync and without I/O."""


class Agents:
    """Registers, finds and creates agents."""

    def __init__(self, harness: Harness):
        self._harness = harness
        self._live: dict[str, Agent] = {}
        self._factory: tuple[str, AgentFactory] | None = None

    def register(self, agent: Agent) -> Callable[[], None]:
        """Record a constructed agent; returns a disposer of exactly this registration.

        Raises `AgentError` when a live agent has the id.
        """
        if agent.id in self._live:
            raise AgentError(f"agent {agent.id!r} is live already")
        self._live[agent.id] = agent
        undo = [self.remove]

        def dispose() -> None:
            while undo:
                undo.pop()(agent)

        return dispose

    def get(self, agent_id: str) -> Agent | None:
        """Return a live agent by session id."""
        return self._live.get(agent_id)

    def list(self) -> list[Agent]:
        """Return the live agents, oldest first."""
        return list(self._live.values())

    def remove(self, agent: Agent) -> None:
        """Take an agent out; a successor with the same id stays."""
        if self._live.get(agent.id) is agent:
            del self._live[agent.id]

    def set_factory(self, factory: AgentFactory, *, owner: str = "") -> Callable[[], None]:
        """Fill the one factory slot; returns a disposer. Raises `AgentError` when it is taken."""
        if self._factory is not None:
            raise AgentError(
                f"{self._factory[0] or 'somebody'!r} creates the agents already; "
                "switch that plugin off first"
            )
        entry = self._factory = (owner, factory)

        def dispose() -> None:
            if self._factory is entry:
                self._factory = None

        return dispose

    def remove_owner(self, owner: str) -> None:
        """Empty the factory slot if `owner` filled it."""
        if self._factory is not None and self._factory[0] == owner:
            self._factory = None

    def create(
        self,
        definition: str | AgentDefinition | None = None,
        *,
        session_id: str | None = None,
        cwd: Path | str | None = None,
        seed: Sequence[Event] = (),
    ) -> Agent:
        """Create and start an agent. Sync and without I/O; needs a running event loop.

        Args:
            definition: A name from the configuration, a definition, or None for the default one.
            session_id: The new session's id; None = a fresh one.
            cwd: Where its tools work; None = the harness's folder.
            seed: Events its session starts with.

        Raises `UserError` for an unknown definition or tool, `AgentError` without a factory; what
        `agent_created` raises rolls everything back.

        """
        asyncio.get_running_loop()
        factory = self._filled_slot()
        found = self._harness.definition(definition)
        hooks = self._harness.plugins.hooks_for(found)
        self._harness.check_tools(found, hooks)
        folder = Path(cwd or self._harness.cwd).absolute()
        session = self._harness.sessions.create(
            session_id,
            seed=seed,
            cwd=folder,
            agent=found.name,
            hooks=hooks,
            is_announced=False,
        )
        return self._enter(factory, found, session, folder)

    async def resume(
        self,
        session_id: str,
        *,
        definition: str | AgentDefinition | None = None,
        model: str | None = None,
    ) -> Agent:
        """Create an agent on a stored session, or on a live one without an agent, as a fork is.

        Args:
            session_id: Which session.
            definition: None = the one that the session was begun with.
            model: Replaces that of the definition.

        Raises `AgentError` when it has a live agent, `UserError` when there is no such session,
        nobody stores sessions, it is damaged, or another process has it.

        """
        factory = self._filled_slot()
        if session_id in self._live:
            raise AgentError(f"agent {session_id!r} is live already")
        live = self._harness.sessions.get(session_id)
        if live is not None:
            return self._adopt(factory, live, self._definition(definition, live.header, model))
        store = self._harness.store
        if store is None:
            raise UserError(
                f"session {session_id!r} cannot be resumed: nothing stores sessions here",
                remedy="pip install dsh-persistence",
            )
        lock = await store.lock(session_id)
        try:
            stored = await store.load(session_id)
            found = self._definition(definition, stored.header, model)
            hooks = self._harness.plugins.hooks_for(found)
            self._harness.check_tools(found, hooks)
            session = self._harness.sessions.create(
                session_id,
                seed=stored.events,
                hooks=hooks,
                header=stored.header,
                is_announced=False,
            )
            return self._enter(factory, found, session, self._folder_of(session), lock=lock)
        except BaseException:
            await lock.release()
            raise

    def _definition(
        self, wanted: str | AgentDefinition | None, header: SessionHeader, model: str | None
    ) -> AgentDefinition:
        found = self._harness.definition(wanted or header.agent)
        return replace(found, model=model) if model else found

    def _adopt(self, factory: AgentFactory, session: Session, found: AgentDefinition) -> Agent:
        """Create an agent on a session that is live already: it gets the agent's hooks."""
        before = session.hooks
        session.hooks = self._harness.plugins.hooks_for(found)
        try:
            self._harness.check_tools(found, session.hooks)
            return self._enter(factory, found, session, self._folder_of(session), is_new=False)
        except BaseException:
            session.hooks = before
            raise

    def _folder_of(self, session: Session) -> Path:
        return Path(session.header.cwd or self._harness.cwd)

    def _filled_slot(self) -> AgentFactory:
        if self._factory is None:
            if not self._harness.is_running:
                raise AgentError("the harness is not started: use `async with harness`")
            raise AgentError("no plugin creates agents: `agent_loop` is off")
        return self._factory[1]

    def _enter(
        self,
        factory: AgentFactory,
        definition: AgentDefinition,
        session: Session,
        cwd: Path,
        *,
        lock: SessionLock | None = None,
        is_new: bool = True,
    ) -> Agent:
        """Construct → register → `agent_created` → start, or leave no trace."""
        leave: Callable[[], None] | None = None
        try:
            agent = factory.build(
                self._harness,
                session,
                name=definition.name,
                options=self._harness.options_of(definition),
                hooks=session.hooks,
                cwd=cwd,
                lock=lock,
            )
            leave = self.register(agent)
            if is_new:
                self._harness.sessions.announce(session)
            session.hooks.emit(hookspecs.agent_created, agent=agent)
            agent.start()
        except BaseException:
            if leave is not None:
                leave()
            if is_new:
                self._harness.sessions.forget(session)
            raise
        return agent
