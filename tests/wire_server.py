"""A raw HTTP/1.1 server on loopback: sends the bytes it is given, in the cuts it is given.

An answer is a list of steps: bytes are written, an `asyncio.Event` is waited for, a coroutine
function is called with the transport. The connection then waits for its next request.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

Step = bytes | asyncio.Event | Callable[[asyncio.Transport], Awaitable[None]]

SSE_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"x-request-id: req-1\r\n\r\n"
)
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


async def close(transport: asyncio.Transport) -> None:
    """End the connection in the middle of a body, after what was written."""
    transport.close()


async def reset(transport: asyncio.Transport) -> None:
    """Drop the connection as a crash does."""
    transport.abort()


def piece(data: bytes) -> bytes:
    """One HTTP chunk, which the client sees as one piece."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def cut(stream: bytes, size: int) -> list[bytes]:
    """The stream in HTTP chunks of a size."""
    return [piece(stream[i : i + size]) for i in range(0, len(stream), size)]


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def sse(*events: bytes) -> list[Step]:
    """An event stream, each argument in an HTTP chunk of its own."""
    return [SSE_HEAD, *(piece(data) for data in events), END]


def answer(text: str = "hello") -> list[Step]:
    return sse(delta(content=text), delta("stop"), DONE)


def plain(
    body: bytes | dict[str, Any],
    status: str = "200 OK",
    headers: Iterable[str] = ("content-type: application/json",),
) -> list[Step]:
    """An answer of known length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", *headers, f"content-length: {len(data)}", "", ""]
    return ["\r\n".join(lines).encode() + data]


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WireServer:
    """Gives the answers in order, and keeps what was asked.

    `open` counts connections that are there, `connections` all there were; `gone` is set when a
    client leaves while an answer is being sent.
    """

    def __init__(self, *answers: list[Step]):
        self.answers = deque(answers)
        self.asked: list[Asked] = []
        self.connections = 0
        self.open: set[asyncio.Transport] = set()
        self.gone = asyncio.Event()

    async def __aenter__(self) -> "WireServer":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for transport in self.open:
            transport.abort()
        while self.open:
            await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    def __init__(self, server: WireServer):
        self.server = server
        self.buffer = b""
        self.sending: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.server.connections += 1
        self.server.open.add(self.transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.open.discard(self.transport)
        if self.sending is not None and not self.sending.done():
            self.sending.cancel()
            self.server.gone.set()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {}
        for field in fields:
            name, _, value = field.partition(":")
            headers[name.lower()] = value.strip()
        if not found or len(body) < int(headers.get("content-length", 0)):
            return
        self.buffer = b""
        method, path, _ = line.split(" ")
        self.server.asked.append(Asked(method, path, headers, body))
        self.sending = asyncio.ensure_future(self.send(self.server.answers.popleft()))

    async def send(self, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, bytes):
                self.transport.write(step)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await step(self.transport)
