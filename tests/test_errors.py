"""Saying errors: whatever an exception of a plugin does, its text harms nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loop_stage import bounded, calls, stage

from dsh_core import HarnessError, LlmFailure, PluginError, ToolError, UserError, hookimpl, tool
from dsh_core.errors import error_chain, error_text

ESCAPES = [SystemExit, asyncio.CancelledError, GeneratorExit, ValueError, RecursionError]
KINDS = [ValueError, TypeError, ToolError, UserError, HarnessError, BaseException]


def hostile(kind: type[BaseException], escapes: type[BaseException]) -> BaseException:
    """An error that raises when it is looked at."""

    def look(self: object) -> str:
        raise escapes

    made: type[BaseException] = type("Hostile", (kind,), {"__str__": look, "__repr__": look})
    return made("x")


@pytest.mark.parametrize("escapes", ESCAPES)
def test_a_text_that_cannot_be_read_is_said_so(escapes: type[BaseException]) -> None:
    said = f"(its text cannot be read: {escapes.__name__})"

    assert error_text(hostile(ValueError, escapes)) == said
    assert error_chain(hostile(ValueError, escapes)) == f"Hostile: {said}"


def test_ctrl_c_while_an_error_is_said_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        error_chain(hostile(ValueError, KeyboardInterrupt))


@pytest.mark.parametrize("escapes", ESCAPES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hostile_error_of_a_tool_or_a_hook_is_contained(
    kind: type[BaseException], escapes: type[BaseException]
) -> None:
    @tool
    def breaks() -> str:
        """Break."""
        raise hostile(kind, escapes)

    left = ["tools_authorize", "tools_result", "agent_request", "session_event"]

    def breaking(hook: str) -> Any:
        def function(self: object) -> None:
            if hook in left:
                left.remove(hook)
                raise hostile(kind, escapes)

        return hookimpl(function)

    plugin = type("Breaks", (), {hook: breaking(hook) for hook in left})()
    script = [calls(("breaks", "{}"))] * 3
    async with stage(*script, plugin=plugin, tools=(breaks,), settings={"limits": False}) as s:
        for _ in range(4):
            await bounded(s.agent.run("go"))

        assert left == []
        assert (await bounded(s.agent.run("again"))).is_success


@pytest.mark.parametrize("escapes", ESCAPES)
@pytest.mark.parametrize("kind", [LlmFailure, PluginError])
async def test_a_hostile_error_in_a_users_words_is_contained(
    kind: Any, escapes: type[BaseException]
) -> None:
    def look(self: object) -> str:
        raise escapes

    made = type("Hostile", (kind,), {"__str__": look})
    given = ("it", "agent_request", "m") if kind is PluginError else ("SERVER", "m")

    class Breaks:
        left = 1

        @hookimpl
        async def agent_request(self) -> None:
            if self.left:
                self.left -= 1
                raise made(*given)

    async with stage(plugin=Breaks()) as s:
        assert (await bounded(s.agent.run("go"))).reason.type == "error"
        assert (await bounded(s.agent.run("again"))).is_success
