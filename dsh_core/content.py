"""Content blocks: what a message is made of. Text, reasoning, tool call, tool result, image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dsh_core.codec import Tagged, case, clean_text, seal, sum_type


@sum_type
class Block(Tagged):
    """One piece of a message. Plugins add kinds with `@case("name")`."""

    __slots__ = ()


@case("text")
class Text(Block):
    """Plain text, Unicode without lone surrogates."""

    text: str


@case("reasoning")
class Reasoning(Block):
    """What the model thought; shown apart from its answer."""

    text: str


@case("tool-call")
class ToolCall(Block):
    """A call the model asks for. `arguments` is the provider's raw string, valid JSON or not."""

    id: str
    name: str
    arguments: str


@case("tool-result")
class ToolResult(Block):
    """The one answer to a tool call, paired by `call_id` and position within the step."""

    call_id: str
    content: tuple[Block, ...]
    is_error: bool = False


@case("image")
class Image(Block):
    """An image. `data` is base64 of the file's bytes, `media_type` as in `image/png`."""

    media_type: str
    data: str


@case("unknown")
class UnknownBlock(Block):
    """A block whose plugin is gone; kept verbatim, not shown to the model."""

    name: str
    fields: Mapping[str, Any]


Block.unknown = UnknownBlock

Content: TypeAlias = str | Block | Sequence[Block]
"""What `send`, `steer` and `inject` accept."""


def as_blocks(content: Content) -> tuple[Block, ...]:
    """Normalise what is said to the model to a tuple of blocks; text loses lone surrogates.

    Raises `TypeError` on what is no block, and `ValueError` on content that is empty, cannot be
    logged, or belongs to the model's side of a conversation (tool calls and their results).
    """
    blocks = (Text(content),) if isinstance(content, str) else content
    blocks = (blocks,) if isinstance(blocks, Block) else tuple(blocks)
    cleaned = []
    for block in blocks:
        if not isinstance(block, Block):
            raise TypeError(f"content is text or blocks, not {type(block).__name__}")
        if isinstance(block, (ToolCall, ToolResult)):
            raise ValueError(f"a {block.type} cannot be sent; only a reply and its step have them")  # noqa: TRY004
        cleaned.append(seal(clean_block(block)))
    if not any(not isinstance(block, Text) or block.text for block in cleaned):
        raise ValueError("content is empty")
    return tuple(cleaned)


def clean_block(block: Block) -> Block:
    """Return a block whose text has no lone surrogates: itself where it has none."""
    match block:
        case Text(str() as text) | Reasoning(str() as text):
            cleaned: Block = block if text.isascii() else replace(block, text=clean_text(text))
        case ToolCall(str() as call_id, str() as name, str() as arguments):
            if call_id.isascii() and name.isascii() and arguments.isascii():
                return block
            cleaned = ToolCall(clean_text(call_id), clean_text(name), clean_text(arguments))
        case _:
            return block
    return block if cleaned == block else cleaned


def text_of(blocks: Iterable[Block]) -> str:
    """Join the text blocks; reasoning, calls and images are left out."""
    return "".join(block.text for block in blocks if isinstance(block, Text))
