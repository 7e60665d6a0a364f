"""Which part of a history is replaced: never a call without its result, never what is pinned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from dsh_compaction.span import Span
from dsh_compaction.view import MARKER, SUMMARY, Unit, View

MARKER_TOKENS = 60
"""A part between two pinned messages that takes less is not worth a marker."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Parts of a history that go, each a run of units without a pinned one.

    Args:
        segments: `(start, stop)` in the history; never empty. The last is the summary's place.
        stop: How much of the history the strategy is shown.
        tokens: What the segments take.
        fresh: What of that is no summary already.
    """

    segments: tuple[tuple[int, int], ...]
    stop: int
    tokens: int
    fresh: int

    def span(self, view: View, focus: str) -> Span:
        """Return what the strategy is asked about."""
        messages = tuple(m for start, stop in self.segments for m in view.messages(start, stop))
        tokens = round(self.tokens / view.scale)
        return Span(messages, view.messages(0, self.stop), tokens, focus)


def choose(
    view: View, *, keep: float, largest: float = 0.0, room: float | None = None
) -> Choice | None:
    """Choose what goes; None when there is nothing.

    Args:
        view: The history.
        keep: Tokens of the newest units that stay.
        largest: How much the newest unit may take to stay, whatever `keep` says.
        room: Tokens that a request about the chosen part may take.
    """
    cut = _within(view, tail_start(view, keep=keep, largest=largest), room)
    parts = []
    for is_pinned, units in groupby(view.units[view.head : cut], lambda unit: unit.is_pinned):
        if not is_pinned:
            parts.append([*units])
    while parts and _tokens(parts[-1]) <= MARKER_TOKENS:
        parts.pop()
    parts = [part for part in parts if _tokens(part) > MARKER_TOKENS]
    fresh = _tokens([unit for part in parts for unit in part if not _is_condensed(view, unit)])
    if not fresh:
        return None
    segments = tuple((part[0].start, part[-1].stop) for part in parts)
    return Choice(segments, segments[-1][1], sum(map(_tokens, parts)), fresh)


def tail_start(view: View, *, keep: float, largest: float = 0.0) -> int:
    """Return the first of the newest units that stay."""
    units, cut, tokens = view.units, len(view.units), 0
    while cut > view.head:
        unit = units[cut - 1]
        allowed = max(keep, largest) if cut == len(units) else keep
        if tokens + unit.tokens > allowed:
            break
        tokens += unit.tokens
        cut -= 1
    return cut


def _within(view: View, cut: int, room: float | None) -> int:
    """Move a cut towards the head until a request about what is before it fits."""
    if room is None:
        return cut
    tokens = view.fixed_tokens + sum(unit.tokens for unit in view.units[:cut])
    while cut > view.head and tokens > room:
        cut -= 1
        tokens -= view.units[cut].tokens
    return cut


def _tokens(units: list[Unit]) -> int:
    return sum(unit.tokens for unit in units)


def _is_condensed(view: View, unit: Unit) -> bool:
    return view.sources[unit.start][1].source in (SUMMARY, MARKER)
