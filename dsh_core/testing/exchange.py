"""One exchange with the model server: what a client asked, and how it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

Ending: TypeAlias = Literal["complete", "close", "reset", "stall"]
"""What happens after the last part of a body: it ends properly; the socket closes without the end
of the body (FIN); the socket is reset (RST); nothing more comes until the client goes."""

Part: TypeAlias = bytes | float
"""Bytes that travel as one HTTP chunk, or a pause in seconds."""

BYTES_PER_TOKEN = 4

State: TypeAlias = Literal["open", "answered", "gone", "stopped"]


@dataclass(slots=True, eq=False)
class ModelRequest:
    """A chat-completions request as it arrived.

    Args:
        number: Counts the requests of a server from 1.
        path: With its query.
        headers: By lower-case name.
        raw: The bytes of the body.
        body: The body, parsed.
        problems: What a real provider would refuse it for; found only by a strict server.
        is_counted: Whether replies report the tokens of this request as their usage.
        behaviour: The verb that answers it, as in `rate_limit`.
        state: `open` while the answer is under way, `answered` once it went out as scripted (a
            scripted disconnect too), `gone` when the client left first, `stopped` when the
            server was closed first.
    """

    number: int
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    is_counted: bool = False
    behaviour: str = ""
    state: State = "open"

    @property
    def stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return self.body.get("stream") is True

    @property
    def tokens(self) -> int:
        """The size of the request by the server's measure: four bytes of the body are a token."""
        return len(self.raw) // BYTES_PER_TOKEN

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages, as sent; those that are not objects are left out."""
        messages = self.body.get("messages")
        if not isinstance(messages, list):
            return []
        return [message for message in messages if isinstance(message, dict)]

    @property
    def last_text(self) -> str:
        """The text of the last message, its text parts joined."""
        content = self.messages[-1].get("content") if self.messages else None
        if isinstance(content, list):
            return "".join(str(part.get("text", "")) for part in content)
        return content if isinstance(content, str) else ""

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools on offer, in order."""
        return [tool["function"]["name"] for tool in self.body.get("tools") or ()]

    def __repr__(self) -> str:
        role = self.messages[-1].get("role") if self.messages else None
        return (
            f"<request {self.number}: {len(self.messages)} messages, last {role} "
            f"{self.last_text[:60]!r}, {self.behaviour or 'no behaviour'}, {self.state}>"
        )


@dataclass(frozen=True, slots=True)
class Response:
    """What goes over the wire.

    Args:
        status: None = neither head nor framing: the parts go out as they are.
        headers: Beside `content-length` or `transfer-encoding`, which follow from the rest.
        parts: The body; each piece of bytes is one HTTP chunk.
        ending: What happens after the last part.
        wait_seconds: Silence before the head.
        keep_alive_seconds: Pause between the comments that are sent while stalling; None = none.
    """

    status: int | None = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    ending: Ending = "complete"
    wait_seconds: float = 0.0
    keep_alive_seconds: float | None = None


class Behaviour(Protocol):
    """How the server answers one request. `dsh_core.testing.behaviours` has them all."""

    @property
    def verb(self) -> str:
        """The word that made it, for messages."""

    def response(self, request: ModelRequest) -> Response:
        """Return the answer to `request`, as a stream or as plain JSON as it asks."""


Scripted: TypeAlias = Behaviour | Callable[[ModelRequest], Behaviour | Awaitable[Behaviour]]
"""An entry of a script: a behaviour, or a function, async or not, that chooses one."""
