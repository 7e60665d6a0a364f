"""Running a tool's body and giving whatever it does one form: a `ToolOutput`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dsh_core.codec import clean_text
from dsh_core.content import Block, Text
from dsh_core.errors import ToolError, UserError, error_chain
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
        return failure(tool.name, error)


def failure(name: str, error: BaseException) -> ToolOutput:
    """Return the result of a call whose body, or a wrapper around it, raised."""
    if isinstance(error, ToolError):
        return ToolOutput.error(error.code, clean_text(str(error)))
    if isinstance(error, InvalidArgumentsError):
        return ToolOutput.error("INVALID_ARGS", clean_text(str(error)))
    if isinstance(error, UserError):
        return ToolOutput.error("TOOL_FAILED", clean_text(str(error)))
    return ToolOutput.error("TOOL_FAILED", clean_text(f"{name} failed: {error_chain(error)}"))


async def _bounded(tool: Tool, context: ToolContext, values: Mapping[str, Any]) -> Any:
    arguments = {**values, "ctx": context} if tool.wants_context else dict(values)
    if tool.is_async:
        running = tool.function(**arguments)
    else:
        running = in_daemon_thread(partial(tool.function, **arguments), tool.name)
    if tool.timeout_seconds is not None:
        return await within(tool.timeout_seconds, running)
    return await running


def as_output(result: Any) -> ToolOutput:
    """Give what a body returned its form: text and blocks as they are, other values as JSON."""
    if isinstance(result, ToolOutput):
        return ToolOutput(
            _cleaned(result.content),
            is_error=result.is_error,
            code=result.code,
            meta=result.meta,
            ends_turn=result.ends_turn,
        )
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
        return ToolOutput(_cleaned(tuple(result)))
    return ToolOutput((Text(clean_text(_as_json(result))),))


def _as_json(result: Any) -> str:
    if isinstance(result, (bool, int, float)):
        return json.dumps(result)
    try:
        return json.dumps(result, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"the tool returned a {type(result).__name__} that is not JSON: {error}",
            code="INVALID_TOOL_OUTPUT",
        ) from error


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # pydantic models, without importing pydantic
    if dump is not None:
        return dump(mode="json")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _cleaned(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(
        Text(clean_text(block.text)) if isinstance(block, Text) else block for block in blocks
    )


def cancelled_output(*, started: bool) -> ToolOutput:
    """Return the result of a call that an abort stopped."""
    if started:
        return ToolOutput.error("ABORTED", "interrupted; what it did until then stands")
    return ToolOutput.error("ABORTED_BEFORE_DISPATCH", "interrupted before the call started")


__all__ = ["as_output", "cancelled_output", "failure", "run_body"]
