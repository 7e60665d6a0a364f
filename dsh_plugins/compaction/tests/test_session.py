"""A long piece of work in a small window, over real HTTP to a strict provider."""

from __future__ import annotations

from compaction_stage import WINDOW, fetches, staged, summarising, texts

from dsh_core import Session
from dsh_core.testing.behaviours import reply


async def test_a_long_piece_of_work_finishes_in_a_small_window():
    steps = [fetches(*[900 + 37 * (i + j) for j in range(1 + i % 3)]) for i in range(40)]
    script = summarising(*steps, reply("All done."), summary="Fetched a lot; go on.")
    async with staged(script) as s:
        result = await s.run("TASK-1: fetch everything.")
        assert result.text == "All done."
        assert result.is_success
        assert len(s.server.requests) < 80
        assert all(request.tokens <= WINDOW for request in s.server.requests)
        assert set(s.outcomes) == {"compacted"}
        assert len(s.outcomes) > 3
        assert s.errors == []
        shown = texts(s.agent.session.messages())
        assert shown[0] == "TASK-1: fetch everything."
        assert "Fetched a lot; go on." in shown[1]
        seed = s.agent.session.events
        assert Session(s.agent.session.header, s.agent.hooks, seed=seed).messages() == (
            s.agent.session.messages()
        )
