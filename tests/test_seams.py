"""Every declared seam on every path: it fires where the table says, changes what it may, and a
plugin that raises in it has the consequence of its policy, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import seams
from seam_actors import MODES, Recorder, raising
from seam_changes import CHANGES, changes_something
from seam_consequences import check_consequence, check_order
from seam_paths import PATHS
from seam_stage import Stage

from dsh_core import LlmFailure, PluginError
from dsh_core.chunks import Finish
from dsh_core.events import (
    ApprovalAsked,
    AssistantChunk,
    AssistantMessage,
    ErrorEvent,
    LlmRetry,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UserMessage,
)
from dsh_core.hooks import Hooks
from dsh_core.plugins import catalog
from dsh_core.plugins.discovery import installed_plugins

CELLS = seams.cells()
FIRING = seams.firing()

INSTALLED = cache(installed_plugins)

ONE_SHOTS = {
    "injection": set(),
    "exclusive": {"llm_stream", "tokens_measure"},
    "record": set(),
}
"""Path → the hooks of what runs inside its one-shot turn."""


@pytest.fixture(autouse=True)
def no_report_of_a_slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the loop is reported; on a loaded machine that can be anybody."""
    monkeypatch.setattr(Hooks, "report_slow", lambda *_: None)


@pytest.fixture(autouse=True)
def one_scan_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a third of the time of a play."""
    monkeypatch.setattr(catalog, "installed_plugins", INSTALLED)


@cache
def usual(path: str) -> Stage:
    """The path as it goes when a plugin only records what it is called for."""
    stage = PATHS[path](Recorder).play()
    assert stage.raised is None
    check_order(stage)
    return stage


def ids(cells: list[tuple[str, str]]) -> list[str]:
    return [f"{hook}-{path}" for hook, path in cells]


# ------------------------------------------------------------------------------ the table


def test_the_table_has_a_row_for_every_hook_and_a_column_for_every_path() -> None:
    assert list(seams.rows()) == list(MODES), "in the order of the specs"
    assert seams.columns() == list(seams.PATHS)
    assert [name for name, _ in seams.PATHS.values()] == list(PATHS)


def test_every_reason_is_given_somewhere() -> None:
    assert {reason for reason in CELLS.values() if reason} == {*seams.REASONS.values()}


def test_every_hook_fires_somewhere() -> None:
    assert {hook for hook, _ in FIRING} == MODES.keys()


@pytest.mark.parametrize("path", PATHS)
def test_the_hooks_fire_where_the_table_says(path: str) -> None:
    assert usual(path).calls.keys() == {hook for hook, other in FIRING if other == path}


@pytest.mark.parametrize("path", PATHS)
def test_the_hooks_fire_as_often_as_the_log_says(path: str) -> None:
    stage = usual(path)

    expected = {hook: HOW_OFTEN[hook](stage) for hook in stage.calls if hook in HOW_OFTEN}

    assert {hook: stage.calls[hook] for hook in expected} == expected


def logged(*kinds: type[Any]) -> Callable[[Stage], int]:
    return lambda stage: sum(len(stage.logged(kind)) for kind in kinds)


def once(stage: Stage) -> int:
    return 1


def requests(stage: Stage) -> int:
    finishes = sum(isinstance(event.chunk, Finish) for event in stage.logged(AssistantChunk))
    cut = sum(reply.interrupted for reply in stage.logged(AssistantMessage))
    return finishes + cut + any(isinstance(chunk, Finish) for chunk in stage.chunks)


def failures(stage: Stage) -> int:
    return sum(bool(getattr(e.chunk, "failure", None)) for e in stage.logged(AssistantChunk))


def allowed(stage: Stage) -> int:
    return sum(call.verdict == "allow" for call in stage.logged(ToolCallEvent))


def turns(stage: Stage) -> int:
    return len(stage.logged(UserMessage))


def changes_of_status(stage: Stage) -> int:
    """Running and idle in each turn, disposed in the end, which may come first."""
    was_disposed = any(end.reason.type == "disposed" for end in stage.logged(TurnEnd))
    return 2 * turns(stage) + 1 - was_disposed


def steps_that_ended_well(stage: Stage) -> int:
    ends = [end.reason.type for end in stage.logged(TurnEnd)]
    return len(stage.logged(StepEnd)) - sum(end not in ("completed", "limit") for end in ends)


HOW_OFTEN: dict[str, Callable[[Stage], int]] = {
    "cli_register": once,
    "tools_register": once,
    "llm_register": once,
    "commands_register": once,
    "session_store": once,
    "harness_start": once,
    "session_created": lambda stage: len(stage.sessions),
    "agent_created": once,
    "agent_disposed": once,
    "agent_status": changes_of_status,
    "agent_queued": logged(UserMessage, SteeringMessage),
    "agent_turn_start": turns,
    "agent_steering": logged(SteeringMessage),
    "agent_step_start": logged(StepStart),
    "system_prompt_sections": requests,
    "system_prompt_assemble": requests,
    "agent_request": requests,
    "llm_stream": requests,
    "agent_stream_chunk": logged(AssistantChunk),
    "agent_request_error": failures,
    "agent_step_result": logged(AssistantMessage),
    "tokens_measure": once,
    "tool_effects": logged(ToolCallEvent),
    "tools_authorize": logged(ToolCallEvent),
    "approval_request": logged(ApprovalAsked),
    "tools_execute": allowed,
    "tools_result": logged(ToolResultEvent),
    "shell_executor": lambda stage: len(stage.executors),
    "agent_step_end": logged(StepEnd),
    "agent_turn_continuation": steps_that_ended_well,
    "agent_turn_end": turns,
    "agent_error": logged(LlmRetry, ErrorEvent),
    "session_validate": lambda stage: len(stage.log),
    "session_event": lambda stage: len(stage.log),
    "session_flush": logged(TurnEnd),
    "harness_stop": once,
}
"""The others tell of registries, which change as often as plugins bring something."""


@pytest.mark.parametrize("path", ONE_SHOTS)
def test_a_one_shot_turn_has_the_hooks_of_the_session_and_of_what_runs_inside(path: str) -> None:
    stage = usual(path)

    assert stage.types() == ["turn/start", "context/message", "turn/end"]
    assert stage.called_in_act == ONE_SHOTS[path] | {
        "session_validate",
        "session_event",
        "session_flush",
    }


# -------------------------------------------------------------------------------- changes


def test_there_is_a_change_for_every_hook_that_is_there_to_change_something() -> None:
    assert CHANGES.keys() == {hook for hook in MODES if changes_something(hook)}


CHANGING = [cell for cell in FIRING if cell[0] in CHANGES]


@pytest.mark.parametrize(("hook", "path"), CHANGING, ids=ids(CHANGING))
def test_a_plugin_changes_the_outcome(hook: str, path: str) -> None:
    change = CHANGES[hook]

    stage = PATHS[path](change).play()

    check_order(stage)
    assert change.is_seen(stage), change.__doc__
    assert hook == "session_validate" or stage.raised is None


# --------------------------------------------------------------------------------- raises


@pytest.mark.parametrize(("hook", "path"), FIRING, ids=ids(FIRING))
def test_a_plugin_that_raises_causes_what_the_policy_says(hook: str, path: str) -> None:
    for plugin in faulty(hook, path):
        check_consequence(PATHS[path](plugin).play(), usual(path), hook)


def faulty(hook: str, path: str) -> list[Any]:
    """Plugins that raise once: in the first and in the last call, or for each type of event."""
    if hook != "session_validate":
        return [raising(hook, on_call=n) for n in sorted({1, usual(path).calls[hook]})]
    types = dict.fromkeys(usual(path).types())
    return [raising(hook, on_type=one) for one in types]


STREAMING = [hook for hook, path in FIRING if path == "streaming"]


@pytest.mark.parametrize("kind", [SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("hook", STREAMING)
def test_what_no_exception_handler_expects_is_contained_too(
    hook: str, kind: type[BaseException]
) -> None:
    plugin = raising(hook, kind=kind)

    check_consequence(PATHS["streaming"](plugin).play(), usual("streaming"), hook)


def test_a_failed_request_is_reported_though_judging_it_fails() -> None:
    stage = PATHS["error"](raising("agent_request_error")).play()

    assert [type(error) for error in stage.eye.errors] == [LlmFailure, PluginError]


def test_a_plugin_that_refuses_everything_from_some_event_on_leaves_a_balanced_log() -> None:
    for seq in range(len(usual("asked").log)):
        plugin = raising("session_validate", on_call=seq + 1, is_lasting=True)
        check_order(PATHS["asked"](plugin).play())
