"""A model's reply in the wire format of chat completions, as a stream or as plain JSON.

Format: https://platform.openai.com/docs/api-reference/chat-streaming, with DeepSeek's
`reasoning_content` beside `content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dsh_core.testing.exchange import BYTES_PER_TOKEN, Ending, ModelRequest, Part, Response

USAGE: Mapping[str, Any] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
"""What every reply costs unless it says otherwise, or the server counts: constant, so that logs
compare equal."""

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
JSON = {"content-type": "application/json"}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; in a script of its own, a reply that consists of it.

    Args:
        name: The tool's name.
        arguments: A mapping, or the raw string to send, valid JSON or not.
        id: None = `call_<request>_<index>`, unique per server.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}
    name: str
    arguments: Mapping[str, Any] | str = "{}"
    id: str | None = None

    @property
    def verb(self) -> str:
        """The word that made it."""
        return "call"

    def response(self, request: ModelRequest) -> Response:
        """Answer with this one call."""
        return Reply("call", calls=(self,)).response(request)

    def raw_arguments(self) -> str:
        """The arguments as they are sent."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, whole or cut short; the verbs of `dsh_core.testing.behaviours` make them.

    Args:
        verb: The word that made it.
        text: Sent in pieces of `chunk_chars` characters.
        reasoning: Sent before the text, as `reasoning_content`.
        calls: Sent after the text.
        finish: The wire's `finish_reason`; None = `tool_calls` with calls, else `stop`.
        usage: As on the wire; streamed only to clients that ask for it with
            `stream_options.include_usage`, as OpenAI does. None = never sent.
        chunk_chars: Characters of text, reasoning or arguments per event.
        delay_seconds: Pause before every event but the first.
        wait_seconds: Silence before the head of the response.
        finished: False = neither finish, usage nor `[DONE]` is sent.
        tail: Payload of one more event after an unfinished reply, valid JSON or not; a request
            without streaming gets it as its whole body.
        ending: What happens after the last event.
        keep_alive_seconds: See `Response`.
    """

    verb: str = "reply"
    text: str = ""
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    usage: Mapping[str, Any] | None = None
    chunk_chars: int = 16
    delay_seconds: float = 0.0
    wait_seconds: float = 0.0
    finished: bool = True
    tail: str | None = None
    ending: Ending = "complete"
    keep_alive_seconds: float | None = None

    def response(self, request: ModelRequest) -> Response:
        """Render the reply as `request` asks for it."""
        events = self._events(request) if request.stream else iter([self._document(request)])
        return Response(
            200,
            {**(EVENT_STREAM if request.stream else JSON), "x-request-id": _request_id(request)},
            tuple(_with_pauses(events, self.delay_seconds)),
            self.ending,
            self.wait_seconds,
            self.keep_alive_seconds,
        )

    @property
    def finish_reason(self) -> str:
        """The wire's `finish_reason`."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    def _events(self, request: ModelRequest) -> Iterator[bytes]:
        for delta in self._deltas(request):
            yield event(_chunk(request, delta))
        if self.tail is not None:
            yield f"data: {self.tail}\n\n".encode()
        if not self.finished:
            return
        yield event(_chunk(request, {}, self.finish_reason))
        usage = self._usage(request)
        if usage is not None and _wants_usage(request):
            yield event({**_chunk(request, {}), "choices": [], "usage": usage})
        yield DONE

    def _usage(self, request: ModelRequest) -> Mapping[str, Any] | None:
        if self.usage is not USAGE or not request.is_counted:
            return self.usage
        said = [self.text, self.reasoning or "", *(call.raw_arguments() for call in self.calls)]
        output = sum(len(text.encode()) for text in said) // BYTES_PER_TOKEN
        return {
            "prompt_tokens": request.tokens,
            "completion_tokens": output,
            "total_tokens": request.tokens + output,
        }

    def _deltas(self, request: ModelRequest) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        for piece in _pieces(self.reasoning or "", self.chunk_chars):
            yield {"reasoning_content": piece}
        for piece in _pieces(self.text, self.chunk_chars):
            yield {"content": piece}
        for index, call in enumerate(self.calls):
            head = {"index": index, **_wire_call(call, request, index, arguments="")}
            yield {"tool_calls": [head]}
            for piece in _pieces(call.raw_arguments(), self.chunk_chars):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _document(self, request: ModelRequest) -> bytes:
        if self.tail is not None:
            return self.tail.encode()
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                _wire_call(call, request, index, arguments=call.raw_arguments())
                for index, call in enumerate(self.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        document = {**_envelope(request, "chat.completion"), "choices": [choice]}
        usage = self._usage(request)
        if usage is not None:
            document["usage"] = usage
        whole = encode(document)
        return whole if self.finished else whole[: len(whole) // 2]


def encode(value: Any) -> bytes:
    """Return JSON as UTF-8; a lone surrogate goes out as its escape, as providers send it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def event(value: Any) -> bytes:
    """Return one server-sent event that carries `value` as JSON."""
    return b"data: " + encode(value) + b"\n\n"


def _chunk(
    request: ModelRequest, delta: Mapping[str, Any], finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**_envelope(request, "chat.completion.chunk"), "choices": [choice]}


def _envelope(request: ModelRequest, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{request.number}",
        "object": kind,
        "created": 0,
        "model": request.body.get("model", ""),
    }


def _wire_call(call: Call, request: ModelRequest, index: int, *, arguments: str) -> dict[str, Any]:
    return {
        "id": call.id or f"call_{request.number}_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _wants_usage(request: ModelRequest) -> bool:
    options = request.body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _request_id(request: ModelRequest) -> str:
    return f"req_{request.number}"


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _with_pauses(events: Iterator[bytes], delay_seconds: float) -> Iterator[Part]:
    for index, data in enumerate(events):
        if index and delay_seconds:
            yield delay_seconds
        yield data
