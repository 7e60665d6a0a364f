"""HTTP/1.1 over one socket, from the server's side, for answers that may break HTTP on purpose."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import NoReturn

from dsh_core.testing.exchange import Response

KEEP_ALIVE = b": keep-alive\n\n"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing sends RST."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request as it arrived; header names are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Reads requests and plays responses; pipelining is not spoken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        # drain() then waits until the kernel has everything, so nothing is lost by a reset.
        writer.transport.set_write_buffer_limits(0)

    async def read(self) -> HttpRequest | None:
        """Return the next request; None when the client closed between two.

        Raises `ValueError` for what is not HTTP and `ConnectionError` when the client is gone.
        """
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ConnectionAbortedError("the client left in mid-request") from None
            return None
        lines = head.decode("latin-1").split("\r\n")
        method, path, _version = lines[0].split(" ")
        pairs = (line.split(":", 1) for line in lines[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        if headers.get("expect", "").lower() == "100-continue":
            await self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            return HttpRequest(method, path, headers, await self._read_body(headers))
        except asyncio.IncompleteReadError:
            raise ConnectionAbortedError("the client left in mid-request") from None

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        body = bytearray()
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
        return bytes(body)

    async def play(self, response: Response) -> bool:
        """Send a response; return whether the socket is good for another request.

        Raises `ConnectionError` when the client goes before it is over.
        """
        await self._watch(response.wait_seconds)
        chunked = _is_chunked(response)
        if response.status is not None:
            await self._write(_head(response, chunked=chunked))
        for part in response.parts:
            if not isinstance(part, bytes):
                await self._watch(part)
            elif part:  # an empty chunk would end the body
                await self._write(_frame(part) if chunked else part)
        match response.ending:
            case "complete":
                await self._write(b"0\r\n\r\n" if chunked else b"")
                return response.status is not None
            case "stall":
                await self._stall(response.keep_alive_seconds)
            case "reset":
                raw: socket.socket = self._writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                self._writer.transport.abort()
            case "close":
                self._writer.close()
        return False

    async def close(self) -> None:
        """Close the socket; what was written is delivered unless `abort` came first."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def abort(self) -> None:
        """Close the socket at once."""
        self._writer.transport.abort()

    async def _stall(self, keep_alive_seconds: float | None) -> NoReturn:
        while True:
            await self._watch(keep_alive_seconds)
            await self._write(_frame(KEEP_ALIVE))

    async def _watch(self, seconds: float | None) -> None:
        """Pause, for ever when None; raises `ConnectionError` as soon as the client is gone."""
        if seconds == 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self._reader.read(65536):
                    pass
                raise ConnectionAbortedError("the client closed the connection")

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _is_chunked(response: Response) -> bool:
    """A whole body in one piece has a length; everything else is chunked."""
    if response.status is None:
        return False
    return response.ending != "complete" or len(response.parts) != 1


def _head(response: Response, *, chunked: bool) -> bytes:
    status = response.status or 0
    phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else "Unknown"
    size = sum(len(part) for part in response.parts if isinstance(part, bytes))
    framing = {"transfer-encoding": "chunked"} if chunked else {"content-length": str(size)}
    headers = {**response.headers, **framing}
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {v}" for name, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _frame(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
