"""One entry of a script for the `scripted` adapter: what is said, and what must hold before it.

Entries come from YAML or JSON, and so they are checked by pydantic, which is imported when the
first one is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from dsh_core.adapters.scripted_expectation import (
    REFUSE_UNKNOWN_KEYS,
    Expectation,
    block_text,
    request_text,
)
from dsh_core.chunks import (
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_core.codec import to_json
from dsh_core.content import Block, Reasoning, Text, ToolCall
from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.record import record
from dsh_core.request import Request

if TYPE_CHECKING:
    from pydantic import ValidationError

CHARACTERS_PER_TOKEN = 4
"""For made-up usage; the usual rule of thumb for English text."""

ARGUMENT_CHARS = 24


@record()
class ScriptedCall:
    """A tool call. A string of arguments is given as it is, valid JSON or not."""

    __pydantic_config__: ClassVar[Any] = REFUSE_UNKNOWN_KEYS
    name: str
    arguments: Mapping[str, Any] | str = "{}"
    id: str | None = None

    def raw_arguments(self) -> str:
        """The arguments as a provider would send them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@record()
class ScriptedFailure:
    """The `LlmFailure` that ends the reply; see there for the fields."""

    __pydantic_config__: ClassVar[Any] = REFUSE_UNKNOWN_KEYS
    code: str
    message: str = "the script says so"
    status: int | None = None
    retry_after_seconds: float | None = None


@record()
class ScriptedReply:
    """What the model does with one request.

    Args:
        text: Its answer, streamed word by word.
        reasoning: What it thought before.
        calls: The tools it calls, after the text.
        finish: As in `Finish.reason`; None = `tool-calls` with calls, else `stop`.
        usage: None = estimated from the lengths of request and reply.
        expect: Checked first.
        fail: Raised after text, reasoning and calls, in place of usage and finish.
    """

    __pydantic_config__: ClassVar[Any] = REFUSE_UNKNOWN_KEYS
    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: str | None = None
    usage: Usage | None = None
    expect: Expectation | None = None
    fail: ScriptedFailure | None = None

    def chunks(self, request: Request, number: int) -> Iterator[Chunk]:
        """Yield the reply as a stream; `number` goes into the ids of its calls.

        Raises `LlmFailure` after the last block when `fail` is set.
        """
        blocks = self._blocks(request, number)
        for index, block in enumerate(blocks):
            yield BlockStart(index, block.type)
            yield from _deltas(index, block)
            yield BlockEnd(index, block)
        if self.fail is not None:
            raise LlmFailure(
                self.fail.code,
                self.fail.message,
                status=self.fail.status,
                retry_after_seconds=self.fail.retry_after_seconds,
            )
        yield UsageChunk(self.usage or _estimate(request, blocks))
        yield Finish(self.finish or ("tool-calls" if self.calls else "stop"))

    def _blocks(self, request: Request, number: int) -> list[Block]:
        blocks: list[Block] = []
        if self.reasoning:
            blocks.append(Reasoning(self.reasoning))
        if self.text:
            blocks.append(Text(self.text))
        ids = _free_ids(request, number)
        for call in self.calls:
            blocks.append(ToolCall(call.id or next(ids), call.name, call.raw_arguments()))
        return blocks


def read_reply(entry: Any, where: str) -> ScriptedReply:
    """Check one entry of a script: a text, a mapping, or a reply already.

    Raises `ConfigError`, which says with `where` what does not fit.
    """
    if isinstance(entry, ScriptedReply):
        return entry
    if isinstance(entry, str):
        return ScriptedReply(text=entry)
    from pydantic import ValidationError

    try:
        # Lists and mappings may be frozen ones, which pydantic does not take; dates are no JSON.
        plain = to_json(entry)
        reply: ScriptedReply = _adapter()(plain)
    except TypeError as error:
        raise ConfigError(str(error), where=where) from None
    except ValidationError as error:
        raise ConfigError(_describe(error), where=where, remedy=_REMEDY) from None
    _check_usage(plain, where)
    return reply


@lru_cache(maxsize=1)
def _adapter() -> Callable[[Any], ScriptedReply]:
    from pydantic import TypeAdapter

    return TypeAdapter(ScriptedReply).validate_python


_REMEDY = f"A reply is a text, or a mapping of {', '.join(f.name for f in fields(ScriptedReply))}."


_EXPECTED = {
    "dataclass_type": "a mapping",
    "dict_type": "a mapping",
    "string_type": "text",
    "tuple_type": "a list",
}


def _describe(error: ValidationError) -> str:
    # Of the branches of a union, the one that got furthest is the one that was meant.
    worst = max(error.errors(include_url=False), key=lambda line: len(line["loc"]))
    steps = [str(step) for step in worst["loc"]]
    path = ".".join(step for step in steps if step != "str" and "[" not in step) or "a reply"
    kind = worst["type"]
    if kind == "unexpected_keyword_argument":
        return f"unknown key {path}"
    if kind == "missing":
        return f"{path} is missing"
    wanted = f"expected {_EXPECTED[kind]}" if kind in _EXPECTED else worst["msg"]
    return f"{path}: {wanted}, found {_kind(worst['input'])}"


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"


def _check_usage(plain: Any, where: str) -> None:
    """Refuse unknown counts: `Usage` is not ours, and pydantic would drop them in silence."""
    known = {field.name for field in fields(Usage)}
    for name in plain.get("usage") or ():
        if name not in known:
            remedy = f"Counts are {', '.join(sorted(known))}."
            raise ConfigError(f"unknown key usage.{name}", where=where, remedy=remedy)


def _deltas(index: int, block: Block) -> Iterator[Chunk]:
    match block:
        case Text(text):
            yield from (TextDelta(index, piece) for piece in _by_word(text))
        case Reasoning(text):
            yield from (ReasoningDelta(index, piece) for piece in _by_word(text))
        case ToolCall(call_id, name, arguments):
            yield ToolCallDelta(index, call_id, name)
            for start in range(0, len(arguments), ARGUMENT_CHARS):
                piece = arguments[start : start + ARGUMENT_CHARS]
                yield ToolCallDelta(index, arguments=piece)


def _by_word(text: str) -> list[str]:
    """Cut text into words with the space after them; joined they are the text again."""
    return re.findall(r"\S+\s*|\s+", text)


def _free_ids(request: Request, number: int) -> Iterator[str]:
    """Yield `call_<number>_<index>`, passing over ids that the history already has."""
    taken = {
        block.id
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolCall)
    }
    index = 0
    while True:
        index += 1
        call_id = f"call_{number}_{index}"
        if call_id not in taken:
            yield call_id


def _estimate(request: Request, blocks: list[Block]) -> Usage:
    tools = json.dumps(to_json(request.tools))
    asked = len(request_text(request)) + len(tools)
    said = sum(len(block_text(block)) for block in blocks)
    return Usage(-(-asked // CHARACTERS_PER_TOKEN), -(-said // CHARACTERS_PER_TOKEN))
