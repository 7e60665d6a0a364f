"""What a plugin that raises must cause, by the policy of the hook, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from seam_actors import MODES, complaint
from seam_stage import Stage

from dsh_core import ConfigError, HarnessError, PluginError
from dsh_core.events import (
    ApprovalAsked,
    ApprovalDecided,
    Completed,
    ErrorEvent,
    StepEnd,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    UsageEvent,
)
from dsh_core.marks import OnError
from dsh_core.policy import MAY_WRITE
from dsh_core.testing.log import assert_balanced


def check_consequence(stage: Stage, usual: Stage, hook: str) -> None:
    """Compare a play in which the actor raised once with the usual one, in which it did not."""
    assert stage.moment is not None, f"{hook} was not called as often as usual"
    check_order(stage)
    policy = MODES[hook].on_error
    if hook == "harness_start" and not stage.moment.is_start:
        policy = OnError.END_TURN  # "a failure there ends that turn"
    CONSEQUENCES[policy](stage, usual, hook)


def check_order(stage: Stage) -> None:
    """Whatever happened: the logs are balanced, nothing is left over, the agent is of use."""
    for session in stage.eye.sessions:
        assert_balanced(session.events)
    assert [line for line in stage.lines if "'invariants'" in line] == []
    assert stage.stray == [], stage.stray
    if stage.again is not None:
        assert (stage.again.text, stage.again.is_success) == ("Fine.", True)
    else:
        assert stage.is_alone or not stage.harness.is_running


# -------------------------------------------------------------------------------- looking


def heard(stage: Stage, hook: str) -> list[PluginError]:
    """What was reported of the actor."""
    return [
        error
        for error in stage.eye.errors
        if isinstance(error, PluginError) and (error.plugin, error.hook) == (stage.name, hook)
    ]


def said(stage: Stage, hook: str) -> list[str]:
    """The lines of the log file about it."""
    start = f"plugin {stage.name!r} in {hook}: "
    return [line for line in stage.lines if start in line and complaint(hook) in line]


def reasons(stage: Stage) -> list[str]:
    return [end.reason.type for end in stage.logged(TurnEnd)]


def assert_reported(stage: Stage, hook: str) -> None:
    """Once, through `agent_error` where a live agent is concerned, and in the log file."""
    assert stage.moment is not None
    has_listener = stage.moment.is_agents and hook != "agent_error"
    assert len(heard(stage, hook)) == has_listener
    assert len(said(stage, hook)) == 1


def assert_names_it(stage: Stage, error: HarnessError | None, hook: str) -> None:
    assert isinstance(error, (PluginError, ConfigError))
    assert repr(stage.name) in str(error)
    assert complaint(hook) in str(error)


# --------------------------------------------------------------------------- consequences


def reported(stage: Stage, usual: Stage, hook: str) -> None:
    """REPORT: nothing else changes."""
    assert_reported(stage, hook)
    assert stage.types() == usual.types()
    assert reasons(stage) == reasons(usual)
    assert (stage.raised, stage.tokens) == (None, usual.tokens)
    assert len(stage.eye.errors) - len(heard(stage, hook)) == len(usual.eye.errors)


def start_fails(stage: Stage, usual: Stage, hook: str) -> None:
    """START: an error names plugin and cause; nothing was started."""
    assert isinstance(stage.raised, ConfigError)
    assert_names_it(stage, stage.raised, hook)
    assert f"plugin {stage.name!r} (inline) cannot start" in str(stage.raised)
    assert stage.log == []


def turn_ends(stage: Stage, usual: Stage, hook: str) -> None:
    """END_TURN: one `error` event names the plugin; what is over anyway stays what it is."""
    assert stage.moment is not None
    if stage.moment.place == "beside":
        assert_names_it(stage, stage.raised, hook)
        assert reasons(stage) == ["error"] * len(reasons(usual))
        return
    assert (len(heard(stage, hook)), len(said(stage, hook))) == (1, 1)
    errors = stage.logged(ErrorEvent)
    if stage.moment.place == "ending":
        assert reasons(stage) == reasons(usual)
        assert errors == usual.logged(ErrorEvent)
        return
    assert [(error.plugin, error.code) for error in errors] == [(stage.name, "PLUGIN")]
    assert complaint(hook) in errors[0].message
    assert reasons(stage).count("error") == 1


def refused(stage: Stage, usual: Stage, hook: str) -> None:
    """REFUSE: what was announced does not come to be."""
    if hook == "session_validate":
        event_refused(stage, usual, hook)
        return
    assert_names_it(stage, stage.raised, hook)
    assert stage.agents_after == []
    assert stage.log == []


def event_refused(stage: Stage, usual: Stage, hook: str) -> None:
    """The event is not in the log, and somebody hears why; what the log owes is appended anyway."""
    assert stage.moment is not None
    event = stage.moment.event
    if isinstance(event.data, (StepEnd, TurnEnd, ErrorEvent)):
        reported(stage, usual, hook)
        return
    assert not any(logged is event for logged in stage.log)
    was_raised = isinstance(stage.raised, PluginError) and stage.raised.plugin == stage.name
    assert was_raised or heard(stage, hook)
    if isinstance(event.data, UsageEvent):
        assert reasons(stage) == reasons(usual)
    elif isinstance(event.data, (ApprovalAsked, ApprovalDecided)):
        assert_denied(stage, usual)
    elif stage.moment.place == "turn":
        turn_ends(stage, usual, hook)


def denied(stage: Stage, usual: Stage, hook: str) -> None:
    """DENY: the call does not run; a failure to say what it does means: it may write."""
    assert_reported(stage, hook)
    if hook == "tool_effects":
        assert [MAY_WRITE in call.effects for call in stage.eye.judged] == [True]
        assert stage.types() == usual.types()
        return
    assert_denied(stage, usual)


def assert_denied(stage: Stage, usual: Stage) -> None:
    assert {call.verdict for call in stage.logged(ToolCallEvent)} == {"deny"}
    assert {result.code for result in stage.logged(ToolResultEvent)} == {"DENIED"}
    assert stage.executors == []
    assert_went_on(stage, usual)


def call_fails(stage: Stage, usual: Stage, hook: str) -> None:
    """TOOL_ERROR: the call has an error as its result; the turn goes on."""
    (call,) = stage.logged(ToolCallEvent)
    (result,) = stage.logged(ToolResultEvent)
    assert (call.verdict, result.is_error, result.code) == ("allow", True, "TOOL_FAILED")
    assert complaint(hook) in str(result.content)
    assert_went_on(stage, usual)
    assert_reported(stage, hook)


def assert_went_on(stage: Stage, usual: Stage) -> None:
    """The turn ended as usual, or well where its usual end was in the tool."""
    assert stage.logged(ErrorEvent) == []
    assert reasons(stage) in (reasons(usual), [Completed().type])


CONSEQUENCES: dict[OnError, Callable[[Stage, Stage, str], None]] = {
    OnError.REPORT: reported,
    OnError.START: start_fails,
    OnError.END_TURN: turn_ends,
    OnError.REFUSE: refused,
    OnError.DENY: denied,
    OnError.TOOL_ERROR: call_fails,
}
