"""Output and end of a process, as asyncio reports them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import cast

_READ_AHEAD_BYTES = 256 * 1024
"""What asyncio reads from a pipe at once; when twice this is buffered, reading pauses."""

_LAST_BYTES_SECONDS = 1.0
"""How long after its end a command's pipes stay open for a reader that is behind."""


class Streams(asyncio.SubprocessProtocol):
    """The two output streams of a process, and the moments of its life.

    asyncio's own `Process.wait` returns only when the pipes are closed too, which a grandchild can
    put off for ever; here the two are told apart.

    Attributes:
        readers: File descriptor → what the process writes there.
        exited: Done when the process has exited.
        closed: Done when both pipes are closed.
        over: Done when nothing more will happen.

    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.readers = {
            descriptor: asyncio.StreamReader(_READ_AHEAD_BYTES, loop) for descriptor in (1, 2)
        }
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self._open = set(self.readers)
        self._transport: asyncio.SubprocessTransport | None = None

    async def release(self) -> None:
        """Close the pipes, once the process has exited and a reader that is behind had its time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BYTES_SECONDS):
                # Closed earlier, the transport would take the exit code from its own watcher.
                await asyncio.shield(self.exited)
                await asyncio.shield(self.closed)
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let a reader that is behind pause its pipe."""
        self._transport = cast(asyncio.SubprocessTransport, transport)
        for descriptor, reader in self.readers.items():
            pipe = self._transport.get_pipe_transport(descriptor)
            reader.set_transport(cast(asyncio.BaseTransport, pipe))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take bytes."""
        self.readers[fd].feed_data(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Take the end of one stream."""
        self.readers[fd].feed_eof()
        self._open.discard(fd)
        if not self._open:
            self.closed.set_result(None)
        self._end_when_over()

    def process_exited(self) -> None:
        """Take the end of the process."""
        self.exited.set_result(None)
        self._end_when_over()

    def _end_when_over(self) -> None:
        if self._transport is not None and self.exited.done() and self.closed.done():
            self._transport.close()
            self.over.set_result(None)
