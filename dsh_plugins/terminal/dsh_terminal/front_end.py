"""The plugin that makes `dsh chat` a front end: hooks, each handed on to the chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core import (
    Agent,
    Approval,
    ApprovalRequest,
    Chunk,
    Event,
    Harness,
    Session,
    SlashCommand,
    hookimpl,
)

if TYPE_CHECKING:
    from dsh_terminal.chat import Chat


class ChatFrontEnd:
    """What the chat hears of the harness."""

    def __init__(self, chat: Chat):
        self._chat = chat

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Learn what must not be shown."""
        self._chat.paint.scrub = harness.secrets.scrub

    @hookimpl
    def commands_register(self) -> Sequence[SlashCommand]:
        """Offer the chat's own commands."""
        return self._chat.commands.all()

    @hookimpl
    def agent_stream_chunk(self, agent: Agent, chunk: Chunk) -> None:
        """Show what streams."""
        self._chat.on_chunk(agent, chunk)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Show what happened."""
        self._chat.on_event(session, event)

    @hookimpl
    def agent_status(self, agent: Agent, status: str) -> None:
        """Send what is queued once the agent is idle."""
        self._chat.on_status(agent, status)

    @hookimpl
    def agent_error(self, agent: Agent, error: BaseException) -> None:
        """Show a plugin's failure that no event says."""
        self._chat.on_error(agent, error)

    @hookimpl
    async def approval_request(self, agent: Agent, request: ApprovalRequest) -> Approval:
        """Ask the person."""
        return await self._chat.ask(agent, request)
