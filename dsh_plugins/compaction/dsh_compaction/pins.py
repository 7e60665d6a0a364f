"""Messages that stay through compactions."""

from __future__ import annotations

from dsh_compaction.events import CompactionPin
from dsh_core import Agent, UserError


def pin(agent: Agent, seq: int, *, is_pinned: bool = True) -> None:
    """Keep the message of event `seq` through compactions, or no longer.

    Raises `UserError` when the model sees no message of that event.
    """
    if not any(seq == known for known, _ in agent.session.message_sources()):
        raise UserError(
            f"the model sees no message of event {seq}",
            remedy="`session.message_sources()` lists the numbers of those it sees.",
        )
    agent.session.record(CompactionPin(seq, is_pinned))
