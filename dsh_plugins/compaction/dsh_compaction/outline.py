"""An outline of a conversation, made without a model: who said what, which tools ran on what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsh_compaction.span import Span
from dsh_compaction.view import MARKER, SUMMARY
from dsh_compaction.wording import unwrapped
from dsh_core import Message, Text, ToolCall, ToolResult, text_of

SAID_CHARACTERS = 600
CALL_CHARACTERS = 160
SHARE = 0.2
"""How large an outline may be beside what it stands for; its oldest lines go first."""
CHARACTERS_PER_TOKEN = 4


def outline(span: Span) -> str:
    """Return the outline of a span; an earlier summary is a part of it."""
    lines = [line for message in span.messages for line in _lines(message)]
    kept = _newest(lines, round(span.tokens * CHARACTERS_PER_TOKEN * SHARE))
    left_out = len(lines) - len(kept)
    note = [f"({left_out} older lines left out)"] if left_out else []
    return "\n".join([*note, *kept])


def _newest(lines: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _lines(message: Message) -> Iterator[str]:
    if message.source == SUMMARY:
        yield from unwrapped(message).splitlines()
        return
    if message.source == MARKER:
        return
    for block in message.content:
        match block:
            case Text(text) if text.strip():
                who = "user" if message.role == "user" else "agent"
                yield f"{who}: {_short(text, SAID_CHARACTERS)}"
            case ToolCall(_, name, arguments):
                yield f"call: {name} {_short(arguments, CALL_CHARACTERS)}"
            case ToolResult(_, content, is_error):
                mark = "failed" if is_error else "result"
                yield f"  {mark}: {_short(text_of(content), CALL_CHARACTERS)}"


def _short(text: str, limit: int) -> str:
    flat = " ".join(_words(text, limit))
    return flat if len(flat) <= limit else f"{flat[:limit]} …"


def _words(text: str, limit: int) -> Iterable[str]:
    return text[: limit * 2].split()
