"""What a user may set under `plugins.compaction`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """When room is made, how much stays, and who summarises."""

    automatic: bool = True
    """Make room without being asked: at the threshold, and when the provider says that a request is
    too long. False: only by `/compact`."""

    threshold: float = 0.8
    """Share of the model's window at which room is made. The rest is for the reply, and for what
    the tools of one step bring."""

    retain: float = 0.16
    """Share of the window that the newest messages may take and stay as they are. A fifth of the
    threshold: some steps of work, and a compaction frees four fifths."""

    strategy: Literal["summary", "outline"] = "summary"
    """What takes the place of older messages: a `summary` by the model, or an `outline` of who said
    and called what, which costs no request. A plugin may bring others (`compaction_strategy`)."""

    model: str | None = None
    """Route of the model that summarises; null = the agent's own, which has the conversation in its
    cache already."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Wire parameters of summary requests, over the agent's own, as in `{max_tokens: 8192}`."""

    attempts: int = 2
    """How often a summary is asked for, until a usable one comes, before the history is left as it
    is."""

    prune_over_characters: int = 8192
    """Length from which an older tool result is shortened: some 2,000 tokens."""

    prune_head_characters: int = 4096
    """What stays of its beginning."""

    prune_tail_characters: int = 1024
    """What stays of its end, where programs say how it went."""

    tokenizer: str | None = None
    """A `tokenizer.json` to count tokens with, as published beside open models; wants
    `dsh-compaction[tokenizer]`. Null = the core's estimate, corrected by what the provider says."""

    def __post_init__(self) -> None:
        if not 0 < self.retain < self.threshold <= 1:
            raise ValueError("retain and threshold are shares: 0 < retain < threshold <= 1")
        if self.attempts < 1:
            raise ValueError("attempts must be at least 1")
        kept = self.prune_head_characters + self.prune_tail_characters
        if min(self.prune_head_characters, self.prune_tail_characters) < 0:
            raise ValueError("prune_head_characters and prune_tail_characters must not be negative")
        if self.prune_over_characters < kept + MARKER_CHARACTERS:
            raise ValueError(
                "prune_over_characters must exceed prune_head_characters + prune_tail_characters "
                f"by {MARKER_CHARACTERS}, or a shortened result would not be shorter"
            )


NAME = "compaction"

MARKER_CHARACTERS = 500
"""Room for what is said in the place of the left out part, a path included."""
