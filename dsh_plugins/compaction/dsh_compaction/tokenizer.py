"""Exact counts by a model's own tokenizer: the optional extra `dsh-compaction[tokenizer]`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsh_core import Block, ConfigError, Message, Reasoning, Text, ToolCall, ToolResult

MESSAGE_TOKENS = 4
"""What a chat template puts around a message: role and separators."""

INLINE_CHARACTERS = 20_000
"""Longer texts are counted in a thread: some 5 ms of work."""


class Tokenizer:
    """Counts what messages take. Loading reads a file of some MB: do it in a thread.

    Raises `ConfigError` when the file or the library cannot be used.
    """

    def __init__(self, file: Path):
        where = "plugins.compaction.tokenizer"
        try:
            from tokenizers import Tokenizer as Library
        except ImportError as error:
            raise ConfigError(
                f"tokenizers cannot be imported: {error}",
                where=where,
                remedy="pip install 'dsh-compaction[tokenizer]'",
            ) from None
        try:
            self._library: Any = Library.from_str(file.expanduser().read_text(encoding="utf-8"))
        except Exception as error:
            raise ConfigError(
                f"{file} cannot be used: {error}",
                where=where,
                remedy="Give the tokenizer.json that is published with the model.",
            ) from error

    async def count(self, messages: tuple[Message, ...]) -> int:
        """Return the tokens of messages."""
        texts = [text for message in messages for text in _texts(message.content)]
        if sum(map(len, texts)) > INLINE_CHARACTERS:
            counted = await asyncio.to_thread(self._count, texts)
        else:
            counted = self._count(texts)
        return counted + MESSAGE_TOKENS * len(messages)

    def _count(self, texts: list[str]) -> int:
        # One by one: a batch starts threads, and the library then complains about every fork.
        encode = self._library.encode
        return sum(len(encode(text, add_special_tokens=False).ids) for text in texts)


def _texts(content: tuple[Block, ...]) -> Iterator[str]:
    for block in content:
        match block:
            case Text(text) | Reasoning(text):
                yield text
            case ToolCall(_, name, arguments):
                yield f"{name}{arguments}"
            case ToolResult(_, inner):
                yield from _texts(inner)
