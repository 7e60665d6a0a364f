"""Clients of the model server: one over httpx, one that writes bytes to a socket."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx

from dsh_core.testing.model_server import ModelServer

HELLO = [{"role": "user", "content": "hello"}]
BODY = {"model": "m", "messages": HELLO}
STREAM = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@asynccontextmanager
async def serving(script=(), **options):
    """A server and a client for it."""
    async with (
        ModelServer(script, **options) as server,
        httpx.AsyncClient(base_url=server.base_url, trust_env=False) as client,
    ):
        yield server, client


async def post(client, body):
    return await client.post("chat/completions", json=body)


def http(body, *, headers="", path="/v1/chat/completions"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = "" if "chunked" in headers else f"content-length: {len(data)}\r\n"
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n{length}{headers}\r\n".encode() + data


@asynccontextmanager
async def connected(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(server.base_url).port)
    try:
        yield reader, writer
    finally:
        writer.close()
