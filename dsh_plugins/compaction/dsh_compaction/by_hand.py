"""Compaction because somebody asked for it, between two turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dsh_compaction.automatic import Automatic
from dsh_compaction.errors import CompactionError
from dsh_compaction.events import CompactionEnd
from dsh_compaction.settings import NAME
from dsh_core import Agent, AgentError, UserError


async def compact_with(agent: Agent, automatic: Automatic | None, focus: str) -> CompactionEnd:
    """Compact an idle agent, and wait until the log is durable."""
    if automatic is None or not agent.harness.plugins.is_on(NAME, agent.hooks):
        raise UserError(
            f"compaction is off for agent {agent.name!r}",
            where=f"agents.{agent.name}.plugins.{NAME}",
            remedy="Switch the plugin on for it.",
        )
    async with agent.exclusive(NAME):
        end = await automatic.compact("request", focus=focus)
    await agent.harness.sessions.settle(agent.session)
    if end.outcome == "failed":
        raise CompactionError(end.problem)
    return end


async def told(compact: Callable[..., Awaitable[CompactionEnd]], agent: Agent, focus: str) -> str:
    """Run `/compact`, and return what the person reads."""
    try:
        return f"Compaction: {(await compact(agent, focus=focus)).text}."
    except CompactionError as error:
        return f"Compaction failed, the history is as it was: {error}."
    except AgentError as error:
        raise UserError(str(error), where="/compact") from None
