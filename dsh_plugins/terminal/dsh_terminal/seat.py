"""Who one talks to: one agent at a time, which changes with `/agent`, `/model` and the like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dsh_core import Agent, AgentDefinition, Harness, UserError

Seated = Callable[[Agent], None]


class Seat:
    """Holds the agent, and puts another in its place.

    Every change wants an idle agent, and leaves the old one as it was where it fails.

    Args:
        harness: Makes agents.
        agent: The first one.
        seated: Told of each further one.
    """

    def __init__(self, harness: Harness, agent: Agent, seated: Seated):
        self.harness = harness
        self.agent = agent
        self._seated = seated

    async def begin(self) -> None:
        """Begin a new conversation with the same agent."""
        await self._until_idle()
        await self._replace(self.harness.agents.create(self._definition()))

    async def resume(self, session_id: str) -> None:
        """Go on with another session."""
        await self._until_idle()
        if session_id == self.agent.id:
            raise UserError(f"this is session {session_id!r}")
        await self._replace(await self.harness.agents.resume(session_id))

    async def fork(self, at_turn: int | None = None) -> None:
        """Go on from a turn, in a new session; the old one stays as it is."""
        await self._until_idle()
        child = await self.harness.sessions.fork(self.agent.id, at_turn=at_turn)
        await self._adopt(child.id, self._definition())

    async def change(self, *, agent: str | None = None, model: str | None = None) -> None:
        """Go on with the same conversation, by another agent or model.

        Raises `UserError` for one that does not exist.
        """
        await self._until_idle()
        definition = self.harness.definition(agent) if agent else self._definition()
        if model is not None:
            self._check_model(model)
            definition = replace(definition, model=model)
        if not self.agent.session.events:
            await self._replace(self.harness.agents.create(definition))
            return
        child = await self.harness.sessions.fork(self.agent.id)
        await self._adopt(child.id, definition)

    def models(self) -> list[str]:
        """Return the routes that are configured."""
        providers = self.harness.llm.providers
        return [f"{name}/{model}" for name, one in providers.items() for model in one.models]

    def _definition(self) -> AgentDefinition:
        found = self.harness.definition(self.agent.name)
        return replace(found, model=self.agent.options.model or found.model)

    async def _until_idle(self) -> None:
        if self.agent.session.open_turn is not None:
            raise UserError("the agent is at work", remedy="Wait, or stop it with Esc.")
        await self.agent.when_idle()  # the turn has ended, and is being written down

    def _check_model(self, model: str) -> None:
        provider, slash, name = model.partition("/")
        if not (slash and name) or provider not in self.harness.llm.providers:
            known = ", ".join(self.models()) or "none"
            raise UserError(
                f"there is no model {model!r}",
                remedy=f"Models: {known}; others are written PROVIDER/MODEL.",
            )

    async def _adopt(self, session_id: str, definition: AgentDefinition) -> None:
        try:
            agent = await self.harness.agents.resume(session_id, definition=definition)
        except BaseException:
            session = self.harness.sessions.get(session_id)
            if session is not None:
                self.harness.sessions.forget(session)
            raise
        await self._replace(agent)

    async def _replace(self, agent: Agent) -> None:
        before, self.agent = self.agent, agent
        self._seated(agent)
        await before.dispose()
