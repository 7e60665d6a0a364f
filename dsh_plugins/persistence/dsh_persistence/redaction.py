"""Known secrets, taken out of events before they are written.

Most stand in one place and are found in the encoded line. One that the model repeats arrives in
pieces, each in an event of its own: pieces are looked at together, and while the last of them may
be the beginning of a secret they wait for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dsh_core import Chunk, Event, ReasoningDelta, Secrets, TextDelta, ToolCallDelta
from dsh_core.events import AssistantChunk

LONGEST_CHARACTERS = 4_096
"""As far back as the beginning of a secret is looked for; long ones are known by line, too."""

Scrub: TypeAlias = Callable[[str], str]
"""Returns a text without the secrets in it; the text itself where there are none."""


def as_it_is(text: str) -> str:
    """Know no secrets."""
    return text


def ready(events: Sequence[Event], secrets: Secrets) -> int:
    """Return how many events can be written without cutting a secret in two."""
    pieces: list[tuple[int, str]] = []
    block = None
    length = 0
    for position in range(len(events) - 1, -1, -1):
        found = _piece(events[position])
        if found is None or (block is not None and found[0] != block):
            break
        block = found[0]
        pieces.append((position, found[1]))
        length += len(found[1])
        if length > LONGEST_CHARACTERS:
            break
    pieces.reverse()
    held = secrets.begun_at_end("".join(text for _, text in pieces))
    count = len(events)
    while held > 0 and pieces:
        count, text = pieces.pop()
        held -= len(text)
    return count


def without_secrets(events: Sequence[Event], scrub: Scrub) -> Sequence[Event]:
    """Return events in which no secret is spread over several pieces of a block."""
    blocks: dict[object, list[int]] = {}
    texts: dict[object, list[str]] = {}
    for position, event in enumerate(events):
        found = _piece(event)
        if found is not None:
            blocks.setdefault(found[0], []).append(position)
            texts.setdefault(found[0], []).append(found[1])
    changed: list[Event] | None = None
    for block, positions in blocks.items():
        whole = "".join(texts[block])
        clean = scrub(whole)
        if clean != whole:
            changed = changed or [*events]
            for position in positions:
                changed[position] = _with_text(events[position], clean)
                clean = ""
    return changed or events


def _piece(event: Event) -> tuple[object, str] | None:
    """Return which block an event is a piece of, and its text."""
    data = event.data
    if type(data) is not AssistantChunk:
        return None
    chunk: Chunk = data.chunk
    match chunk:
        case TextDelta(index, text) | ReasoningDelta(index, text):
            return (data.turn, data.step, type(chunk), index), text
        case ToolCallDelta(index=index, arguments=text):
            return (data.turn, data.step, type(chunk), index), text
        case _:
            return None


def _with_text(event: Event, text: str) -> Event:
    assert isinstance(event.data, AssistantChunk)
    chunk = event.data.chunk
    if isinstance(chunk, ToolCallDelta):
        chunk = replace(chunk, arguments=text)
    elif isinstance(chunk, (TextDelta, ReasoningDelta)):
        chunk = replace(chunk, text=text)
    return replace(event, data=replace(event.data, chunk=chunk))
