"""The stream protocol between adapters and the loop, and the one assembler of it.

An adapter yields `usage` before `finish` and nothing after `finish`; tool arguments stay the
provider's raw string; it either raises or ends with a finish of reason `error` or `aborted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from dsh_core.codec import Tagged, case, clean_text, sum_type
from dsh_core.content import Block, Reasoning, Text, ToolCall, clean_block
from dsh_core.errors import LlmFailure
from dsh_core.record import record


@sum_type
class Chunk(Tagged):
    """One piece of a streamed reply. Plugins may add kinds; the assembler ignores them."""

    __slots__ = ()


@record()
class Usage:
    """Tokens of one request, in disjoint counts: a total is their sum.

    `output_tokens` includes reasoning; `input_tokens` excludes what the cache served.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    @property
    def total_tokens(self) -> int:
        """Everything the request cost."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


FinishReason: TypeAlias = str
"""`stop`, `tool-calls`, `max-tokens`, `error`, `aborted`; plugins may add others."""


@case("block-start")
class BlockStart(Chunk):
    """A block opens at `index`."""

    index: int
    block_type: str


@case("text-delta")
class TextDelta(Chunk):
    """More text of the block at `index`."""

    index: int
    text: str


@case("reasoning-delta")
class ReasoningDelta(Chunk):
    """More reasoning of the block at `index`."""

    index: int
    text: str


@case("tool-call-delta")
class ToolCallDelta(Chunk):
    """More of a tool call; `id` and `name` are set once, in whichever delta carries them."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


@case("block-end")
class BlockEnd(Chunk):
    """The block at `index` is complete; `block` is authoritative."""

    index: int
    block: Block


@case("usage")
class UsageChunk(Chunk):
    """What the request cost; the last one counts."""

    usage: Usage


@case("finish")
class Finish(Chunk):
    """The end of the stream. `failure` is set for `error` and `aborted`."""

    reason: FinishReason
    failure: LlmFailure | None = None
    request_id: str | None = None


@case("unknown")
class UnknownChunk(Chunk):
    """A chunk whose plugin is gone."""

    name: str
    fields: Mapping[str, Any]


Chunk.unknown = UnknownChunk


def clean_chunk(chunk: Chunk) -> Chunk:
    """Return a chunk whose text has no lone surrogates: itself where it has none."""
    match chunk:
        case TextDelta(_, str() as text) | ReasoningDelta(_, str() as text):
            return chunk if text.isascii() else replace(chunk, text=clean_text(text))
        case ToolCallDelta(index, call_id, name, arguments):
            if all(not isinstance(t, str) or t.isascii() for t in (call_id, name, arguments)):
                return chunk
            cleaned = ToolCallDelta(index, _clean(call_id), _clean(name), _clean(arguments))
            return chunk if cleaned == chunk else cleaned
        case BlockEnd(block=block):
            whole = clean_block(block)
            return chunk if whole is block else replace(chunk, block=whole)
    return chunk


def _clean(part: Any) -> Any:
    return clean_text(part) if isinstance(part, str) else part


@record(frozen=False)
class _Open:
    """A block under construction: its deltas, joined once at the end."""

    kind: str
    parts: list[str] = field(default_factory=list)
    id: str | None = None
    name: str | None = None
    final: Block | None = None


class BlockAssembler:
    """Folds chunks into the blocks of one assistant message.

    Blocks come out in the order in which their index was first seen. A repeated `block-start` is
    ignored, a delta without a start opens its block, deltas after `block-end` are ignored, the
    first `block-end` wins; so do the last usage and the last finish.
    """

    __slots__ = ("_blocks", "finish", "usage")

    def __init__(self) -> None:
        self._blocks: dict[int, _Open] = {}
        self.usage: Usage | None = None
        self.finish: Finish | None = None

    def feed(self, chunk: Chunk) -> None:
        """Take one chunk. Constant time; unknown kinds are ignored."""
        kind = type(chunk)
        if kind is TextDelta:
            self._delta(chunk.index, "text", chunk.text)  # type: ignore[attr-defined]
        elif kind is ReasoningDelta:
            self._delta(chunk.index, "reasoning", chunk.text)  # type: ignore[attr-defined]
        else:
            self._feed_rare(chunk)

    def _feed_rare(self, chunk: Chunk) -> None:
        match chunk:
            case ToolCallDelta(index, id, name, arguments):
                opened = self._delta(index, "tool-call", arguments)
                opened.id = opened.id or id
                opened.name = opened.name or name
            case BlockStart(index, kind):
                self._blocks.setdefault(index, _Open(kind))
            case BlockEnd(index, block):
                opened = self._blocks.setdefault(index, _Open(block.type))
                opened.final = opened.final or block
            case UsageChunk(usage):
                self.usage = usage
            case Finish():
                self.finish = chunk

    def _delta(self, index: int, kind: str, text: str) -> _Open:
        opened = self._blocks.get(index)
        if opened is None:
            opened = self._blocks[index] = _Open(kind)
        if opened.final is None and text:
            opened.parts.append(text)
        return opened

    def blocks(self) -> tuple[Block, ...]:
        """Return the finished blocks. Raises `ValueError` for an unknown kind left open."""
        built = (_build(index, opened) for index, opened in self._blocks.items())
        return tuple(block for block in built if not _is_blank(block))

    def interrupted_blocks(self) -> tuple[Block, ...]:
        """Return what may be kept of an aborted stream: text and reasoning that is not blank."""
        kinds = ("text", "reasoning")
        built = (_build(i, o) for i, o in self._blocks.items() if o.kind in kinds)
        return tuple(
            block for block in built if isinstance(block, (Text, Reasoning)) and block.text.strip()
        )


def _build(index: int, opened: _Open) -> Block:
    """Join the deltas; halves of a surrogate pair that came in two of them become one character."""
    if opened.final is not None:
        final = clean_block(opened.final)
        if isinstance(final, ToolCall) and not final.id:
            return replace(final, id=opened.id or f"call-{index}")
        return final
    text = clean_text("".join(opened.parts))
    match opened.kind:
        case "text":
            return Text(text)
        case "reasoning":
            return Reasoning(text)
        case "tool-call":
            call_id, name = clean_text(opened.id or f"call-{index}"), clean_text(opened.name or "")
            return ToolCall(call_id, name, text)
    raise ValueError(f"block {index} of type {opened.kind!r} was never ended")


def _is_blank(block: Block) -> bool:
    return isinstance(block, (Text, Reasoning)) and not block.text


StopReason: TypeAlias = Literal["stop", "tool-calls", "max-tokens"]
