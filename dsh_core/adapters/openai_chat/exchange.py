"""One request and its answer: sends, reads, and says what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from dsh_core.adapters.openai_chat.failures import request_id
from dsh_core.adapters.openai_chat.reply import Reply
from dsh_core.adapters.openai_chat.watchdog import Watchdog
from dsh_core.adapters.sse import SseDecoder
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


class Exchange:
    """One attempt: `begin`, then `read` while it says True; `close` in any case.

    Args:
        endpoint: Where the request goes.
        idle_seconds: Silence allowed; 0 = any.
    """

    def __init__(self, endpoint: Endpoint, idle_seconds: float):
        self._endpoint = endpoint
        self._idle_seconds = idle_seconds
        self._watchdog = Watchdog(idle_seconds)
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._decoder = SseDecoder()
        self._feed: Callable[[bytes], list[bytes]] = self._feed_first
        self._head = b""
        self._whole: list[bytes] = []  # the pieces of a body that is one JSON object
        self._is_settling = False

    async def begin(self, client: httpx.AsyncClient, body: bytes) -> Reply:
        """Send the request and wait for the head of the answer; return where it will be folded.

        Raises `LlmFailure` for an answer that is not 200, or none.
        """
        endpoint = self._endpoint
        response = await self._wait(client.send(endpoint.request(body), stream=True))
        self._response = response
        if response.headers.get("content-encoding", "identity") == "identity":
            # what `aiter_raw` iterates, without its own work on each piece
            self._pieces = aiter(cast("AsyncIterator[bytes]", response.stream))
        else:
            self._pieces = response.aiter_bytes()
        self._next = self._pieces.__anext__
        if response.status_code != 200:
            body = await self._read_some()
            raise endpoint.failures.refused(response.status_code, response.headers, body)
        self._request_id = request_id(response.headers)
        self._is_labelled = "event-stream" in response.headers.get("content-type", "")
        self._reply = Reply(endpoint.failures, self._request_id)
        return self._reply

    async def read(self) -> bool:
        """Fold what the socket brings next; False at the end of the answer.

        Raises `LlmFailure` when the connection breaks or goes silent before the answer is whole.
        """
        reply, watchdog = self._reply, self._watchdog
        if reply.out:  # taken by now: the time since then is the consumer's
            reply.out.clear()
            watchdog.progress()
        if reply.done or reply.failure is not None:
            await self._drain()
            return False
        try:
            data = await self._wait(self._next())
        except StopAsyncIteration:
            self._end()
            return False
        except LlmFailure:
            if reply.reason is None:
                raise
            return False
        for payload in self._feed(data):
            if reply.take(payload):
                break
        if reply.reason is not None and not self._is_settling:
            self._is_settling = True
            watchdog.limit(min(self._idle_seconds, SETTLE_SECONDS) or SETTLE_SECONDS)
        return True

    async def close(self) -> None:
        """Release the connection: to be used again where the body was read to its end."""
        self._watchdog.stop()
        if self._response is not None:
            await self._response.aclose()
        if hasattr(self._pieces, "aclose"):
            await self._pieces.aclose()

    async def _wait(self, step: Awaitable[T]) -> T:
        """Wait for the network under the watchdog."""
        watchdog, failures = self._watchdog, self._endpoint.failures
        watchdog.waiting = asyncio.current_task()
        try:
            return await step
        except asyncio.CancelledError:
            if not watchdog.caught():
                raise
            raise failures.silent(self._idle_seconds) from None
        except self._endpoint.http.HTTPError as error:
            timed_out = isinstance(error, self._endpoint.http.TimeoutException)
            begun = self._response is not None
            raise failures.broken(error, timed_out=timed_out, begun=begun) from error
        finally:
            watchdog.waiting = None

    async def _drain(self) -> None:
        """Read to the end of the body, if it comes at once; nothing of it counts."""
        if self._reply.failure is not None:
            return
        self._watchdog.limit(DRAIN_SECONDS)
        try:
            while True:
                await self._wait(self._next())
        except (StopAsyncIteration, LlmFailure):
            return

    async def _read_some(self) -> bytes:
        """Read the beginning of a body, as much of it as comes."""
        pieces, size = [], 0
        try:
            while size < BODY_LIMIT_BYTES:
                pieces.append(await self._wait(self._next()))
                size += len(pieces[-1])
        except (StopAsyncIteration, LlmFailure):
            pass
        return b"".join(pieces)[:BODY_LIMIT_BYTES]

    def _feed_first(self, data: bytes) -> list[bytes]:
        """Look at the first bytes for what the body is: a label may lie."""
        self._head = data
        opening = data.lstrip()[:1]
        if opening == b"<":
            self._reply.failure = self._endpoint.failures.malformed(
                "a web page", data[:BODY_LIMIT_BYTES], self._request_id
            )
            return []
        if opening in (b"{", b"["):
            self._feed = self._feed_whole
        else:
            self._feed = self._decoder.feed
        return self._feed(data)

    def _feed_whole(self, data: bytes) -> list[bytes]:
        self._whole.append(data)
        return []

    def _end(self) -> None:
        """Fold what only the end of the body completes."""
        reply = self._reply
        if self._whole:
            reply.take(b"".join(self._whole))
            problem = None if reply.done else "JSON that is no chat completion"
        else:
            for payload in self._decoder.finish():
                reply.take(payload)
            is_stream = reply.begun or reply.done or not self._head.strip() or self._is_labelled
            problem = None if is_stream else "something that is no event stream"
        if problem and reply.failure is None:
            data = (b"".join(self._whole) or self._head)[:BODY_LIMIT_BYTES]
            reply.failure = self._endpoint.failures.malformed(problem, data, self._request_id)
