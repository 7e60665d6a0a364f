"""A part of the history that is to be replaced, as strategies see it."""

from __future__ import annotations

from dataclasses import dataclass

from dsh_core import Message


@dataclass(frozen=True, slots=True)
class Span:
    """What is to be replaced.

    Args:
        messages: The messages that go, oldest first; kept ones between them are left out.
        prefix: The history from its beginning to the end of the span, kept messages included.
        tokens: About what `messages` take, as `harness.llm.measure` counts.
        focus: What the person wants to be kept above all; empty = nothing was said.
    """

    messages: tuple[Message, ...]
    prefix: tuple[Message, ...]
    tokens: int
    focus: str = ""
