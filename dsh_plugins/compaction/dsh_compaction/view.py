"""The history as a compaction sees it: units that stay together, and what each of them takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dsh_compaction.settings import NAME
from dsh_core import Event, Message, PluginSource, ToolCall, ToolResult
from dsh_core.events import SteeringMessage, UserMessage

SUMMARY = PluginSource(NAME, "summary")
MARKER = PluginSource(NAME, "marker")


@dataclass(frozen=True, slots=True)
class Unit:
    """Messages that stay together: a reply with all its results, or a single message.

    Args:
        start: Where it begins in the history.
        stop: Where the next one begins.
        tokens: About what it takes in a request.
        is_pinned: Whether it stays as it is.
    """

    start: int
    stop: int
    tokens: int
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A history at one moment.

    Args:
        sources: `(seq, message)` of the history.
        units: The same in units.
        tokens: About what a whole request takes, system text and tools included.
        scale: Real tokens per estimated one, as far as the provider's usage tells.
        generation: The session's, to see whether the past has changed since.
    """

    sources: tuple[tuple[int, Message], ...]
    units: tuple[Unit, ...]
    tokens: int
    scale: float
    generation: int

    @property
    def head(self) -> int:
        """How many units come before what may be replaced: those up to the first request."""
        first = next((i for i, unit in enumerate(self.units) if unit.is_pinned), -1)
        return first + 1

    @property
    def fixed_tokens(self) -> int:
        """What system text and tools take."""
        return self.tokens - sum(unit.tokens for unit in self.units)

    def tokens_until(self, stop: int) -> int:
        """Return what a request with the messages before `stop` takes."""
        return self.fixed_tokens + sum(unit.tokens for unit in self.units if unit.stop <= stop)

    def messages(self, start: int = 0, stop: int | None = None) -> tuple[Message, ...]:
        """Return a part of the history."""
        return tuple(message for _, message in self.sources[start:stop])


def units_of(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each unit; a reply's results follow it directly."""
    start = 0
    while start < len(messages):
        stop = start + 1
        if any(isinstance(block, ToolCall) for block in messages[start].content):
            while stop < len(messages) and _is_result(messages[stop]):
                stop += 1
        yield start, stop
        start = stop


def _is_result(message: Message) -> bool:
    return bool(message.content) and isinstance(message.content[0], ToolResult)


def request_seqs(
    sources: Sequence[tuple[int, Message]], events: Sequence[Event]
) -> tuple[int, ...]:
    """Return the first and the newest message to the agent: what it works on."""
    said = [
        seq for seq, _ in sources if isinstance(events[seq].data, (UserMessage, SteeringMessage))
    ]
    return (said[0], said[-1]) if said else ()


def build(
    sources: Sequence[tuple[int, Message]],
    costs: Sequence[float],
    pinned: Collection[int],
    *,
    fixed: int,
    scale: float,
    generation: int,
) -> View:
    """Group a history into units.

    Args:
        sources: `(seq, message)` of the history.
        costs: What each message takes, estimated.
        pinned: The events whose messages stay.
        fixed: What system text and tools take.
        scale: Real tokens per estimated one.
        generation: The session's.
    """
    units = tuple(
        Unit(
            start,
            stop,
            round(sum(costs[start:stop]) * scale),
            any(seq in pinned for seq, _ in sources[start:stop]),
        )
        for start, stop in units_of([message for _, message in sources])
    )
    total = sum(unit.tokens for unit in units) + fixed
    return View(tuple(sources), units, total, scale, generation)
