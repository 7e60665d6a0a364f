"""Content blocks: what a message is made of. Text, reasoning, tool call, tool result, image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dsh_core.codec import Tagged, case, clean_text, sum_type


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

    def write_json(self) -> dict[str, Any]:
        """Return the JSON it was read from."""
        from dsh_core.codec import to_json

        return {"type": self.name, **to_json(self.fields)}


Block.unknown = UnknownBlock

Content: TypeAlias = str | Block | Sequence[Block]
"""What `send`, `steer`, `inject` and tools accept."""


def as_blocks(content: Content) -> tuple[Block, ...]:
    """Normalise content to a tuple of blocks; text loses lone surrogates.

    Raises `TypeError` on anything else and `ValueError` on empty content.
    """
    if isinstance(content, str):
        content = (Text(content),)
    elif isinstance(content, Block):
        content = (content,)
    blocks = tuple(content)
    for block in blocks:
        if not isinstance(block, Block):
            raise TypeError(f"content is text or blocks, not {type(block).__name__}")
    if not any(not isinstance(block, Text) or block.text for block in blocks):
        raise ValueError("content is empty")
    return tuple(_clean(block) for block in blocks)


def _clean(block: Block) -> Block:
    if isinstance(block, Text) and (text := clean_text(block.text)) is not block.text:
        return Text(text)
    return block


def text_of(blocks: Iterable[Block]) -> str:
    """Join the text blocks; reasoning, calls and images are left out."""
    return "".join(block.text for block in blocks if isinstance(block, Text))
