"""One request and its answer: sends, reads, and says what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from dsh_core.adapters.openai_chat.reply import Reply
from dsh_core.adapters.openai_chat.watchdog import Watchdog
from dsh_core.adapters.sse import EVENT_LIMIT_BYTES, OverlongError, SseDecoder
from dsh_core.errors import LlmFailure

if TYPE_CHECKING:
    import httpx

    from dsh_core.adapters.openai_chat.endpoint import Endpoint

T = TypeVar("T")

SETTLE_SECONDS = 10.0
"""How long usage and `[DONE]` may take after a finish_reason; the answer is whole without them."""

DRAIN_SECONDS = 0.25
"""How long the end of the body may take after `[DONE]`. A connection is used again only when its
body was read to the end, which mostly comes with `[DONE]`; a new one costs a TLS handshake."""

BODY_LIMIT_BYTES = 65536
"""How much is read of a body that is only good for a message."""

ANSWER_LIMIT_BYTES = 256 * 1024 * 1024
"""How much one answer may be, `CHUNK_BYTES` for each of its chunks included. The largest output
that a provider documents is 128,000 tokens (https://platform.openai.com/docs/models/gpt-5); sent
one by one, in events of 400 bytes as usual, they are 84 MB."""

CHUNK_BYTES = 256
"""What a chunk takes in the session's log, its text apart; an endless reply of single characters
would fill memory long before their bytes do."""

_BLANK = b"\xef\xbb\xbf \t\r\n"  # what may stand before anything, a byte order mark included


class Exchange:
    """One attempt: `begin`, then `read` while it says True; `close` in any case.

    Args:
        endpoint: Where the request goes.
        idle_seconds: Silence allowed; 0 = any.
    """

    __slots__ = (
        "_body",
        "_body_bytes",
        "_decoder",
        "_endpoint",
        "_errors",
        "_feed",
        "_head",
        "_idle_seconds",
        "_is_settling",
        "_left_bytes",
        "_next",
        "_pieces",
        "_reply",
        "_request_id",
        "_response",
        "_watchdog",
    )

    def __init__(self, endpoint: Endpoint, idle_seconds: float):
        self._endpoint = endpoint
        self._errors = (asyncio.CancelledError, endpoint.http.HTTPError)
        self._idle_seconds = idle_seconds
        self._watchdog = Watchdog(idle_seconds)
        self._response: httpx.Response | None = None
        self._decoder = SseDecoder()
        self._feed: Callable[[bytes], list[bytes]] = self._feed_first
        self._head = b""
        self._body: list[bytes] = []  # the pieces of a body that is one JSON object
        self._body_bytes = 0
        self._left_bytes = ANSWER_LIMIT_BYTES
        self._is_settling = False

    async def begin(self, client: httpx.AsyncClient, body: bytes) -> Reply:
        """Send the request and wait for the head of the answer; return where it will be folded.

        Raises `LlmFailure` for an answer that is not 200, or none, or compressed: a small one could
        become any size, and nobody asked for it.
        """
        request = self._endpoint.request(body)
        response = await self._wait(client.send(request, stream=True))
        self._response = response
        # what `aiter_raw` iterates, without its own work on each piece
        self._pieces = aiter(cast("AsyncIterator[bytes]", response.stream))
        self._next = self._pieces.__anext__
        failures, headers = self._endpoint.failures, response.headers
        encoding = headers.get("content-encoding", "").strip().lower() or "identity"
        if response.status_code != 200:
            excerpt = await self._read_some() if encoding == "identity" else b""
            raise failures.refused(response.status_code, headers, excerpt)
        self._request_id = failures.request_id(headers)
        if encoding != "identity":
            what = "a compressed body though none was asked for"
            raise failures.malformed(what, encoding.encode(), self._request_id)
        self._reply = Reply(failures, self._request_id)
        return self._reply

    async def read(self) -> bool:
        """Fold what the socket brings next; False at the end of the answer.

        Raises `LlmFailure` when the connection breaks or goes silent before the answer is whole,
        and for an answer that does not end.
        """
        reply, watchdog = self._reply, self._watchdog
        if reply.out:  # taken by now: the time since then was the consumer's
            reply.out.clear()
            watchdog.progress()
        if reply.ended:
            await self._drain()
            return False
        watchdog.waiting = asyncio.current_task()
        try:
            data = await self._next()
        except StopAsyncIteration:
            self._end()
            return bool(reply.out)
        except self._errors as error:
            if (failure := self._failure_of(error)) is None:
                raise
            if reply.reason is not None:
                return False
            raise failure from failure.__cause__
        finally:
            watchdog.waiting = None
        try:
            for payload in self._feed(data):
                if reply.take(payload):
                    break
            self._left_bytes -= len(data) + CHUNK_BYTES * len(reply.out)
            if self._left_bytes < 0:
                raise OverlongError(f"an answer of more than {ANSWER_LIMIT_BYTES} bytes")
        except OverlongError as error:
            if reply.reason is not None:
                return False
            failures = self._endpoint.failures
            raise failures.malformed(str(error), b"", self._request_id) from None
        if reply.reason is not None and not (reply.ended or self._is_settling):
            self._is_settling = True
            watchdog.limit(min(self._idle_seconds or SETTLE_SECONDS, SETTLE_SECONDS))
        return True

    async def close(self) -> None:
        """Release the connection: for another request where the body was read to its end."""
        self._watchdog.stop()
        if self._response is not None:
            await self._response.aclose()
            if isinstance(self._pieces, AsyncGenerator):
                await self._pieces.aclose()

    async def _wait(self, step: Awaitable[T]) -> T:
        """Wait for the network under the watchdog, as `read` does on its own to save the call."""
        self._watchdog.waiting = asyncio.current_task()
        try:
            return await step
        except self._errors as error:
            if (failure := self._failure_of(error)) is None:
                raise
            raise failure from failure.__cause__
        finally:
            self._watchdog.waiting = None

    def _failure_of(self, error: BaseException) -> LlmFailure | None:
        """Say what an error of the network means; None for a cancellation by someone else."""
        failures, http = self._endpoint.failures, self._endpoint.http
        if isinstance(error, asyncio.CancelledError):
            return failures.silent(self._idle_seconds) if self._watchdog.caught() else None
        timed_out = isinstance(error, http.TimeoutException)
        begun = self._response is not None
        return failures.broken(error, timed_out=timed_out, begun=begun)

    async def _drain(self) -> None:
        """Read to the end of the body, if it comes at once; nothing of it counts."""
        self._watchdog.limit(DRAIN_SECONDS)
        try:
            while True:
                await self._wait(self._next())
        except (StopAsyncIteration, LlmFailure):
            return

    async def _read_some(self) -> bytes:
        """Read the beginning of a body, as much of it as comes."""
        body = bytearray()
        try:
            while len(body) < BODY_LIMIT_BYTES:
                body += await self._wait(self._next())
        except (StopAsyncIteration, LlmFailure):
            pass
        return bytes(body[:BODY_LIMIT_BYTES])

    def _feed_first(self, data: bytes) -> list[bytes]:
        """Look at the first bytes for what the body is: its label may be wrong.

        DeepSeek sends blank lines before a whole answer while it waits.
        """
        self._head = data[:BODY_LIMIT_BYTES]
        opening = data.lstrip(_BLANK)[:1]
        if opening == b"<":
            self._reply.refuse("a web page", self._head)
            return []
        if opening:
            self._feed = self._feed_json if opening in (b"{", b"[") else self._decoder.feed
            return self._feed(data)
        return self._decoder.feed(data)

    def _feed_json(self, data: bytes) -> list[bytes]:
        self._watchdog.progress()
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > EVENT_LIMIT_BYTES:
            raise OverlongError(f"an object of more than {EVENT_LIMIT_BYTES} bytes")
        return []

    def _end(self) -> None:
        """Fold what only the end of the body completes."""
        reply, response = self._reply, self._response
        if self._body:
            body = b"".join(self._body)
            self._body.clear()
            reply.take(body)
            if not reply.ended:
                reply.refuse("JSON that is no chat completion", body[:BODY_LIMIT_BYTES])
            return
        for payload in self._decoder.finish():
            reply.take(payload)
        assert response is not None
        is_labelled = "event-stream" in response.headers.get("content-type", "")
        if self._head.strip() and not reply.begun and not is_labelled:
            reply.refuse("something that is no event stream", self._head)
