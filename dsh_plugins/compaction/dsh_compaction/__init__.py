"""Room in long conversations: older messages are replaced by a summary of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_compaction import hookspecs
from dsh_compaction.automatic import Automatic
from dsh_compaction.by_hand import compact_with, told
from dsh_compaction.errors import CompactionError
from dsh_compaction.events import CompactionEnd
from dsh_compaction.pins import pin
from dsh_compaction.settings import Settings as CompactionSettings
from dsh_compaction.span import Span
from dsh_compaction.tokenizer import Tokenizer
from dsh_core import LlmFailure, Message, Retry, SlashCommand, StashKey, hookimpl

if TYPE_CHECKING:
    from dsh_core import Agent

__all__ = ["Compaction", "CompactionEnd", "CompactionError", "Span", "compact", "pin"]

AUTOMATIC: StashKey[Automatic] = StashKey("compaction.automatic")


async def compact(agent: Agent, *, focus: str = "") -> CompactionEnd:
    """Make room in the history of an idle agent; sends wait.

    `focus` says what the summary should keep above all. Returns what was saved, which is nothing
    where there was nothing to summarise.

    Raises `CompactionError` when it failed and the history is unchanged, `AgentError` when the
    agent is busy or an abort ended it, `UserError` where the plugin is off for the agent.
    """
    return await compact_with(agent, agent.stash.get(AUTOMATIC, None), focus)


class Compaction:
    """The plugin `compaction`."""

    Settings = CompactionSettings
    hookspecs = hookspecs

    def __init__(self, *, settings: CompactionSettings) -> None:
        self._settings = settings
        self._tokenizer: Tokenizer | None = None

    def _of(self, agent: Agent) -> Automatic:
        """Return what watches an agent; a reloaded plugin begins anew."""
        found = agent.stash.get(AUTOMATIC, None)
        if found is None or found.settings is not self._settings:
            found = agent.stash[AUTOMATIC] = Automatic(agent, self._settings)
        return found

    @hookimpl
    async def harness_start(self) -> None:
        """Load the tokenizer, if one is wanted."""
        if self._settings.tokenizer is not None:
            file = Path(self._settings.tokenizer)
            self._tokenizer = await asyncio.to_thread(Tokenizer, file)

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Begin to watch an agent."""
        self._of(agent)

    @hookimpl
    async def agent_step_start(self, agent: Agent) -> None:
        """Make room before a request that would reach the threshold."""
        if self._settings.automatic:
            await self._of(agent).before_request()

    @hookimpl
    async def agent_request_error(
        self, agent: Agent, turn: int, step: int, failure: LlmFailure
    ) -> Retry | None:
        """Make room for a request that was too long, and ask for it again."""
        if failure.code != "CONTEXT_WINDOW_EXCEEDED" or not self._settings.automatic:
            return None
        return Retry() if await self._of(agent).after_overflow(turn, step) else None

    @hookimpl
    async def tokens_measure(
        self,
        agent: Agent | None,
        messages: tuple[Message, ...],
        *,
        call_next: Callable[[], Awaitable[int]],
    ) -> int:
        """Answer for a whole history with what the provider counted, for the rest exactly if asked.

        The whole history of an agent measures as its next request does.
        """
        if agent is not None and messages and messages is agent.session.messages():
            return await self._of(agent).meter.total()
        if self._tokenizer is not None:
            return await self._tokenizer.count(messages)
        return await call_next()

    @hookimpl
    def commands_register(self) -> Sequence[SlashCommand]:
        """Offer `/compact`."""
        about = "Summarise the conversation so far to make room. /compact WHAT TO KEEP"
        return [SlashCommand("compact", about, lambda agent, rest: told(compact, agent, rest))]
