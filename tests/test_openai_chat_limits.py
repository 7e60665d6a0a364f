"""What an endpoint sends fills no memory and takes no time beyond what an answer may have."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from wire_server import DONE, SSE_HEAD, Step, WireServer, cut, delta, event, piece, plain, sse

from dsh_core.adapters.openai_chat import OpenAIChat, exchange
from dsh_core.adapters.openai_chat.calls import Call
from dsh_core.adapters.openai_chat.reply import BLOCK_LIMIT, NAME_CHARACTERS
from dsh_core.adapters.sse import EVENT_LIMIT_BYTES, OverlongError, SseDecoder
from dsh_core.chunks import BlockAssembler, Chunk, Finish
from dsh_core.content import Text, ToolCall
from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.messages import Message
from dsh_core.request import Request

REQUEST = Request("test/some-model", (Message("user", (Text("hi"),)),))
MEBIBYTE = 1024 * 1024


@pytest.fixture(autouse=True, params=["httpx", "httpx2"])
def http_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSH_HTTP", request.param)


@asynccontextmanager
async def adapter(url: str, **options: Any) -> AsyncIterator[OpenAIChat]:
    opened = OpenAIChat(ProviderConfig("test", "openai_chat", base_url=url, options=options))
    try:
        yield opened
    finally:
        await opened.aclose()


async def ask(steps: list[Step]) -> list[Chunk]:
    async with WireServer(steps) as server, adapter(server.url) as opened:
        return [chunk async for chunk in opened.stream(REQUEST)]


async def failure_of(steps: list[Step]) -> LlmFailure:
    with pytest.raises(LlmFailure) as raised:
        await ask(steps)
    return raised.value


def forever(data: bytes, *, limit_bytes: int = 64 * MEBIBYTE) -> Step:
    """Send the same bytes as fast as they are read; an end that no test should reach."""

    async def send(transport: asyncio.Transport) -> None:
        sent = 0
        while sent < limit_bytes:
            if transport.get_write_buffer_size() < MEBIBYTE:
                transport.write(piece(data))
                sent += len(data)
            await asyncio.sleep(0)
        transport.close()

    return send


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("first", [b"data: ", b"data: x\n", b": comment", b" "])
async def test_an_event_that_does_not_end_is_malformed(first: bytes) -> None:
    failure = await failure_of([SSE_HEAD, piece(first), forever(b"x" * 65_000)])
    assert failure.code == "MALFORMED_RESPONSE"
    assert f"an event of more than {EVENT_LIMIT_BYTES} bytes" in failure.message


async def test_an_object_that_does_not_end_is_malformed() -> None:
    failure = await failure_of([CHUNKED, piece(b'{"choices": ['), forever(b"[]," * 20_000)])
    assert failure.code == "MALFORMED_RESPONSE"
    assert f"an object of more than {EVENT_LIMIT_BYTES} bytes" in failure.message


def call(index: int | None, arguments: str = "", **fields: Any) -> bytes:
    place = {} if index is None else {"index": index}
    return delta(tool_calls=[{**place, "function": {"arguments": arguments}, **fields}])


@pytest.mark.parametrize(
    "data",
    [
        delta(content="x" * 1000),
        delta(reasoning_content="x"),
        call(0, "x"),
        event(choices=[]),
        b": alive\n\n",
    ],
)
async def test_an_answer_that_does_not_end_is_malformed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "ANSWER_LIMIT_BYTES", MEBIBYTE)
    failure = await failure_of([SSE_HEAD, forever(data * 50, limit_bytes=4 * MEBIBYTE)])
    assert failure.code == "MALFORMED_RESPONSE"
    assert f"an answer of more than {MEBIBYTE} bytes" in failure.message


async def test_a_whole_answer_counts_whatever_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "ANSWER_LIMIT_BYTES", MEBIBYTE)
    junk = forever(b": alive\n\n" * 1000, limit_bytes=4 * MEBIBYTE)
    chunks = await ask([SSE_HEAD, piece(delta("stop", content="whole")), junk])
    assert isinstance(chunks[-1], Finish)
    assert chunks[-1].reason == "stop"


async def test_a_large_answer_is_an_answer() -> None:
    text = "é" * 2 * MEBIBYTE
    whole = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    for steps in (
        plain(whole),
        sse(*[delta(content=text[:65536])] * 32, delta("stop"), DONE),
        [SSE_HEAD, *cut(delta("stop", content=text) + DONE, 65_000), b"0\r\n\r\n"],
    ):
        assembler = BlockAssembler()
        for chunk in await ask(steps):
            assembler.feed(chunk)
        assert assembler.blocks() == (Text(text),)


async def test_an_answer_with_more_blocks_than_any_is_malformed() -> None:
    calls = [call(number, "{}", id=f"c{number}") for number in range(BLOCK_LIMIT + 1)]
    failure = await failure_of(sse(*calls, delta("tool_calls"), DONE))
    assert (failure.code, f"more than {BLOCK_LIMIT} blocks" in failure.message) == (
        "MALFORMED_RESPONSE",
        True,
    )


async def test_long_names_and_reasons_are_cut() -> None:
    function = {"name": "n" * 10_000, "arguments": "{}"}
    named = delta("tool_calls", tool_calls=[{"index": 0, "id": "c", "function": function}])
    assembler = BlockAssembler()
    for chunk in await ask(sse(named, DONE)):
        assembler.feed(chunk)
    assert assembler.blocks() == (ToolCall("c", "n" * NAME_CHARACTERS, "{}"),)
    finish = (await ask(sse(delta("r" * 10_000, content="x"), DONE)))[-1]
    assert isinstance(finish, Finish)
    assert finish.failure is not None
    assert finish.failure.code == "R" * NAME_CHARACTERS


# ---------------------------------------------------------------------------- compression


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
async def test_a_compressed_answer_is_refused_since_nobody_asked_for_one(encoding: str) -> None:
    bomb = gzip.compress(b'{"choices": [' + b" " * 64 * MEBIBYTE)
    failure = await failure_of(plain(bomb, headers=[f"content-encoding: {encoding}"]))
    assert failure.code == "MALFORMED_RESPONSE"
    assert f"compressed body though none was asked for: {encoding}" in failure.message


async def test_a_compressed_refusal_keeps_its_status_and_is_not_unpacked() -> None:
    bomb = gzip.compress(b"x" * 64 * MEBIBYTE)
    failure = await failure_of(plain(bomb, "401 X", headers=["content-encoding: gzip"]))
    assert failure.code == "AUTH"
    assert "answered 401" in failure.message
    assert "x" * 9 not in failure.message


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
async def test_a_body_that_is_labelled_as_not_compressed_is_taken(encoding: str) -> None:
    stream = delta("stop", content="a") + DONE
    chunks = await ask(plain(stream, headers=[f"content-encoding: {encoding}"]))
    assert isinstance(chunks[-1], Finish)


def test_a_compressed_answer_cannot_be_asked_for() -> None:
    options = {"headers": {"Accept-Encoding": "gzip"}}
    with pytest.raises(ConfigError, match="compressed answers are refused"):
        OpenAIChat(ProviderConfig("test", "openai_chat", base_url="http://h", options=options))


# -------------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 "], ids=len
)
async def test_headers_that_do_not_end_break_the_connection(head: bytes) -> None:
    async def endless(transport: asyncio.Transport) -> None:
        for _ in range(200):
            transport.write(b"x-y: z\r\n" * 1000 if head.endswith(b"\n") else b"x" * 8000)
            await asyncio.sleep(0)

    assert (await failure_of([head, endless])).code == "TRANSPORT"


async def test_a_long_request_id_is_cut() -> None:
    failure = await failure_of(plain(b"busy", "503 X", headers=[f"x-request-id: {'r' * 9000}"]))
    assert failure.request_id is not None
    assert len(failure.request_id) == 400


# ------------------------------------------------------------------------------------ time


def quick(seconds: float) -> Any:
    """Fail when the block takes much longer than work that is linear does."""

    class Timed:
        def __enter__(self) -> None:
            self.started = time.process_time()

        def __exit__(self, *_: object) -> None:
            assert time.process_time() - self.started < seconds

    return Timed()


@pytest.mark.parametrize("fragment", ["x", "}", '{"a":', '"', "\\"])
async def test_call_fragments_without_an_index_take_linear_time(fragment: str) -> None:
    opening = call(None, '{"a": "', id="c1", function={"name": "f", "arguments": '{"a": "'})
    named = delta(tool_calls=[{"function": {"name": "f", "arguments": fragment * 20}}])
    stream = opening + named * 20_000 + delta("tool_calls") + DONE
    with quick(5), suppress(LlmFailure):  # a call that is whole begins another, up to the limit
        await ask([SSE_HEAD, *cut(stream, 60_000), b"0\r\n\r\n"])


async def test_the_body_of_a_refusal_in_tiny_pieces_takes_linear_time() -> None:
    head = b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n"
    with quick(8):
        failure = await failure_of([head, b"".join(cut(b"y" * 70_000, 1)), b"0\r\n\r\n"])
    assert failure.code == "SERVER"


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"a": 1}'],
        ["{", '"a"', ": ", '"}', '"', "}"],
        ['{"a": "\\', '"}', '"}'],
        ['{"a": "\\', "", '\\"}'],
        ['{"a": {"b": "{"}', "} ", "\n"],
        ["{}", "x"],
        ["{}", " ", "{}"],
        ["{x}"],
        ["[{}", "]"],
        ["[1]"],
        ["}"],
        [""],
        ["null"],
        ['{"a": "', "}" * 50, '"', "}"],
    ],
)
def test_arguments_are_whole_when_they_parse_as_an_object(pieces: list[str]) -> None:
    asked_late, asked_often = Call(0), Call(0)
    text = ""
    for piece_ in pieces:
        asked_often.arguments.append(piece_)
        asked_late.arguments.append(piece_)
        text += piece_
        assert asked_often.is_whole() is is_object(text)
    assert asked_late.is_whole() is is_object(text)


def is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


# -------------------------------------------------------------------------------- depth


CALL = '{"index":0,"id":DEEP,"function":{"name":"f","arguments":DEEP}}'
LONE = '"\\ud800"'  # half a character: the lenient parser takes over


@pytest.mark.parametrize("depth", [190, 900, 100_000])
@pytest.mark.parametrize(
    "body",
    [
        '{"choices":[{"delta":{"tool_calls":[CALL]}}]}',
        '{"x":LONE,"choices":[{"delta":{"tool_calls":[CALL]}}]}',
        '{"x":LONE,"choices":[{"delta":{"content":DEEP}}]}',
        '{"x":LONE,"error":DEEP}',
    ],
)
async def test_deep_json_is_a_failure_of_the_provider(depth: int, body: str) -> None:
    deep = "[" * depth + "]" * depth
    body = body.replace("CALL", CALL).replace("LONE", LONE).replace("DEEP", deep)
    failure = await failure_of(sse(f"data: {body}\n\n".encode()))
    assert failure.code in ("MALFORMED_RESPONSE", "SERVER", "TRANSPORT")


@pytest.mark.parametrize("depth", [190, 900, 100_000])
@pytest.mark.parametrize("around", ["DEEP", '{"error": DEEP}', '{"error": {"message": DEEP}}'])
async def test_a_deep_refusal_keeps_its_status(depth: int, around: str) -> None:
    for opening, closing in (("[", "]"), ('{"error":', "}"), ('{"message":[', "]}")):
        deep = opening * depth + '"x"' + closing * depth
        body = around.replace("DEEP", deep).encode()[:60_000]
        assert (await failure_of(plain(body, "500 X"))).code == "SERVER"


async def test_a_number_too_long_for_text_is_malformed() -> None:
    named = '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":%s}]}}]}' % ("9" * 5000)
    failure = await failure_of(sse(f"data: {named}\n\n".encode(), DONE))
    assert failure.code in ("MALFORMED_RESPONSE", "TRANSPORT")


# ----------------------------------------------------------------------------- decoder


def test_a_decoder_holds_no_more_than_its_limit() -> None:
    decoder = SseDecoder(limit_bytes=100)
    for _ in range(5):  # what is complete counts no more
        assert decoder.feed(b"data: " + b"x" * 80) == []
        assert decoder.feed(b"\n\nda") == [b"x" * 80]
        assert decoder.feed(b"ta: y\n\n") == [b"y"]
    decoder.feed(b"data: " + b"x" * 80)
    with pytest.raises(OverlongError, match="more than 100 bytes"):
        decoder.feed(b"x" * 20)
