"""The public contract suites: what works passes, and what is broken fails the right test."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from memory_store import MemoryStore

from dsh_core import (
    Request,
    SlashCommand,
    ToolContext,
    ToolError,
    UserError,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.adapters.scripted import ScriptedModel
from dsh_core.chunks import BlockStart, Chunk, Finish, TextDelta, UsageChunk
from dsh_core.llm import LlmAdapter
from dsh_core.session import Store
from dsh_core.testing import (
    AdapterContract,
    CommandContract,
    PolicyContract,
    StoreContract,
    ToolContract,
)
from dsh_core.tools import Tool
from dsh_persistence.jsonl import JsonlStore

# ------------------------------------------------------------------- what works passes


@tool(read_only=True)
async def count(file_path: str, ctx: ToolContext, wait: bool = False) -> str:
    """Count the words of a file.

    Args:
        file_path: Relative to the working directory.
        wait: Never come back.
    """
    if wait:
        await asyncio.Event().wait()
    path = ctx.cwd / file_path
    if not path.is_file():
        raise ToolError(f"{file_path} is no file", code="NO_FILE")
    return str(len(path.read_text().split()))


class Brings:
    def __init__(self, *tools: Tool):
        self.tools = list(tools)

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return self.tools


class TestATool(ToolContract):
    name = "count"
    arguments: ClassVar = {"file_path": "a.txt"}
    failing = ({"file_path": "b.txt"},)
    slow: ClassVar = {"file_path": "a.txt", "wait": True}

    def plugin(self) -> object:
        return Brings(count)

    def prepare(self, cwd: Path) -> None:
        (cwd / "a.txt").write_text("so it goes")


class Curfew:
    @hookimpl
    async def tools_authorize(self, call: Any) -> Verdict | None:
        if call.name == "rm" or call.arguments.get("force"):
            return Verdict("deny", "not at night")
        return Verdict("ask", "really?") if call.name == "mail" else None


class TestAPolicy(PolicyContract):
    denied = (("rm", {"path": "x"}), ("cp", {"force": True}))
    allowed = (("cp", {}), ("ls", {}))
    asks = (("mail", {}),)

    def plugin(self) -> object:
        return Curfew()


class TestAStore(StoreContract):
    def new_store(self, place: Path) -> Store:
        return JsonlStore(place)


class TestAnAdapter(AdapterContract):
    text = "Hello there."

    def adapter(self) -> LlmAdapter:
        return ScriptedModel([self.text], loop=True)

    def failing(self) -> Mapping[str, LlmAdapter]:
        codes = ("RATE_LIMIT", "AUTH")
        return {code: ScriptedModel([{"fail": {"code": code}}]) for code in codes}


async def shout(agent: Any, rest: str) -> str:
    if rest.startswith("-"):
        raise UserError("there are no options")
    return rest.upper()


class Commands:
    def __init__(self, run: Callable[..., Any] = shout, description: str = "Say it loud."):
        self.command = SlashCommand("shout", description, run)

    @hookimpl
    def commands_register(self) -> list[SlashCommand]:
        return [self.command]


class TestACommand(CommandContract):
    name = "shout"
    rest = "hello"

    def plugin(self) -> object:
        return Commands()


# ------------------------------------------------------------------ what is broken fails


def failures(contract: Any, tmp_path: Path) -> set[str]:
    """Run all tests of a contract; return the names of those that fail."""
    failed = set()
    for number, (name, test) in enumerate(inspect.getmembers(contract, inspect.ismethod)):
        if not name.startswith("test_"):
            continue
        place = tmp_path / str(number)
        place.mkdir()
        wants_path = "tmp_path" in inspect.signature(test).parameters
        try:
            test(tmp_path=place) if wants_path else test()
        except pytest.skip.Exception:
            continue
        except Exception:
            failed.add(name)
        except pytest.fail.Exception:
            failed.add(name)
    return failed


@tool(read_only=True)
def writes(file_path: str, ctx: ToolContext) -> str:
    """Write."""
    (ctx.cwd / "made.txt").write_text("x")
    return file_path


class BadTool(ToolContract):
    name = "writes"
    arguments: ClassVar = {"file_path": "a.txt"}
    failing = ({"file_path": "b.txt"},)

    def plugin(self) -> object:
        return Brings(writes)


def test_a_tool_that_lies_is_found(tmp_path: Path) -> None:
    assert failures(BadTool(), tmp_path) == {
        "test_the_model_is_told_what_it_needs",
        "test_a_tool_that_only_reads_changes_nothing",
        "test_what_fails_is_a_result_and_the_turn_goes_on",
    }


class FailsOpen:
    def __init__(self) -> None:
        self.asked = 0

    @hookimpl
    async def tools_authorize(self) -> Verdict | None:
        self.asked += 1
        return Verdict("deny") if self.asked == 1 else None


class OpenPolicy(TestAPolicy):
    __test__ = False

    def plugin(self) -> object:
        return FailsOpen()


def test_a_policy_that_fails_open_is_found(tmp_path: Path) -> None:
    assert failures(OpenPolicy(), tmp_path) >= {
        "test_what_is_denied_never_runs_and_the_model_reads_why",
        "test_no_other_plugin_can_undo_a_denial",
        "test_it_holds_when_asked_again",
        "test_it_holds_for_every_agent_at_the_same_time",
    }


class Forgetful(StoreContract):
    def __init__(self) -> None:
        self.places: dict[Path, MemoryStore] = {}

    def new_store(self, place: Path) -> Store:
        return self.places.setdefault(place, MemoryStore())


def test_a_store_that_takes_what_it_gets_is_found(tmp_path: Path) -> None:
    assert failures(Forgetful(), tmp_path) >= {
        "test_events_that_are_stored_already_are_skipped",
        "test_a_gap_is_refused_and_nothing_is_written",
        "test_pages_hold_every_session_once",
        "test_one_writes_and_others_are_told",
    }


class Says:
    """An adapter that yields these chunks."""

    def __init__(self, chunks: Sequence[Chunk]):
        self.chunks = chunks

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        pass


START, PIECE, END = BlockStart(0, "text"), TextDelta(0, "Hello."), Finish("stop")


@pytest.mark.parametrize(
    "chunks",
    [
        [START, PIECE, END],
        [PIECE, END],
        [START, PIECE],
        [END, END],
        [END, UsageChunk],
        [START, START, PIECE, END],
    ],
)
def test_an_adapter_that_breaks_the_protocol_is_found(chunks: list[Any], tmp_path: Path) -> None:
    class Broken(AdapterContract):
        def adapter(self) -> LlmAdapter:
            return Says(chunks)

    assert "test_a_reply_is_a_stream_that_keeps_the_protocol" in failures(Broken(), tmp_path)


async def crashes(agent: Any, rest: str) -> str:
    return rest[0]


async def chats(agent: Any, rest: str) -> str:
    agent.inject(rest or "x")
    return "said"


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (Commands(crashes), "test_it_takes_whatever_people_type"),
        (Commands(chats), "test_it_answers_with_text_and_asks_the_model_nothing"),
        (Commands(description=" "), "test_it_is_listed_with_a_description"),
    ],
)
def test_a_command_that_does_not_behave_is_found(
    plugin: object, expected: str, tmp_path: Path
) -> None:
    class Bad(CommandContract):
        name = "shout"
        rest = "x"

        def plugin(self) -> object:
            return plugin

    assert expected in failures(Bad(), tmp_path)
