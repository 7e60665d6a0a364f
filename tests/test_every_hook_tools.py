"""A plugin changes the outcome through each hook on a tool call's way."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from offline import calling, offline, request_text

from dsh_core import (
    Agent,
    Approval,
    ApprovalRequest,
    Call,
    Command,
    Effect,
    Executor,
    HarnessConfig,
    Layer,
    Process,
    ToolOutput,
    Verdict,
    hookimpl,
    only_reads,
    tool,
)
from dsh_core.events import ApprovalDecided, ToolCallEvent, ToolResultEvent


class Paint:
    """A tool that leaves a trace in the world."""

    def __init__(self, folder: Path):
        self.wall = folder / "wall"

    @tool
    def paint(self, colour: str) -> str:
        """Paint the wall."""
        self.wall.write_text(colour)
        return f"painted it {colour}"


@pytest.fixture
def wall(tmp_path: Path) -> Paint:
    return Paint(tmp_path)


RED = (calling("paint", colour="red"), "Done.")


async def test_hook_tools_register_gives_the_model_a_tool(wall: Paint) -> None:
    class Painter:
        @hookimpl
        def tools_register(self, harness: object) -> list[object]:
            return [wall.paint]

    async with offline(*RED, plugin=Painter()) as stage:
        await stage.agent.run("go")

    assert [one.name for one in stage.requests[0].tools] == ["paint"]
    assert wall.wall.read_text() == "red"


class OnlyReads:
    """A policy: what may write is denied."""

    @hookimpl
    async def tools_authorize(self, call: Call) -> Verdict | None:
        return None if only_reads(call.effects) else Verdict("deny", "read only")


class Knows:
    @hookimpl
    async def tool_effects(self, call: Call) -> list[Effect] | None:
        return [Effect("read", "wall")] if call.name == "paint" else None


@pytest.mark.parametrize(("plugins", "verdict"), [({}, "deny"), ({"knows": Knows()}, "allow")])
async def test_hook_tool_effects_decides_what_policy_sees(
    wall: Paint, plugins: dict[str, object], verdict: str
) -> None:
    both = {"policy": OnlyReads(), **plugins}
    async with offline(*RED, plugins=both, tools=(wall.paint,)) as stage:
        await stage.agent.run("go")

    assert stage.logged(ToolCallEvent)[0].verdict == verdict
    assert wall.wall.exists() is (verdict == "allow")


async def test_hook_tools_authorize_denies_a_call(wall: Paint) -> None:
    class NoRed:
        @hookimpl
        async def tools_authorize(self, call: Call) -> Verdict | None:
            return Verdict("deny", "not red") if call.arguments["colour"] == "red" else None

    script = (RED[0], calling("paint", colour="blue"), "Done.")
    async with offline(*script, plugin=NoRed(), tools=(wall.paint,)) as stage:
        await stage.agent.run("go")

    assert [call.verdict for call in stage.logged(ToolCallEvent)] == ["deny", "allow"]
    assert "not red" in request_text(stage.requests[1])
    assert wall.wall.read_text() == "blue"


@pytest.mark.parametrize("answer", [True, False])
async def test_hook_approval_request_answers_for_a_person(wall: Paint, answer: bool) -> None:
    class Asks:
        @hookimpl
        async def tools_authorize(self) -> Verdict:
            return Verdict("ask", "May it?")

        @hookimpl
        async def approval_request(self, request: ApprovalRequest) -> Approval:
            return Approval(answer and request.message == "May it?", "so be it")

    async with offline(*RED, plugin=Asks(), tools=(wall.paint,)) as stage:
        await stage.agent.run("go")

    assert stage.logged(ApprovalDecided)[0].allowed is answer
    assert wall.wall.exists() is answer


async def test_hook_tools_execute_answers_in_place_of_the_body(wall: Paint) -> None:
    class DryRun:
        @hookimpl
        async def tools_execute(self, call: Call) -> ToolOutput:
            return ToolOutput.of(f"would {call.name} it {call.arguments['colour']}")

    async with offline(*RED, plugin=DryRun(), tools=(wall.paint,)) as stage:
        await stage.agent.run("go")

    assert "would paint it red" in request_text(stage.requests[1])
    assert not wall.wall.exists()


async def test_hook_tools_result_tells_the_model_more_about_a_failure(wall: Paint) -> None:
    class Helps:
        @hookimpl
        async def tools_result(self, agent: Agent, call: Call, result: ToolOutput) -> None:
            if result.is_error:
                agent.inject(f"{call.name}: {result.code}. Colours are red and blue.")

    script = (calling("paint", color="red"), "I see.")
    async with offline(*script, plugin=Helps(), tools=(wall.paint,)) as stage:
        await stage.agent.run("go")

    assert stage.logged(ToolResultEvent)[0].is_error
    assert "paint: INVALID_ARGS. Colours are red and blue." in request_text(stage.requests[1])


class Recorder:
    """An executor around another that keeps what ran, as a sandbox changes it."""

    name = "recorder"

    def __init__(self, inner: Executor, ran: list[str]):
        self._inner = inner
        self._ran = ran

    async def start(self, command: Command) -> Process:
        self._ran.append(shlex.join(command.argv))
        code = "import sys; print('sandboxed', sys.argv[-1])"
        return await self._inner.start(
            replace(command, argv=(sys.executable, "-c", code, *command.argv))
        )


async def test_hook_shell_executor_decides_how_commands_run(tmp_path: Path) -> None:
    pytest.importorskip("dsh_shell")
    ran: list[str] = []

    class Sandbox:
        @hookimpl
        async def shell_executor(
            self, agent: Agent, *, call_next: Callable[[], Awaitable[Executor]]
        ) -> Executor:
            return Recorder(await call_next(), ran)

    config = HarnessConfig(autoload=False, plugins={"shell": (Layer("test", {}),)})
    script = (calling("bash", command="touch made"), "Done.")
    async with offline(*script, plugin=Sandbox(), config=config, cwd=tmp_path) as stage:
        await stage.agent.run("go")

    assert "touch made" in ran[0]
    assert "sandboxed" in request_text(stage.requests[1])
    assert not (tmp_path / "made").exists()
