"""Long tool results shortened to their head and tail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dsh_compaction.settings import Settings
from dsh_compaction.view import View
from dsh_core import Event, Text, ToolResult, text_of
from dsh_core.events import ToolResultEvent


@dataclass(frozen=True, slots=True)
class Pruned:
    """A result to be logged in the place of another.

    Args:
        index: Where its message is in the history.
        event: What is to be appended.
    """

    index: int
    event: ToolResultEvent


def prunable(view: View, events: Sequence[Event], settings: Settings, cut: int) -> Iterator[Pruned]:
    """Yield the shortened form of each long result before unit `cut`, oldest first."""
    for unit in view.units[:cut]:
        if unit.is_pinned:
            continue
        for index in range(unit.start, unit.stop):
            seq, message = view.sources[index]
            data = events[seq].data
            is_own = bool(message.content) and isinstance(message.content[0], ToolResult)
            if is_own and isinstance(data, ToolResultEvent):
                shorter = shortened(data, settings)
                if shorter is not None:
                    yield Pruned(index, replace(shorter, replaces=(seq, seq)))


def shortened(data: ToolResultEvent, settings: Settings) -> ToolResultEvent | None:
    """Return a result with the middle of its text left out; None where it is short enough."""
    text = text_of(data.content)
    if len(text) <= settings.prune_over_characters:
        return None
    head, tail = settings.prune_head_characters, settings.prune_tail_characters
    left_out = len(text) - head - tail
    path = (data.meta or {}).get("spilled_to")
    where = f"; the whole output is in {path}" if isinstance(path, str) and len(path) < 400 else ""
    marker = f"\n\n[… {left_out} characters of this older result left out{where} …]\n\n"
    shown = Text(f"{text[:head]}{marker}{text[len(text) - tail :]}")
    others = tuple(block for block in data.content if not isinstance(block, Text))
    return replace(data, content=(shown, *others))
