"""Looking at an agent's history: what each part takes, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dsh_compaction import hookspecs
from dsh_compaction.events import CompactionPin
from dsh_compaction.meter import Meter, fixed_tokens
from dsh_compaction.view import View, build, request_seqs
from dsh_core import Agent, Message, PluginError

SCALES = (0.25, 4.0)
"""How far a provider's count may lie from the estimate; beyond it one of the two is wrong."""

MESSAGES_AT_ONCE = 100
"""How many messages are measured before others get their turn: some milliseconds of work."""


async def survey(
    agent: Agent, meter: Meter, *, refused: int | None = None, before: View | None = None
) -> View:
    """Measure every message of the history.

    Args:
        agent: Whose history.
        meter: What the provider has counted.
        refused: What was too much for the window, 0 where that is not known; None = nothing was.
            The provider's earlier count is then no reason to believe in less than the estimate.
        before: An earlier survey, before a part was replaced: what it found out still holds.
    """
    pinned = await pinned_seqs(agent)
    if before is not None:
        sources, generation = agent.session.message_sources(), agent.session.generation
        costs = await _costs(agent, sources)
        fixed, scale = before.fixed_tokens, before.scale
        return build(sources, costs, pinned, fixed=fixed, scale=scale, generation=generation)
    fixed = await fixed_tokens(agent)
    total = max(await meter.total(), refused or 0)
    sources, generation = agent.session.message_sources(), agent.session.generation
    costs = await _costs(agent, sources)
    lowest, highest = SCALES if refused is None else (1.0, SCALES[1])
    scale = min(max(total / max(sum(costs) + fixed, 1), lowest), highest)
    rest = max(total - round(sum(costs) * scale), 0)
    return build(sources, costs, pinned, fixed=rest, scale=scale, generation=generation)


async def _costs(agent: Agent, sources: Sequence[tuple[int, Message]]) -> list[int]:
    costs = []
    for index, (_, message) in enumerate(sources, start=1):
        costs.append(await agent.harness.llm.measure(agent, (message,)))
        if index % MESSAGES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return costs


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
