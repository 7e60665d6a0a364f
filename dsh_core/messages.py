"""Messages: what the model is shown. Derived from the session log, never stored beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from dsh_core.codec import Tagged, case, sum_type
from dsh_core.content import Block, text_of
from dsh_core.record import record


@sum_type
class Source(Tagged):
    """Who a message comes from."""

    __slots__ = ()


@case("user")
class UserSource(Source):
    """The person, through a front end."""


@case("plugin")
class PluginSource(Source):
    """A plugin; `form` tells its kinds of message apart."""

    plugin: str
    form: str | None = None


@case("agent")
class AgentSource(Source):
    """Another agent."""

    agent: str


@case("unknown")
class UnknownSource(Source):
    """A source whose plugin is gone."""

    name: str
    fields: Mapping[str, Any]


Source.unknown = UnknownSource

USER = UserSource()


@record()
class Message:
    """One message of the model's history. Frozen and shared: never copied, never mutated.

    A tool result is a `user` message with one `ToolResult` block. `model` is the route that
    produced an assistant message, so that an adapter can tell its own replies from others'.
    """

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    source: Source | None = None
    model: str | None = None
    _wire: dict[Any, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    def encoded(self, key: Any) -> bytes | None:
        """Return the bytes an adapter kept for this message under `key`, if any."""
        return self._wire.get(key)

    def keep_encoded(self, key: Any, data: bytes) -> bytes:
        """Keep an adapter's bytes for this message: each message is encoded once."""
        self._wire[key] = data
        return data


def all_encoded(messages: Iterable[Message], key: Any) -> list[bytes | None]:
    """Return what `Message.encoded` gives for each message, quicker: this is once per request."""
    return [message._wire.get(key) for message in messages]
