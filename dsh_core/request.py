"""What is sent to a model: `Request`, and the drafts that plugins may edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dsh_core.codec import freeze
from dsh_core.messages import Message
from dsh_core.record import record


@record()
class ToolSchema:
    """A tool as the model sees it. `parameters` is JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Draft:
    """Attributes that plugins may reassign until the draft is frozen; remembers who did.

    The dispatcher sets `writer` to the plugin that is running, so `changed_by` can always say
    which plugin wrote a field last.
    """

    __slots__ = ("_changed_by", "_frozen", "_writer")

    _changed_by: dict[str, str]
    _frozen: bool
    _writer: str | None

    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        object.__setattr__(self, "_frozen", False)
        object.__setattr__(self, "_writer", None)
        object.__setattr__(self, "_changed_by", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if self._frozen:
            raise AttributeError(f"{type(self).__name__}.{name} is frozen here")
        if self._writer is not None and name in self.fields:
            self._changed_by[name] = self._writer
        object.__setattr__(self, name, value)

    def written_by(self, writer: str | None) -> str | None:
        """Attribute changes from here on to `writer`; return who wrote before."""
        before = self._writer
        object.__setattr__(self, "_writer", writer)
        return before

    @property
    def changed_by(self) -> Mapping[str, str]:
        """Field name → the plugin that wrote it last."""
        return self._changed_by

    def freeze(self) -> None:
        """Refuse changes from here on."""
        object.__setattr__(self, "_frozen", True)

    def values(self) -> dict[str, Any]:
        """Return the current fields, for comparing."""
        return {name: getattr(self, name) for name in self.fields}

    def adopt(self, other: Draft, writer: str | None) -> None:
        """Inherit who changed what in `other`; fields that differ were written by `writer`."""
        self._changed_by.update(other.changed_by)
        if writer is None:
            return
        for name in self.fields:
            if getattr(self, name) is not getattr(other, name):
                self._changed_by[name] = writer


class Request(Draft):
    """One model call. Plain attributes, to be reassigned by `agent_request` implementations.

    Args:
        model: The route, `provider/model`.
        messages: The history, oldest first.
        system: The system text, "" for none.
        tools: What the model may call.
        parameters: Provider parameters by their wire name, as in `temperature`, `max_tokens`,
            `tool_choice`. None values are not sent.
        stream: Whether to ask for a stream; the chunks are the same either way.
        session_id: The session this belongs to, for adapters and proxies that want it.

    """

    __slots__ = ("messages", "model", "parameters", "session_id", "stream", "system", "tools")
    fields = ("model", "messages", "system", "tools", "parameters", "stream")

    model: str
    messages: tuple[Message, ...]
    system: str
    tools: tuple[ToolSchema, ...]
    parameters: Mapping[str, Any]
    stream: bool
    session_id: str | None

    def __init__(
        self,
        model: str,
        messages: tuple[Message, ...] = (),
        *,
        system: str = "",
        tools: tuple[ToolSchema, ...] = (),
        parameters: Mapping[str, Any] | None = None,
        stream: bool = True,
        session_id: str | None = None,
    ):
        super().__init__()
        self.model = model
        self.messages = messages
        self.system = system
        self.tools = tools
        self.parameters = parameters or {}
        self.stream = stream
        self.session_id = session_id

    @property
    def provider(self) -> str:
        """The part of the route before the first slash."""
        return self.model.partition("/")[0]

    @property
    def model_name(self) -> str:
        """The part of the route after the first slash: the provider's name of the model."""
        return self.model.partition("/")[2]

    def freeze(self) -> None:
        """Refuse changes from here on, to the parameters too. Nothing more the second time."""
        if self._frozen:
            return
        self.messages = tuple(self.messages)
        self.tools = tuple(self.tools)
        self.parameters = freeze(dict(self.parameters))
        super().freeze()


@record()
class Retry:
    """The answer of `agent_request_error`: ask again after `delay_seconds`."""

    delay_seconds: float = 0.0


@record()
class Section:
    """A named part of the system text. Sections are sorted by `order`, then name.

    Bands: −100 identity, 0 the agent's own `system_prompt`, 100–199 guidance for tools.
    """

    name: str
    text: str
    order: float = 0.0


class Assembly(Draft):
    """System text and tools of a step, as `system_prompt_assemble` implementations edit them.

    Args:
        sections: In order; joined by a blank line.
        tools: What the model may call, in the order it sees them.

    Attributes:
        contributed: Section name → who brought it and its text, before anybody edited.

    """

    __slots__ = ("contributed", "sections", "tools")
    fields = ("sections", "tools")

    sections: tuple[Section, ...]
    tools: tuple[ToolSchema, ...]
    contributed: Mapping[str, tuple[str, str]]

    def __init__(self, sections: tuple[Section, ...], tools: tuple[ToolSchema, ...]):
        super().__init__()
        self.sections = sections
        self.tools = tools
        self.contributed = {}

    @property
    def system(self) -> str:
        """The system text."""
        return "\n\n".join(section.text for section in self.sections if section.text)
