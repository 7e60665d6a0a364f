"""The live agents of a harness, and the seam through which a loop creates them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dsh_core import hookspecs
from dsh_core.agents.handle import Agent, AgentOptions
from dsh_core.errors import AgentError, UserError
from dsh_core.events import Event
from dsh_core.hooks import Hooks
from dsh_core.session import Session, SessionLock

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
        self._factory: AgentFactory | None = None
        self._factory_owner = ""

    def register(self, agent: Agent) -> Callable[[], None]:
        """Record a constructed agent; returns a disposer of exactly this registration.

        Raises `AgentError` when a live agent has the id.
        """
        if agent.id in self._live:
            raise AgentError(f"agent {agent.id!r} is live already")
        self._live[agent.id] = agent

        def dispose() -> None:
            if self._live.get(agent.id) is agent:
                del self._live[agent.id]

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
                f"{self._factory_owner or 'somebody'!r} creates the agents already; "
                "switch that plugin off first"
            )
        self._factory, self._factory_owner = factory, owner

        def dispose() -> None:
            if self._factory is factory:
                self._factory = None

        return dispose

    def remove_owner(self, owner: str) -> None:
        """Empty the factory slot if `owner` filled it."""
        if self._factory is not None and self._factory_owner == owner:
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

        Raises `UserError` for an unknown definition, model or tool; what `agent_created`
        raises rolls everything back.

        """
        found = self._harness.definition(definition)
        hooks = self._harness.plugins.hooks_for(found)
        folder = Path(cwd or self._harness.cwd).absolute()
        session = self._harness.sessions.create(
            session_id, seed=seed, cwd=folder, agent=found.name, hooks=hooks
        )
        return self._enter(found, session, hooks, folder, lock=None)

    async def resume(
        self, session_id: str, *, definition: str | AgentDefinition | None = None
    ) -> Agent:
        """Load a stored session and create an agent on it.

        Raises `UserError` when nobody stores sessions, there is no such session, it is damaged,
        or another process has it.
        """
        store = self._harness.store
        if store is None:
            raise UserError(
                f"session {session_id!r} cannot be resumed: nothing stores sessions here",
                remedy="pip install dsh-persistence",
            )
        lock = await store.lock(session_id)
        try:
            stored = await store.load(session_id)
            found = self._harness.definition(definition or stored.header.agent)
            hooks = self._harness.plugins.hooks_for(found)
            folder = Path(stored.header.cwd or self._harness.cwd)
            session = self._harness.sessions.create(
                session_id, seed=stored.events, hooks=hooks, header=stored.header
            )
            return self._enter(found, session, hooks, folder, lock=lock)
        except BaseException:
            await lock.release()
            raise

    def _enter(
        self,
        definition: AgentDefinition,
        session: Session,
        hooks: Hooks,
        cwd: Path,
        *,
        lock: SessionLock | None,
    ) -> Agent:
        """Construct → register → `agent_created` → start, or leave no trace."""
        leave: Callable[[], None] | None = None
        try:
            factory = self._factory
            if factory is None:
                raise AgentError("no plugin creates agents: `agent_loop` is off")
            self._harness.tools.check_names(hooks, definition.tools, definition.where)
            agent = factory.build(
                self._harness,
                session,
                name=definition.name,
                options=self._harness.options_of(definition),
                hooks=hooks,
                cwd=cwd,
                lock=lock,
            )
            leave = self.register(agent)
            self._harness.sessions.announce(session)
            hooks.emit(hookspecs.agent_created, agent=agent)
            agent.start()
        except BaseException:
            if leave is not None:
                leave()
            self._harness.sessions.forget(session)
            raise
        return agent
