import json

import pytest
from model_client import BODY, connected, http

from dsh_core.testing.behaviours import (
    reply,
)
from dsh_core.testing.model_server import ModelServer


async def test_a_socket_serves_one_request_after_the_other():
    script = [reply("a"), reply("b")]
    async with ModelServer(script) as server, connected(server) as (reader, writer):
        for text in ("a", "b"):
            writer.write(http(BODY))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            document = json.loads(await reader.readexactly(length))
            assert document["choices"][0]["message"]["content"] == text


async def test_a_request_may_arrive_chunked_and_byte_by_byte():
    data = json.dumps(BODY).encode()
    chunked = b"%x;x=y\r\n%b\r\n5\r\n%b\r\n0\r\ntrailer: x\r\n\r\n" % (
        len(data) - 5,
        data[:-5],
        data[-5:],
    )
    async with ModelServer([reply("a")]) as server, connected(server) as (reader, writer):
        for byte in http(chunked, headers="transfer-encoding: chunked\r\n"):
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

    assert server.requests[0].raw == data


async def test_a_client_that_waits_for_100_continue_gets_it():
    async with ModelServer([reply("a")]) as server, connected(server) as (reader, writer):
        head, _, body = http(BODY, headers="expect: 100-continue\r\n").partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("junk", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"])
async def test_what_is_not_http_is_refused_and_recorded(junk):
    async with ModelServer([reply("a")]) as server, connected(server) as (reader, writer):
        writer.write(junk)
        answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert server.rejected[0].reason.startswith("not HTTP: ")
    assert server.requests == []


@pytest.mark.parametrize("cut", [10, -5])
async def test_a_client_that_leaves_in_mid_request_leaves_no_trace(cut):
    async with ModelServer([reply("a")]) as server, connected(server) as (reader, writer):
        writer.write(http(BODY)[:cut])
        writer.write_eof()
        assert await reader.read() == b""

    assert server.requests == []
    assert server.rejected == []
