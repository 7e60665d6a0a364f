"""A tool call from the model's words to its result: resolve, judge, run, bound.

Nothing here raises for what a model, a tool or a plugin does wrong: every call gets an output.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsh_core import hookspecs
from dsh_core.codec import clean_text, freeze
from dsh_core.content import ToolCall
from dsh_core.errors import HarnessError, PluginError, ToolError, error_chain, error_text
from dsh_core.events import ApprovalAsked, ApprovalDecided
from dsh_core.hooks.blame import is_stop
from dsh_core.outcome import ToolOutput
from dsh_core.policy import (
    MAY_WRITE,
    Approval,
    ApprovalRequest,
    Call,
    Effect,
    Verdict,
    strictest,
)
from dsh_core.record import record
from dsh_core.tools.arguments import BadArgumentsError, parse_arguments
from dsh_core.tools.body import as_output, failure, run_body
from dsh_core.tools.progress import Progress
from dsh_core.tools.spill import bounded
from dsh_core.tools.tool import InvalidArgumentsError, Tool, ToolContext

if TYPE_CHECKING:
    from dsh_core.agents import Agent

_WANTED = {
    "tool_effects": "a list of Effect",
    "tools_authorize": "a Verdict",
    "approval_request": "an Approval whose `allowed` is a bool and whose texts are str",
}


@record()
class Judged:
    """A call with its tool, if there is one, and the output that a denial gives it.

    `by` is the plugin whose verdict counted, None where nobody had an opinion.
    """

    call: Call
    tool: Tool | None
    denial: ToolOutput | None
    by: str | None = None


def resolve(agent: Agent, block: ToolCall, turn: int, step: int) -> tuple[Call, Tool | None]:
    """Find the tool and validate the arguments; what is wrong becomes `call.problem`."""
    tools = agent.harness.tools.for_agent(agent.hooks, agent.options.tools)
    tool = tools.get(block.name)
    arguments: Mapping[str, Any] = {}
    values: Mapping[str, Any] = {}
    problem: str | None = None
    try:
        parsed = parse_arguments(block.arguments)
        if tool is None:
            arguments = freeze(parsed)
        else:
            validated = tool.parameters.validate(parsed)
            arguments, values = validated.arguments, validated.values
    except (BadArgumentsError, InvalidArgumentsError, ValueError) as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - a tool whose schema cannot be made fails its calls only
        problem = f"the arguments cannot be checked: {error_chain(error)}"
    if tool is None:
        listed = ", ".join(tools) or "none"
        problem = f"there is no tool {block.name[:80]!r}; tools: {listed}"
    call = Call(
        block.id,
        block.name,
        arguments,
        block.arguments,
        turn,
        step,
        known=tool is not None,
        problem=problem,
        effects=(tool.declared_effects if tool is not None else None) or (MAY_WRITE,),
        values=values,
    )
    return call, tool


async def judge(agent: Agent, block: ToolCall, turn: int, step: int) -> Judged:
    """Ask everyone who may have a say; ask a person where the strictest verdict is ask."""
    call, tool = resolve(agent, block, turn, step)
    hooks = agent.hooks
    if hooks.has(hookspecs.tool_effects):
        call = replace(call, effects=await _effects(agent, call, tool))
    if not hooks.has(hookspecs.tools_authorize):
        return Judged(call, tool, None)
    plugin, verdict = strictest(await _verdicts(agent, call))
    if verdict.decision == "allow":
        return Judged(call, tool, None, plugin)
    if verdict.decision == "deny":
        return Judged(call, tool, _denied(verdict.message), plugin)
    approval = await _ask(agent, call, plugin, verdict)
    if approval.allowed:
        return Judged(call, tool, None, plugin)
    return Judged(call, tool, _denied(approval.message or verdict.message), plugin)


def _denied(message: str) -> ToolOutput:
    return ToolOutput.error("DENIED", clean_text(f"denied: {message}" if message else "denied"))


async def _effects(agent: Agent, call: Call, tool: Tool | None) -> tuple[Effect, ...]:
    """Return declared effects ∪ all answers; nobody knows = may write."""
    declared = tool.declared_effects if tool is not None else None
    effects = list(declared or ())
    is_known = declared is not None
    for plugin, answer in await agent.hooks.collect(hookspecs.tool_effects, agent=agent, call=call):
        if isinstance(answer, PluginError):
            effects.append(MAY_WRITE)
        elif isinstance(answer, (list, tuple, set, frozenset)) and all(
            isinstance(effect, Effect) for effect in answer
        ):
            effects.extend(answer)
        else:
            effects.append(MAY_WRITE)
            _report_junk(agent, plugin, "tool_effects", answer)
        is_known = True
    return tuple(dict.fromkeys(effects)) if is_known else (MAY_WRITE,)


async def _verdicts(agent: Agent, call: Call) -> list[tuple[str, Verdict]]:
    verdicts = []
    for plugin, answer in await agent.hooks.collect(
        hookspecs.tools_authorize, agent=agent, call=call
    ):
        if isinstance(answer, PluginError):
            verdicts.append((plugin, Verdict("deny", f"the policy plugin failed: {answer}")))
        elif isinstance(answer, Verdict):
            verdicts.append((plugin, answer))
        else:
            _report_junk(agent, plugin, "tools_authorize", answer)
            verdicts.append((plugin, Verdict("deny", f"{plugin} gave no usable verdict")))
    return verdicts


def _report_junk(agent: Agent, plugin: str, hook: str, answer: object) -> None:
    said = f"returned a {type(answer).__name__}; {_WANTED[hook]} is wanted"
    error = PluginError(plugin, hook, said)
    agent.hooks.report(error, {"agent": agent})


async def _ask(agent: Agent, call: Call, plugin: str | None, verdict: Verdict) -> Approval:
    """Put the question to whoever answers; log question and answer as a pair.

    A question or an answer that cannot be logged is a denial.
    """
    request = ApprovalRequest(
        os.urandom(6).hex(),
        call,
        verdict.message,
        plugin=plugin,
        rule=verdict.rule,
        offers=verdict.offers,
        user_only=verdict.user_only,
    )
    asked = ApprovalAsked(
        request.id,
        call.id,
        call.name,
        clean_text(request.message),
        plugin=plugin,
        rule=None if request.rule is None else clean_text(request.rule),
    )
    try:
        agent.session.append(asked)
        approval = Approval(False, "the question was interrupted")
        try:
            approval = await _answer(agent, request)
        finally:
            agent.session.append(
                ApprovalDecided(
                    request.id, approval.allowed, approval.scope, clean_text(approval.message)
                )
            )
    except HarnessError as error:
        agent.report_error(error)
        return Approval(False, f"nobody could be asked: {error_text(error)}")
    return approval


async def _answer(agent: Agent, request: ApprovalRequest) -> Approval:
    async def nobody(agent: Agent, request: ApprovalRequest) -> Approval:
        return Approval(False, request.message)

    hook = hookspecs.approval_request
    try:
        approval = await agent.hooks.waterfall(hook, nobody, agent=agent, request=request)
    except BaseException as error:
        if is_stop(error):
            raise
        said = error_text(error)
        named = error if isinstance(error, PluginError) else None
        agent.hooks.report(named or PluginError("?", hook.__name__, said), {"agent": agent})
        return Approval(False, f"nobody could be asked: {said}")
    if isinstance(approval.allowed, bool) and all(
        isinstance(text, str) for text in (approval.message, approval.scope)
    ):
        return approval
    _report_junk(agent, "?", hook.__name__, approval)
    return Approval(False, "the answer cannot be used")


async def execute(
    agent: Agent, judged: Judged, progress: Progress, started: Callable[[], None]
) -> ToolOutput:
    """Run an allowed call through `tools_execute` and bound its output.

    `started` is called just before the body is.
    """
    call, tool = judged.call, judged.tool
    context = ToolContext(
        agent,
        agent.cwd,
        call,
        agent.harness.readable_roots(),
        agent.harness.spill.path,
        progress.report,
        threading.Event(),
    )

    checked: list[ToolOutput] = []  # what needs no second look

    async def body(agent: Agent, call: Call) -> ToolOutput:
        # Looked up again: hiding a tool is no protection, and it may be gone by now.
        current = agent.harness.tools.for_agent(agent.hooks, agent.options.tools).get(call.name)
        if tool is None or current is None:
            return ToolOutput.error("UNKNOWN_TOOL", call.problem or f"{call.name} is gone")
        if call.problem is not None:
            return ToolOutput.error("INVALID_ARGS", call.problem)
        started()
        checked.append(await run_body(tool, context, call.values))
        return checked[-1]

    try:
        output = await agent.hooks.waterfall(hookspecs.tools_execute, body, agent=agent, call=call)
    except BaseException as error:
        if is_stop(error):
            raise
        if isinstance(error, PluginError):
            agent.hooks.report(error, {"agent": agent})
        output = failure(call.name, _chosen_by_plugin(error))
    return _bound(agent, tool, call, output, is_checked=any(output is one for one in checked))


def _chosen_by_plugin(error: BaseException) -> BaseException:
    """A wrapper may choose code and text of the result, as a body may."""
    cause = error.__cause__
    return cause if isinstance(error, PluginError) and isinstance(cause, ToolError) else error


def _bound(
    agent: Agent, tool: Tool | None, call: Call, output: ToolOutput, *, is_checked: bool
) -> ToolOutput:
    limit = tool.inline_limit_bytes if tool is not None else None
    harness = agent.harness
    try:
        output = output if is_checked else as_output(output)
        return bounded(output, call.name, limit or harness.inline_limit_bytes, harness.spill.save)
    except Exception as error:  # noqa: BLE001 - whatever a plugin made of the output
        if not isinstance(error, ToolError):
            error = ToolError(f"{call.name}: {error_chain(error)}", code="INVALID_TOOL_OUTPUT")
        return failure(call.name, error)
