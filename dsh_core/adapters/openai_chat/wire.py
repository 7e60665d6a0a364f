"""Requests as bytes: each message is encoded once and kept, a request joins them.

Fields as in https://platform.openai.com/docs/api-reference/chat/create; `reasoning_content` as in
https://api-docs.deepseek.com/guides/thinking_mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from dsh_core.adapters.strict_json import parser
from dsh_core.codec import clean_text
from dsh_core.content import Block, Image, Reasoning, Text, ToolCall, ToolResult, text_of
from dsh_core.errors import LlmFailure
from dsh_core.llm.adapter import ModelConfig, ReasoningPolicy
from dsh_core.messages import Message, all_encoded
from dsh_core.record import record
from dsh_core.request import Request, ToolSchema

K = TypeVar("K")

_KEYS: Mapping[ReasoningPolicy, str] = {
    "auto": "openai_chat:auto",
    "send": "openai_chat:send",
    "drop": "openai_chat:drop",
}
"""What a message's bytes depend on besides the message: the policy on reasoning."""

_OWN_PARAMETERS = frozenset({"messages", "model", "stream", "tools"})
_ODD_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NAME_CHARACTERS = 64
_KEPT = 256  # system texts and tools kept; a process has few, and starting over costs little


class _WithCalls(bytes):
    """The bytes of a message that holds tool calls, with the calls' ids."""

    ids: tuple[str, ...]


@record(eq=False)
class _Head:
    """The beginning of a request, and what it was made from."""

    asked: tuple[str, bool, tuple[ToolSchema, ...]]
    parameters: Mapping[str, Any]
    model: ModelConfig
    data: bytes

    def is_for(self, asked: object, parameters: Mapping[str, Any], model: ModelConfig) -> bool:
        """Whether a request begins the same. Of parameters equality says too little: True is 1."""
        return self.parameters is parameters and self.model is model and self.asked == asked


class RequestEncoder:
    """Encodes the requests of one provider.

    Args:
        system_role: The role of the system text.
        include_usage: Whether to ask for usage at the end of a stream.
    """

    def __init__(self, *, system_role: str = "system", include_usage: bool = True):
        self._system_role = system_role
        self._include_usage = include_usage
        self._systems: dict[str, bytes] = {}
        self._tools: dict[int, tuple[ToolSchema, bytes]] = {}
        self._last: _Head | None = None

    def encode(self, request: Request, model: ModelConfig) -> bytes:
        """Return the body of a request, UTF-8.

        Raises `LlmFailure` `INVALID_REQUEST` for parameters that are the adapter's own or no JSON.
        """
        key = _KEYS[model.reasoning]
        parts = [
            _keep(message, key) if data is None else data
            for message, data in zip(
                request.messages, all_encoded(request.messages, key), strict=True
            )
        ]
        if _WithCalls in set(map(type, parts)):
            ids = [call_id for part in parts if type(part) is _WithCalls for call_id in part.ids]
            if len(set(ids)) != len(ids) or "" in ids:
                parts = list(_with_unique_ids(request.messages, key))
        if not all(parts):  # a message of nothing that the model is shown
            parts = [part for part in parts if part]
        head = self._head(request, model)
        if request.system:
            parts.insert(0, self._system(request.system))
        if not parts:
            return head + b"]}"
        parts[0] = head + parts[0]
        parts[-1] += b"]}"
        return b",".join(parts)

    def _head(self, request: Request, model: ModelConfig) -> bytes:
        """Return everything up to the first message; mostly what it was last time."""
        asked = (request.model_name, request.stream, request.tools)
        last = self._last
        if last is None or not last.is_for(asked, request.parameters, model):
            data = self._make_head(request, model)
            last = self._last = _Head(asked, request.parameters, model, data)
        return last.data

    def _make_head(self, request: Request, model: ModelConfig) -> bytes:
        given = {**model.parameters, **request.parameters}
        fields = {name: value for name, value in given.items() if value is not None}
        if own := _OWN_PARAMETERS & fields.keys():
            raise LlmFailure("INVALID_REQUEST", f"{min(own)!r} cannot be given as a parameter")
        head: dict[str, Any] = {"model": request.model_name, "stream": request.stream}
        if request.stream and self._include_usage:
            head["stream_options"] = {"include_usage": True}
        try:
            data = _to_bytes({**head, **fields})
        except (TypeError, ValueError, RecursionError) as error:
            raise LlmFailure("INVALID_REQUEST", f"a parameter is no JSON: {error}") from error
        tools = b",".join([self._tool(tool) for tool in request.tools])
        return b'%b%b,"messages":[' % (data[:-1], b',"tools":[%b]' % tools if tools else b"")

    def _system(self, text: str) -> bytes:
        data = self._systems.get(text)
        if data is None:
            message = {"role": self._system_role, "content": text}
            data = _room(self._systems)[text] = _to_bytes(message)
        return data

    def _tool(self, tool: ToolSchema) -> bytes:
        kept = self._tools.get(id(tool))
        if kept is None or kept[0] is not tool:
            function = {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            }
            data = _to_bytes({"type": "function", "function": function})
            kept = _room(self._tools)[id(tool)] = (tool, data)
        return kept[1]


def _room(kept: dict[K, Any]) -> dict[K, Any]:
    if len(kept) >= _KEPT:
        kept.clear()
    return kept


def _keep(message: Message, key: str) -> bytes:
    """Encode a message and keep its bytes."""
    ids = tuple(block.id for block in message.content if isinstance(block, ToolCall))
    data = _encode(message, key, iter(ids), iter(()))
    if ids:
        data = _WithCalls(data)
        data.ids = ids
    return message.keep_encoded(key, data)


def _with_unique_ids(messages: Iterable[Message], key: str) -> Iterator[bytes]:
    """Encode messages whose call ids repeat or are empty, each call under an id of its own.

    Servers that number calls per turn repeat ids. A result belongs to the first open call of its
    step with its `call_id`. What a call is named depends on the messages before it alone, so the
    bytes stay the same as the history grows.
    """
    used: dict[str, int] = {}
    open_calls: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "assistant":
            old = [block.id for block in message.content if isinstance(block, ToolCall)]
            new = tuple([_unused(call_id, used) for call_id in old])
            open_calls = list(zip(old, new, strict=True))
        else:
            old = [block.call_id for block in message.content if isinstance(block, ToolResult)]
            new = tuple([_claim(call_id, open_calls) for call_id in old])
        kept_as = (key, new) if list(new) != old else key
        data = message.encoded(kept_as)
        if data is None:
            data = message.keep_encoded(kept_as, _encode(message, key, iter(new), iter(new)))
        yield data


def _unused(call_id: str, used: dict[str, int]) -> str:
    """Return the id, or with a number after it; `used` maps ids to the last number they took."""
    stem = name = call_id or "call"
    number = used.get(stem, 1)
    while name in used:
        number += 1
        name = f"{stem}-{number}"
    used[stem] = number
    used.setdefault(name, 1)
    return name


def _claim(call_id: str, open_calls: list[tuple[str, str]]) -> str:
    for position, (old, new) in enumerate(open_calls):
        if old == call_id:
            del open_calls[position]
            return new
    return call_id


def _encode(message: Message, key: str, calls: Iterator[str], results: Iterator[str]) -> bytes:
    """Encode a message as none, one or several of the wire's; ids come from the iterators."""
    if message.role == "assistant":
        return _to_bytes(_assistant(message, key, calls))
    wired: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": next(results, block.call_id),
            "content": _result_text(block.content),
        }
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    if content := _user_content(message.content):
        wired.append({"role": "user", "content": content})
    return b",".join([_to_bytes(part) for part in wired])


def _assistant(message: Message, key: str, ids: Iterator[str]) -> dict[str, Any]:
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    wired: dict[str, Any] = {"role": "assistant", "content": message.text}
    if key == _KEYS["send"] or (calls and key == _KEYS["auto"]):
        thoughts = [block.text for block in message.content if isinstance(block, Reasoning)]
        if reasoning := "".join(thoughts):
            wired["reasoning_content"] = reasoning
    if calls:
        wired["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": _safe_name(call.name),
                    "arguments": _safe_arguments(call.arguments),
                },
            }
            for call, call_id in zip(calls, ids, strict=True)
        ]
    return wired


def _user_content(blocks: Iterable[Block]) -> str | list[dict[str, Any]]:
    shown = [block for block in blocks if isinstance(block, (Text, Image))]
    if not any(isinstance(block, Image) for block in shown):
        return text_of(shown)
    return [
        {"type": "text", "text": block.text}
        if isinstance(block, Text)
        else {
            "type": "image_url",
            "image_url": {"url": f"data:{block.media_type};base64,{block.data}"},
        }
        for block in shown
    ]


def _result_text(blocks: Iterable[Block]) -> str:
    """Return a result's text: tool messages carry no images, and some servers refuse empty ones."""
    parts = []
    for block in blocks:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, Image):
            parts.append(f"({block.media_type} image, not shown)")
    text = "".join(parts)
    return text if text.strip() else "(no output)"


def _safe_name(name: str) -> str:
    """Make a name that a model invented fit `^[A-Za-z0-9_-]{1,64}$`."""
    return _ODD_IN_NAME.sub("_", name)[:_NAME_CHARACTERS] or "_"


def _safe_arguments(raw: str) -> str:
    """Return arguments that a server can parse: the model's own text where it is a JSON object."""
    try:
        return raw if isinstance(parser()(raw), dict) else "{}"
    except (TypeError, ValueError):
        return _mended_arguments(raw)


def _mended_arguments(raw: str) -> str:
    """Do the same for what is not strict: lone surrogates are replaced, the rest is `{}`."""
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
        return clean_text(_ENCODER.encode(value)) if isinstance(value, dict) else "{}"
    except (ValueError, RecursionError):
        return "{}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain
)


def _to_bytes(value: Any) -> bytes:
    """Encode JSON as UTF-8; lone surrogates become U+FFFD."""
    text = _ENCODER.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean_text(text).encode()
