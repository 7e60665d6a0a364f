"""What a scripted reply may demand of its request, and how a request reads as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias

from dsh_core.content import Block, Image, Reasoning, Text, ToolCall, ToolResult
from dsh_core.messages import Message
from dsh_core.record import record
from dsh_core.request import Request

EXCERPT_CHARS = 300
REFUSE_UNKNOWN_KEYS: Any = {"extra": "forbid"}
"""For `__pydantic_config__` of the classes that scripts are read into."""

Words: TypeAlias = str | tuple[str, ...]
"""One text, or several that must all be there."""


@record()
class Expectation:
    """What must hold of a request before its reply is given; absent keys are not checked.

    Args:
        last_contains: In the last message: its text, or the result it carries.
        last_not_contains: Not in the last message.
        contains: Anywhere in the system text and the messages.
        not_contains: Nowhere in them.
        system_contains: In the system text.
        tools_include: Names of tools on offer.
        tools_exclude: Names of tools not on offer.
        messages_at_least: Fewest messages.
        messages_at_most: Most messages.
    """

    __pydantic_config__: ClassVar[Any] = REFUSE_UNKNOWN_KEYS
    last_contains: Words = ()
    last_not_contains: Words = ()
    contains: Words = ()
    not_contains: Words = ()
    system_contains: Words = ()
    tools_include: Words = ()
    tools_exclude: Words = ()
    messages_at_least: int | None = None
    messages_at_most: int | None = None

    def unmet(self, request: Request) -> Iterator[str]:
        """Yield a line for everything that does not hold, with an excerpt of what was found."""
        last = message_text(request.messages[-1]) if request.messages else ""
        everything = request_text(request)
        tools = [tool.name for tool in request.tools]
        offered = ", ".join(tools) or "(no tools)"
        count = len(request.messages)
        yield from _missing("last_contains", self.last_contains, last, last_message(request))
        yield from _unwanted("last_not_contains", self.last_not_contains, last)
        yield from _missing("contains", self.contains, everything)
        yield from _unwanted("not_contains", self.not_contains, everything)
        yield from _missing("system_contains", self.system_contains, request.system)
        yield from _missing("tools_include", self.tools_include, tools, offered)
        yield from _unwanted("tools_exclude", self.tools_exclude, tools, offered)
        if self.messages_at_least is not None and count < self.messages_at_least:
            yield f"messages_at_least: expected {self.messages_at_least}, found {count}"
        if self.messages_at_most is not None and count > self.messages_at_most:
            yield f"messages_at_most: expected {self.messages_at_most}, found {count}"


def request_text(request: Request) -> str:
    """The system text and the messages, a line or more each."""
    return "\n".join([request.system, *(message_text(message) for message in request.messages)])


def message_text(message: Message) -> str:
    """What a message holds: text, reasoning, calls and results."""
    return " ".join(block_text(block) for block in message.content)


def last_message(request: Request) -> str:
    """Role and start of what was asked last, for messages."""
    if not request.messages:
        return "(no message)"
    last = request.messages[-1]
    return excerpt(f"{last.role}: {message_text(last)}")


def excerpt(text: str, around: int | None = None) -> str:
    """Cut long text to head and tail, or to what is near the offset `around`."""
    if len(text) <= EXCERPT_CHARS:
        return text
    half = EXCERPT_CHARS // 2
    if around is None:
        left = len(text) - EXCERPT_CHARS
        return f"{text[:half]} … {left} characters … {text[-half:]}"
    return f"… {text[max(0, around - half) : around + half]} …"


def block_text(block: Block) -> str:
    """One block as text."""
    match block:
        case Text(text) | Reasoning(text):
            return text
        case ToolCall(_, name, arguments):
            return f"{name}({arguments})"
        case ToolResult(_, content):
            return " ".join(block_text(part) for part in content)
        case Image(media_type):
            return f"[{media_type}]"
    return f"[{block.type}]"


def _words(words: Words) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words


def _missing(
    key: str, words: Words, found: str | list[str], shown: str | None = None
) -> Iterator[str]:
    for word in _words(words):
        if word not in found:
            yield f"{key}: expected {word!r}, found: {excerpt(shown or str(found))}"


def _unwanted(
    key: str, words: Words, found: str | list[str], shown: str | None = None
) -> Iterator[str]:
    for word in _words(words):
        if word in found:
            around = found.index(word) if isinstance(found, str) else None
            yield f"{key}: did not expect {word!r}, found: {excerpt(shown or str(found), around)}"
