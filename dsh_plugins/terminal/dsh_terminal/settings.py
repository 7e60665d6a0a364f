"""What a user may set under `plugins.terminal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reasoning = Literal["folded", "shown", "hidden"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What is shown, and how much of it."""

    reasoning: Reasoning = "folded"
    """What stays of a model's reasoning once it answers: its first line, all of it, or nothing."""

    tool_lines: int = 6
    """Lines of a tool's output that are shown; the model has all of it."""

    diff_lines: int = 60
    """Lines of a diff that are shown; a screen or two."""

    history: bool = True
    """Whether what you type is kept in a file for the next time; known secrets are left out."""
