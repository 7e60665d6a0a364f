"""A recorded session becomes a test: the same replies, the same log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from offline import calling, offline
from program import Shell

from dsh_core import Tool, hookimpl, tool
from dsh_core.events import Event
from dsh_core.testing import ReplayModel, assert_replays, log_snapshot


class Words:
    def __init__(self, unit: str = "words"):
        self.unit = unit

    @tool(read_only=True)
    def word_count(self, text: str) -> str:
        """Count."""
        return f"{len(text.split())} {self.unit}"

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return [self.word_count]


async def recorded() -> list[Event]:
    replies = (
        {**calling("word_count", text="so it goes"), "reasoning": "I count.", "text": "Wait."},
        "Three.",
        {"fail": {"code": "AUTH", "message": "no key"}},
        "Good bye.",
    )
    async with offline(*replies, plugin=Words()) as it:
        for prompt in ("How many words?", "And now?", "Bye."):
            await it.agent.run(prompt)
        return list(it.agent.session.events)


async def test_a_session_is_replayed() -> None:
    await assert_replays(await recorded(), plugin=Words())


async def test_a_session_that_goes_another_way_says_where() -> None:
    with pytest.raises(AssertionError, match="mots") as failed:
        await assert_replays(await recorded(), plugin=Words("mots"))

    changed = [line for line in str(failed.value).splitlines() if line[:1] in "+-"]
    assert [line[:1] for line in changed] == ["-", "+", "-", "+"]  # two lines of file names


async def test_prompts_and_replies_are_taken_from_the_log() -> None:
    model = ReplayModel(await recorded())

    assert model.prompts == ["How many words?", "And now?", "Bye."]
    first, second, failed, last = model.replies
    assert (first["text"], first["reasoning"]) == ("Wait.", "I count.")
    assert json.loads(first["calls"][0]["arguments"]) == {"text": "so it goes"}
    assert (second["text"], last["text"]) == ("Three.", "Good bye.")
    assert failed == {"fail": {"code": "AUTH", "message": "no key"}}


async def test_a_snapshot_is_the_same_on_every_run() -> None:
    first, second = log_snapshot(await recorded()), log_snapshot(await recorded())

    assert first == second
    assert "assistant/chunk" not in first
    assert first.splitlines()[0].startswith("  0 turn/start 1")


async def test_what_dsh_run_wrote_is_a_session(dsh: Shell) -> None:
    replies = [calling("no_tool"), "Done."]
    provider = {"adapter": "scripted", "replies": replies, "models": {"m": {}}}
    dsh.write("dsh.json", json.dumps({"providers": {"offline": provider}}))
    done = dsh("run", "-c", "dsh.json", "--json", "--safe", "Go.")
    path: Path = dsh.write("session.jsonl", done.stdout)

    await assert_replays(path)
    assert ReplayModel.from_file(path).prompts == ["Go."]
