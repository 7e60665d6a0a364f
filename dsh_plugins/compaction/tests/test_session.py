"""A long piece of work in a small window, over real HTTP to a strict provider."""

from __future__ import annotations

import pytest
from compaction_stage import WINDOW, fetches, staged, summarising, texts

from dsh_core import Session
from dsh_core.testing.behaviours import reply

WORK = [fetches(*[900 + 37 * (i + j) for j in range(1 + i % 3)]) for i in range(40)]


@pytest.mark.parametrize(
    ("model_window", "settings"),
    [
        (WINDOW, {}),
        (WINDOW, {"strategy": "outline"}),
        (WINDOW, {"threshold": 0.5, "retain": 0.3}),
        (WINDOW, {"retain": 0.01}),
        (WINDOW * 5, {}),  # the configuration is wrong about the model
        (None, {}),
        (None, {"strategy": "outline"}),
    ],
    ids=str,
)
async def test_a_long_piece_of_work_finishes_in_a_small_window(model_window, settings):
    script = summarising(*WORK, reply("All done."), summary="Fetched a lot; go on.")
    async with staged(script, model_window=model_window, settings=settings) as s:
        result = await s.run("TASK-1: fetch everything.")
        assert result.text == "All done."
        assert result.is_success
        assert len(s.server.requests) < 120
        assert set(s.outcomes) == {"compacted"}
        assert len(s.outcomes) > 3
        shown = texts(s.agent.session.messages())
        assert shown[0] == "TASK-1: fetch everything."
        assert "<summary>" in shown[1]
        events = s.agent.session.events
        again = Session(s.agent.session.header, s.agent.hooks, seed=events)
        assert again.messages() == s.agent.session.messages()
        if model_window == WINDOW:
            assert all(request.tokens <= WINDOW for request in s.server.requests)
            assert s.errors == []
