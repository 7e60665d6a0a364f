"""Long tool results, shortened."""

from __future__ import annotations

import pytest
from compaction_stage import fetches, staged, summarising, texts

from dsh_compaction.pruning import shortened
from dsh_compaction.settings import Settings
from dsh_core import Image, Text
from dsh_core.events import ToolResultEvent


def result(text, *others, **fields):
    return ToolResultEvent(1, 2, "c1", (Text(text), *others), **fields)


def test_a_result_keeps_head_and_tail_and_says_what_is_missing():
    data = result("H" * 4096 + "m" * 4000 + "T" * 1024, is_error=True, code="X", meta={"a": 1})

    short = shortened(data, Settings())

    text = short.content[0].text
    assert text == (
        "H" * 4096 + "\n\n[… 4000 characters of this older result left out …]\n\n" + "T" * 1024
    )
    assert (short.turn, short.step, short.call_id) == (1, 2, "c1")
    assert (short.is_error, short.code, short.meta) == (True, "X", {"a": 1})


@pytest.mark.parametrize("length", [0, 8191, 8192])
def test_what_is_short_enough_stays(length):
    assert shortened(result("x" * length), Settings()) is None


def test_shortening_again_changes_nothing():
    once = shortened(result("x" * 50_000), Settings())

    assert shortened(once, Settings()) is None


def test_other_blocks_stay_and_a_spilled_output_is_still_found():
    image = Image("image/png", "AAAA")
    data = result("x" * 50_000, image, meta={"spilled_to": "/tmp/spill/a.txt"})

    short = shortened(data, Settings())

    assert short.content[1] is image
    assert "the whole output is in /tmp/spill/a.txt …]" in short.content[0].text


def test_a_tail_of_nothing_is_nothing():
    settings = Settings(prune_head_characters=10, prune_tail_characters=0)

    text = shortened(result("x" * 9000), settings).content[0].text

    assert text.endswith("left out …]\n\n")
    assert text.startswith("x" * 10 + "\n")


async def test_pruning_alone_is_enough_where_it_is_and_recent_results_stay():
    steps = [*[fetches(20_000 + 12 * i) for i in range(4)], fetches(100)]
    async with staged(summarising(*steps), window=24_000, model_window=24_000) as s:
        assert (await s.run("go")).is_success
        assert s.summary_requests == []
        end = s.ends[0]
        assert (end.outcome, end.replaced_messages) == ("compacted", 0)
        assert end.pruned_results >= 3
        shown = texts(s.agent.session.messages())
        assert "left out" in shown[2]
        originals = [d for d in s.logged(ToolResultEvent) if d.replaces is None]
        assert [len(d.content[0].text) > 8000 for d in originals] == [True] * 4 + [False]
