"""What a scripted model server can do with a request, one verb each.

A script reads like a story: `[call("bash", {"command": "ls"}), rate_limit(retry_after=0),
reply("done")]`. Every verb serves streaming and plain JSON requests alike.

::

    answers          reply, call, slow, max_tokens, empty, content_filter
    refusals         rate_limit, server_error, service_unavailable, auth_error, invalid_request,
                     context_overflow, quota_exceeded, http_error
    broken replies   empty_body, stream_eof, partial_eof, malformed_json, malformed_event,
                     wrong_content_type, error_in_stream
    broken sockets   refuse, connection_reset, stream_disconnect, partial_disconnect, stall
    bytes            raw
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dsh_core.testing.completions import EVENT_STREAM, JSON, USAGE, Call, Reply, encode
from dsh_core.testing.exchange import Behaviour, Ending, ModelRequest, Response


@dataclass(frozen=True, slots=True)
class Fixed:
    """An answer that does not depend on the request."""

    verb: str
    answer: Response

    def response(self, request: ModelRequest) -> Response:
        """Return the fixed answer."""
        return self.answer


@dataclass(frozen=True, slots=True)
class Refusal:
    """An HTTP error in the provider's usual JSON."""

    verb: str
    status: int
    error: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, request: ModelRequest) -> Response:
        """Render the error; it carries the request's id."""
        headers = {**JSON, "x-request-id": f"req_{request.number}", **self.headers}
        return Response(self.status, headers, (encode({"error": self.error}),))


# ------------------------------------------------------------------------------- answers


def reply(
    text: str = "",
    *,
    reasoning: str | None = None,
    calls: Sequence[Call] = (),
    finish: str | None = None,
    usage: Mapping[str, Any] | None = USAGE,
    chunk_chars: int = 16,
    delay_seconds: float = 0.0,
) -> Reply:
    """Answer in full; see `Reply` for the arguments.

    Example:
        reply("Two at once.", calls=[call("read", {"path": "a"}), call("read", {"path": "b"})])
    """
    return Reply(
        "reply",
        text,
        reasoning,
        tuple(calls),
        finish,
        usage,
        chunk_chars=chunk_chars,
        delay_seconds=delay_seconds,
    )


def call(name: str, arguments: Mapping[str, Any] | str = "{}", *, id: str | None = None) -> Call:  # noqa: A002 - the wire's word
    """Call one tool; a string of arguments is sent as it is. Several at once: `reply(calls=…)`."""
    return Call(name, arguments, id)


def slow(text: str = "slow", *, delay_seconds: float = 0.05, wait_seconds: float = 0.0) -> Reply:
    """Answer with a pause before the head and before every event but the first."""
    return Reply(
        "slow",
        text,
        usage=USAGE,
        chunk_chars=4,
        delay_seconds=delay_seconds,
        wait_seconds=wait_seconds,
    )


def max_tokens(text: str = "cut o", *, calls: Sequence[Call] = ()) -> Reply:
    """Stop at the output limit; the arguments of the last call are usually cut in the middle."""
    return Reply("max_tokens", text, calls=tuple(calls), finish="length", usage=USAGE)


def empty() -> Reply:
    """Finish properly without having said anything."""
    return Reply("empty", usage=USAGE)


def content_filter(text: str = "") -> Reply:
    """Stop because the provider's filter stepped in."""
    return Reply("content_filter", text, finish="content_filter", usage=USAGE)


# ------------------------------------------------------------------------------ refusals


def http_error(
    status: int,
    message: str,
    *,
    type: str = "server_error",  # noqa: A002 - the wire's word
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refusal:
    """Refuse with any status."""
    return _refusal("http_error", status, message, type, code, headers)


def rate_limit(*, retry_after: float | str | None = None) -> Refusal:
    """429; `retry_after` is the header's value: seconds, or an HTTP date as text."""
    return _refusal(
        "rate_limit",
        429,
        "Rate limit reached for requests",
        "requests",
        "rate_limit_exceeded",
        _retry_after(retry_after),
    )


def server_error(message: str = "The server had an error") -> Refusal:
    """500."""
    return _refusal("server_error", 500, message, "server_error")


def service_unavailable(*, retry_after: float | str | None = None) -> Refusal:
    """503; `retry_after` as for `rate_limit`."""
    message = "The engine is currently overloaded"
    headers = _retry_after(retry_after)
    return _refusal("service_unavailable", 503, message, "server_error", headers=headers)


def auth_error() -> Refusal:
    """401: the key is wrong."""
    message = "Incorrect API key provided"
    return _refusal("auth_error", 401, message, "invalid_request_error", "invalid_api_key")


def invalid_request(message: str = "Invalid value for 'temperature'") -> Refusal:
    """400: the request is at fault, and so asking again does not help."""
    return _refusal("invalid_request", 400, message, "invalid_request_error")


def context_overflow(*, limit_tokens: int = 8192, asked_tokens: int = 9000) -> Refusal:
    """400: the conversation does not fit the model's window."""
    message = (
        f"This model's maximum context length is {limit_tokens} tokens. However, your messages "
        f"resulted in {asked_tokens} tokens. Please reduce the length of the messages."
    )
    code = "context_length_exceeded"
    return _refusal("context_overflow", 400, message, "invalid_request_error", code)


def quota_exceeded(*, status: int = 429) -> Refusal:
    """The account is out of money: 429 at OpenAI, 402 at DeepSeek."""
    message = "You exceeded your current quota, please check your plan and billing details"
    kind = "insufficient_quota"
    return _refusal("quota_exceeded", status, message, kind, kind)


# ------------------------------------------------------------------------ broken replies


def empty_body() -> Fixed:
    """200 with an event stream that holds not one byte."""
    return Fixed("empty_body", Response(200, EVENT_STREAM))


def stream_eof() -> Reply:
    """End the body properly after the opening event, without a finish."""
    return Reply("stream_eof", finished=False)


def partial_eof(text: str = "half an ans") -> Reply:
    """End the body properly after some text, without a finish; plain JSON ends in the middle."""
    return Reply("partial_eof", text, finished=False)


def malformed_json(after_text: str = "") -> Reply:
    """Send an event (plain: a body) that is not JSON."""
    return Reply("malformed_json", after_text, finished=False, tail='{"choices": [{"delta":')


def malformed_event(after_text: str = "") -> Reply:
    """Send an event (plain: a body) that is JSON but no chat completion."""
    return Reply("malformed_event", after_text, finished=False, tail='{"choices": "none today"}')


def wrong_content_type() -> Fixed:
    """200 with a web page, as proxies and login portals answer."""
    page = b"<!doctype html><title>Sign in</title><p>Please sign in to continue."
    headers = {"content-type": "text/html; charset=utf-8"}
    return Fixed("wrong_content_type", Response(200, headers, (page,)))


def error_in_stream(
    message: str = "The server had an error", *, code: str = "server_error", after_text: str = ""
) -> Reply:
    """200, then an error as an event of its own (plain: as the body), and a proper end."""
    tail = json.dumps({"error": {"message": message, "type": code, "code": code}})
    return Reply("error_in_stream", after_text, finished=False, tail=tail)


# ------------------------------------------------------------------------ broken sockets


def refuse() -> Fixed:
    """Take the request and close the socket before the head of a response."""
    return Fixed("refuse", Response(None, ending="close"))


def connection_reset() -> Fixed:
    """Take the request and reset the socket before the head of a response."""
    return Fixed("connection_reset", Response(None, ending="reset"))


def stream_disconnect(*, reset: bool = False) -> Reply:
    """Close the socket in mid-body after the opening event; `reset` sends RST instead of FIN."""
    return Reply("stream_disconnect", finished=False, ending="reset" if reset else "close")


def partial_disconnect(text: str = "half an ans", *, reset: bool = False) -> Reply:
    """Close the socket in mid-body after some text.

    `reset` sends RST instead of FIN; on some systems that takes text still under way with it.
    """
    ending: Ending = "reset" if reset else "close"
    return Reply("partial_disconnect", text, finished=False, ending=ending)


def stall(
    after_text: str = "", *, keep_alive_comments: bool = False, comment_seconds: float = 0.05
) -> Reply:
    """Say `after_text`, then nothing until the client goes or the server is closed.

    `keep_alive_comments` sends an SSE comment every `comment_seconds`, as some providers do while
    they queue a request.
    """
    return Reply(
        "stall",
        after_text,
        finished=False,
        ending="stall",
        keep_alive_seconds=comment_seconds if keep_alive_comments else None,
    )


# --------------------------------------------------------------------------------- bytes


def raw(
    *pieces: bytes,
    cuts: int | Sequence[int] = (),
    status: int | None = 200,
    content_type: str = "text/event-stream",
    ending: Ending = "complete",
) -> Fixed:
    """Send a body byte by byte as given.

    Args:
        pieces: Each travels as an HTTP chunk of its own.
        cuts: Cuts the joined pieces anew: at these offsets, or, when a number, every so many bytes.
        status: None = there is no head and no framing: the pieces are all the client gets.
        content_type: Of the head.
        ending: See `Response`.
    """
    parts = tuple(_cut(b"".join(pieces), cuts)) if cuts else pieces
    return Fixed("raw", Response(status, {"content-type": content_type}, parts, ending))


BEHAVIOURS: Mapping[str, Callable[..., Behaviour]] = {
    verb.__name__: verb
    for verb in (
        *(reply, call, slow, max_tokens, empty, content_filter),
        *(rate_limit, server_error, service_unavailable, auth_error, invalid_request),
        *(context_overflow, quota_exceeded, http_error),
        *(empty_body, stream_eof, partial_eof, malformed_json, malformed_event),
        *(wrong_content_type, error_in_stream),
        *(refuse, connection_reset, stream_disconnect, partial_disconnect, stall),
    )
}
"""The verbs a script in YAML may use, by name."""


def _refusal(
    verb: str,
    status: int,
    message: str,
    kind: str,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refusal:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Refusal(verb, status, error, headers or {})


def _retry_after(value: float | str | None) -> dict[str, str]:
    if value is None:
        return {}
    return {"retry-after": value if isinstance(value, str) else f"{value:g}"}


def _cut(data: bytes, cuts: int | Sequence[int]) -> list[bytes]:
    at = range(cuts, len(data), cuts) if isinstance(cuts, int) else sorted(cuts)
    edges = [0, *at, len(data)]
    return [data[start:end] for start, end in pairwise(edges) if start < end]
