"""Running a tool's body and giving whatever it does one form: a `ToolOutput`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dsh_core.codec import clean_text, freeze, seal
from dsh_core.content import Block, Text, ToolResult, clean_block
from dsh_core.errors import PluginError, ToolError, UserError, error_chain, error_text
from dsh_core.hooks.blame import is_stop
from dsh_core.hooks.dispatch import DeadlineError, within
from dsh_core.outcome import ToolOutput
from dsh_core.tools.threads import in_daemon_thread
from dsh_core.tools.tool import InvalidArgumentsError, Tool, ToolContext


async def run_body(tool: Tool, context: ToolContext, values: Mapping[str, Any]) -> ToolOutput:
    """Call the body. Raises only on Ctrl-C and on a cancellation somebody asked for."""
    try:
        result = await _bounded(tool, context, values)
        return as_output(result)
    except DeadlineError:
        context.cancelled.set()
        seconds = tool.timeout_seconds or 0
        return ToolOutput.error("TOOL_TIMEOUT", f"{tool.name} took more than {seconds:g} s")
    except BaseException as error:
        if is_stop(error):
            context.cancelled.set()
            raise
        if isinstance(error, PluginError):  # of a hook the body called
            context.agent.hooks.report(error, {"agent": context.agent})
        return failure(tool.name, error)


def failure(name: str, error: BaseException) -> ToolOutput:
    """Return the result of a call whose body, or a wrapper around it, raised."""
    if isinstance(error, ToolError):
        return ToolOutput.error(error.code, error_text(error))
    if isinstance(error, InvalidArgumentsError):
        return ToolOutput.error("INVALID_ARGS", error_text(error))
    if isinstance(error, UserError):
        return ToolOutput.error("TOOL_FAILED", error_text(error))
    return ToolOutput.error("TOOL_FAILED", clean_text(f"{name} failed: {error_chain(error)}"))


async def _bounded(tool: Tool, context: ToolContext, values: Mapping[str, Any]) -> Any:
    running = _call(tool, {**values, "ctx": context} if tool.wants_context else dict(values))
    if tool.timeout_seconds is not None:
        return await within(tool.timeout_seconds, running)
    return await running


async def _call(tool: Tool, arguments: dict[str, Any]) -> Any:
    if tool.is_async:
        return await tool.function(**arguments)
    result = await in_daemon_thread(partial(tool.function, **arguments), tool.name)
    return await result if inspect.isawaitable(result) else result


def as_output(result: Any) -> ToolOutput:
    """Give what a body returned its form: text and blocks as they are, other values as JSON.

    Raises `ToolError` with code INVALID_TOOL_OUTPUT for what has none.
    """
    if isinstance(result, ToolOutput):
        return _checked(result)
    if isinstance(result, str):
        return ToolOutput((Text(clean_text(result)),))
    if result is None:
        return ToolOutput((Text("(no output)"),))
    if isinstance(result, Block):
        return ToolOutput(_cleaned((result,)))
    if (
        isinstance(result, Sequence)
        and result
        and all(isinstance(block, Block) for block in result)
    ):
        return ToolOutput(_cleaned(result))
    return ToolOutput((Text(clean_text(_as_json(result))),))


def _checked(output: ToolOutput) -> ToolOutput:
    content: Any = output.content
    meta: Any = output.meta
    if isinstance(content, (str, Block)):
        content = (Text(content),) if isinstance(content, str) else (content,)
    if meta is not None and not isinstance(meta, Mapping):
        raise _invalid(f"meta is a {type(meta).__name__}, not a mapping")
    if output.code is not None and not isinstance(output.code, str):
        raise _invalid(f"code is a {type(output.code).__name__}, not text")
    try:
        frozen = None if meta is None else freeze(meta)
    except ValueError as error:
        raise _invalid(f"meta: {error}") from None
    return ToolOutput(
        _cleaned(content), bool(output.is_error), output.code, frozen, bool(output.ends_turn)
    )


def _invalid(what: str) -> ToolError:
    return ToolError(f"the tool's output cannot be used: {what}", code="INVALID_TOOL_OUTPUT")


def _as_json(result: Any) -> str:
    if isinstance(result, (bool, int, float)):
        return json.dumps(result)
    try:
        return json.dumps(result, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(f"a {type(result).__name__} that is not JSON: {error}") from error


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic models, without importing pydantic
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _cleaned(blocks: Any) -> tuple[Block, ...]:
    """Return blocks that can be logged. Raises `ToolError` for anything else."""
    try:
        sealed = seal(ToolResult("", tuple(map(clean_block, blocks))))
    except (TypeError, ValueError) as error:
        raise _invalid(str(error)) from None
    content: tuple[Block, ...] = sealed.content
    return content


def cancelled_output(*, started: bool) -> ToolOutput:
    """Return the result of a call that an abort stopped."""
    if started:
        return ToolOutput.error("ABORTED", "interrupted; what it did until then stands")
    return ToolOutput.error("ABORTED_BEFORE_DISPATCH", "interrupted before the call started")


__all__ = ["as_output", "cancelled_output", "failure", "run_body"]
