"""What a list of sessions says about each: a fold of its log."""

from __future__ import annotations

from collections.abc import Iterable

from dsh_core.chunks import Usage
from dsh_core.content import text_of
from dsh_core.events import Event, TurnStart, UsageEvent, UserMessage
from dsh_core.record import record
from dsh_core.session.header import SessionHeader

TITLE_CHARACTERS = 80
"""As much of the first message as fits a line beside the other columns."""

NO_USAGE = Usage()


@record()
class SessionSummary:
    """One row of a list of sessions.

    Args:
        header: Its header; of a damaged session what could be told without it.
        updated_at: Unix seconds of the last write.
        title: The beginning of the first message, one line.
        turns: How many were begun.
        usage: What all requests together cost.
        problem: Why the session cannot be loaded; None = nothing known.
    """

    header: SessionHeader
    updated_at: float
    title: str | None = None
    turns: int = 0
    usage: Usage = NO_USAGE
    problem: str | None = None


class SummaryFold:
    """Takes a session's events one by one; can go on where an earlier fold stopped."""

    def __init__(self, title: str | None = None, turns: int = 0, usage: Usage | None = None):
        self.title = title
        self.turns = turns
        self.usage = usage or NO_USAGE

    def feed(self, event: Event) -> None:
        """Take one event."""
        match event.data:
            case TurnStart(turn=turn):
                self.turns = turn
            case UsageEvent(usage=usage):
                self.usage = self.usage + usage
            case UserMessage(content=content) if self.title is None:
                self.title = title_of(text_of(content))

    def summary(self, header: SessionHeader, updated_at: float) -> SessionSummary:
        """Return what the events so far come to."""
        return SessionSummary(header, updated_at, self.title, self.turns, self.usage)


def summarise(header: SessionHeader, events: Iterable[Event]) -> SessionSummary:
    """Fold a whole session; its last event says when it was updated."""
    fold, updated_at = SummaryFold(), header.created_at
    for event in events:
        fold.feed(event)
        updated_at = event.time
    return fold.summary(header, updated_at)


def title_of(text: str) -> str | None:
    """Return the first line that says something, cut to `TITLE_CHARACTERS`; None = none does."""
    for line in text.splitlines():
        words = " ".join(line.split())
        if words:
            is_long = len(words) > TITLE_CHARACTERS
            return words[: TITLE_CHARACTERS - 1] + "…" if is_long else words
    return None
