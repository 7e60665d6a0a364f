"""Every hook has a test in which a plugin changes the outcome; END_TURN hooks end turns alike.

The tests themselves are in `test_every_hook_*.py`, one file per area.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from offline import calling, offline

from dsh_core import Request, ToolContext, hookimpl, hookspecs, tool
from dsh_core.events import Errored, ErrorEvent, TurnEnd
from dsh_core.hooks.dispatch import specs_in
from dsh_core.marks import OnError
from dsh_core.testing.log import assert_balanced

HERE = Path(__file__).parent
MODES = dict(specs_in(hookspecs))
END_TURN = [name for name, mode in MODES.items() if mode.on_error is OnError.END_TURN]
PREFIX = "test_hook_"


def names_of_tests() -> list[str]:
    return [
        node.name.removeprefix(PREFIX)
        for path in sorted(HERE.glob("test_every_hook_*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith(PREFIX)
    ]


def hook_of(test: str) -> str | None:
    """The hook a test is named after: the longest one, as `agent_request` begins another."""
    fitting = [name for name in MODES if test.startswith(f"{name}_")]
    return max(fitting, key=len, default=None)


def test_every_hook_has_a_test_in_which_a_plugin_changes_the_outcome() -> None:
    assert sorted(set(MODES) - {hook_of(test) for test in names_of_tests()}) == []


def test_every_such_test_is_named_after_a_hook() -> None:
    assert [test for test in names_of_tests() if hook_of(test) is None] == []


# ---------------------------------------------------------------------- END_TURN hooks


class Trap(Exception):
    """What the faulty plugin raises."""


def faulty(hook: str) -> Any:
    """A plugin that raises in one hook as long as it is armed, and passes afterwards."""
    plugin = SimpleNamespace(is_armed=True)

    def spring() -> None:
        if plugin.is_armed:
            raise Trap(f"in {hook}")

    async def spring_async() -> None:
        spring()

    function = spring_async if MODES[hook].is_async else spring
    function.__name__ = hook
    setattr(plugin, hook, hookimpl(function))
    return plugin


@tool
def interrupt(ctx: ToolContext) -> str:
    """Steer the agent that calls."""
    ctx.agent.steer("psst")
    return "steered"


def reply_in(hook: str, request: Request) -> Any:
    """What takes the first turn through the hook; the second turn is plain."""
    if request.messages[-1].text == "again":
        return "Fine."
    special = {
        "agent_steering": calling("interrupt"),
        "agent_request_error": {"fail": {"code": "AUTH"}},
    }
    return special.get(hook, "Well.")


@pytest.mark.parametrize("hook", END_TURN)
async def test_a_plugin_that_raises_ends_its_turn_with_one_error_and_no_more(hook: str) -> None:
    plugin = faulty(hook)
    script = [lambda request: reply_in(hook, request)] * 3
    async with offline(*script, plugins={"faulty": plugin}, tools=(interrupt,)) as stage:
        failed = await stage.agent.run("go")
        assert_balanced(stage.agent.session.events)
        plugin.is_armed = False
        result = await stage.agent.run("again")

    (error,) = stage.logged(ErrorEvent)
    assert (error.plugin, error.code, error.turn) == ("faulty", "PLUGIN", 1)
    assert f"in {hook}" in error.message
    assert isinstance(failed.reason, Errored)
    assert [end.reason.type for end in stage.logged(TurnEnd)] == ["error", "completed"]
    assert (result.text, result.is_success) == ("Fine.", True)
