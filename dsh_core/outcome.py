"""What a tool body produced, before it becomes the call's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsh_core.content import Block, Text, text_of
from dsh_core.record import record


@record()
class ToolOutput:
    """The outcome of one call.

    Args:
        content: What the model reads.
        is_error: Whether the call failed.
        code: Upper-case identifier of the failure, for programs.
        meta: JSON for front ends, as in a diff or an exit code; the model never sees it.
        ends_turn: Whether the turn ends after this batch of calls.

    """

    content: tuple[Block, ...]
    is_error: bool = False
    code: str | None = None
    meta: Mapping[str, Any] | None = None
    ends_turn: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    @classmethod
    def of(cls, text: str, *, meta: Mapping[str, Any] | None = None) -> ToolOutput:
        """A success that is text."""
        return cls((Text(text),), meta=meta)

    @classmethod
    def error(cls, code: str, message: str) -> ToolOutput:
        """A failure with the code for programs and the message for the model."""
        return cls((Text(f"Error: {message}"),), is_error=True, code=code)
