"""Messages that stay through compactions."""

from __future__ import annotations

from dsh_compaction import hookspecs
from dsh_compaction.events import CompactionPin
from dsh_compaction.view import request_seqs
from dsh_core import Agent, PluginError, UserError


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


async def pinned_seqs(agent: Agent) -> frozenset[int]:
    """Return the events whose messages stay: the requests, what was pinned, what plugins say."""
    session = agent.session
    pinned: set[int] = set()
    for event in session.events:
        if isinstance(event.data, CompactionPin):
            change = pinned.add if event.data.is_pinned else pinned.discard
            change(event.data.seq)
    for plugin, answer in await agent.hooks.collect(hookspecs.compaction_pins, agent=agent):
        if isinstance(answer, PluginError):
            continue
        if not isinstance(answer, (list, tuple, set, frozenset)) or not all(
            isinstance(seq, int) for seq in answer
        ):
            text = f"answered with {answer!r}, not a list of event numbers"
            agent.report_error(PluginError(plugin, "compaction_pins", text))
            continue
        pinned.update(answer)
    return frozenset(pinned.union(request_seqs(session.message_sources(), session.events)))
