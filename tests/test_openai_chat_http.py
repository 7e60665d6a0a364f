import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from email.utils import formatdate
from typing import Any

import pytest
from wire_server import (
    DONE,
    END,
    SSE_HEAD,
    Step,
    WireServer,
    answer,
    close,
    cut,
    delta,
    event,
    piece,
    plain,
    reset,
    sse,
)

from dsh_core.adapters.openai_chat import FACTORY, OpenAIChat
from dsh_core.chunks import BlockAssembler, BlockStart, Chunk, Finish, TextDelta, Usage, UsageChunk
from dsh_core.content import Reasoning, Text, ToolCall
from dsh_core.errors import ConfigError, LlmFailure, error_chain
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.messages import Message
from dsh_core.request import Request
from dsh_core.secret import Secret

KEY = "sk-KEYTEXT-012345wxyz"
MESSAGES = (Message("user", (Text("hi"),)),)
REQUEST = Request("test/some-model", MESSAGES)


@pytest.fixture(autouse=True, params=["httpx", "httpx2"])
def http_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSH_HTTP", request.param)


class Clock:
    """The running loop's clock, which can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0
        loop = asyncio.get_running_loop()
        loop.time = lambda: time.monotonic() + self.ahead  # type: ignore[method-assign]

    async def advance(self, seconds: float) -> None:
        self.ahead += seconds
        for _ in range(5):  # timers that are due run, and what they wake
            await asyncio.sleep(0)


@pytest.fixture
async def clock() -> Clock:
    return Clock()


def provider(url: str | None, **fields: Any) -> ProviderConfig:
    options = fields.pop("options", {})
    fields = {"api_key": Secret(KEY), "key_hint": "TEST_API_KEY", **fields}
    return ProviderConfig("test", "openai_chat", base_url=url, options=options, **fields)


@asynccontextmanager
async def adapter(url: str, **fields: Any) -> AsyncIterator[OpenAIChat]:
    opened = OpenAIChat(provider(url, **fields))
    try:
        yield opened
    finally:
        await opened.aclose()


async def collect(opened: OpenAIChat, request: Request = REQUEST) -> list[Chunk]:
    return [chunk async for chunk in opened.stream(request)]


async def ask(
    *answers: list[Step], request: Request = REQUEST, path: str = "/v1", **fields: Any
) -> tuple[list[Chunk], WireServer]:
    """One request for each answer; the chunks of the last."""
    async with (
        WireServer(*answers) as server,
        adapter(server.url + path, **fields) as opened,
    ):
        for _ in answers:
            chunks = await collect(opened, request)
        return chunks, server


async def failure_of(*answers: list[Step], **fields: Any) -> LlmFailure:
    with pytest.raises(LlmFailure) as raised:
        await ask(*answers, **fields)
    return raised.value


def text_of(chunks: list[Chunk]) -> str:
    assert isinstance(chunks[-1], Finish)
    assert chunks[-1].failure is None
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


# --- the request


async def test_one_request_goes_out_and_its_answer_comes_in_as_chunks() -> None:
    usage = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
    chunks, server = await ask(
        sse(delta(content="Hel"), delta(content="lo"), delta("stop"), usage, DONE)
    )
    assert chunks == [
        BlockStart(0, "text"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        UsageChunk(Usage(3, 2)),
        Finish("stop", request_id="req-1"),
    ]
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.json["model"] == "some-model"
    assert asked.json["messages"] == [{"role": "user", "content": "hi"}]


async def test_requests_one_after_another_share_a_connection() -> None:
    chunks, server = await ask(answer("a"), answer("b"), answer("c"))
    assert text_of(chunks) == "c"
    assert server.connections == 1


async def test_many_streams_at_once_keep_apart() -> None:
    async with (
        WireServer(*[answer(str(number)) for number in range(40)]) as server,
        adapter(server.url) as opened,
    ):
        answers = await asyncio.gather(*[collect(opened) for _ in range(40)])
    assert sorted(int(text_of(chunks)) for chunks in answers) == list(range(40))


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/chat/completions"),
        ("/", "/chat/completions"),
        ("//", "/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1//", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/deploy?api-version=2", "/deploy/chat/completions?api-version=2"),
    ],
)
async def test_the_path_is_joined_once(base: str, path: str) -> None:
    _, server = await ask(answer(), path=base)
    assert server.asked[0].path == path


@pytest.mark.parametrize(
    ("base", "option", "path"),
    [
        ("/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("/api", "v1/chat", "/api/v1/chat"),
        ("/api/v1/chat", "v1/chat/", "/api/v1/chat"),
    ],
)
async def test_the_path_option_replaces_the_usual_path(base: str, option: str, path: str) -> None:
    _, server = await ask(answer(), path=base, options={"path": option})
    assert server.asked[0].path == path


async def test_headers_of_the_options_are_added_and_replace_the_adapters_own() -> None:
    headers = {"X-Title": " dsh ", "Authorization": Secret("Custom abc"), "user-agent": "me"}
    _, server = await ask(answer(), options={"headers": headers})
    asked = server.asked[0].headers
    assert (asked["x-title"], asked["authorization"]) == ("dsh", "Custom abc")
    assert asked["user-agent"] == "me"


async def test_the_options_of_the_encoder_reach_it() -> None:
    options = {"system_role": "developer", "include_usage": False}
    request = Request("test/m", MESSAGES, system="s")
    _, server = await ask(answer(), options=options, request=request)
    assert server.asked[0].json["messages"][0]["role"] == "developer"
    assert "stream_options" not in server.asked[0].json


# --- the stream


EVENTS = b"".join(
    [
        b": OPENROUTER PROCESSING\n\n",
        delta(role="assistant", content=""),
        b": keep-alive\n\n:\n\n",
        delta(reasoning_content="思い"),
        b'data: {"choices":[{"index":0,\n',
        'data: "delta":{"content":"春眠暁 🦊\u2028naïve\u0085"}}]}\n\n'.encode(),
        b"event: message\n:mid\n" + delta(content=" end"),
        delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]),
        delta("tool_calls"),
        DONE,
    ]
)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_the_answer_does_not_depend_on_cuts_and_line_ends(size: int, line_end: bytes) -> None:
    stream = EVENTS.replace(b"\n", line_end)
    chunks, _ = await ask([SSE_HEAD, *cut(stream, size), END])
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.feed(chunk)
    assert assembler.blocks() == (
        Reasoning("思い"),
        Text("春眠暁 🦊\u2028naïve\u0085 end"),
        ToolCall("a", "f", "{}"),
    )
    assert chunks[-1] == Finish("tool-calls", request_id="req-1")


async def test_chunks_come_as_they_are_sent() -> None:
    more = asyncio.Event()
    steps = [SSE_HEAD, piece(delta(content="a")), more, piece(delta("stop", content="b")), END]
    async with WireServer(steps) as server, adapter(server.url) as opened:
        seen = []
        async for chunk in opened.stream(REQUEST):
            seen.append(chunk)
            if chunk == TextDelta(0, "a"):
                more.set()
    assert text_of(seen) == "ab"


async def test_a_clean_end_after_a_finish_reason_needs_no_done() -> None:
    chunks, server = await ask(sse(delta(content="a"), delta("stop")), answer())
    assert server.connections == 1
    assert text_of(chunks) == "hello"


async def test_a_body_that_ends_with_its_connection_is_read_to_the_end() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    last = delta("stop").strip()  # without its blank line
    chunks, _ = await ask([head, delta(content="a"), last, close])
    assert text_of(chunks) == "a"


async def test_an_answer_is_whole_when_the_connection_drops_after_the_finish_reason() -> None:
    for drop in (close, reset):
        steps = [SSE_HEAD, piece(delta(content="a")), piece(delta("stop")), drop]
        chunks, _ = await ask(steps)
        assert text_of(chunks) == "a"


@pytest.mark.parametrize("drop", [close, reset])
async def test_a_drop_in_mid_stream_is_a_transport_failure(drop: Step) -> None:
    failure = await failure_of([SSE_HEAD, piece(delta(content="a")), drop])
    assert failure.code == "TRANSPORT"
    assert "127.0.0.1" in failure.message


async def test_a_drop_before_the_head_is_a_transport_failure() -> None:
    assert (await failure_of([close])).code == "TRANSPORT"


async def test_an_end_without_a_finish_reason_is_a_transport_failure() -> None:
    failure = await failure_of(sse(delta(content="a")))
    assert (failure.code, failure.request_id) == ("TRANSPORT", "req-1")
    assert (await failure_of(sse())).code == "TRANSPORT"
    assert (await failure_of(sse(b": ping\n\n"))).code == "TRANSPORT"


async def test_nothing_after_done_is_read() -> None:
    chunks, server = await ask(sse(delta("stop", content="a"), DONE, delta(content="b")), answer())
    assert text_of(chunks) == "hello"
    assert server.connections == 1


async def test_a_server_that_holds_the_stream_open_after_done_is_not_waited_for(
    clock: Clock,
) -> None:
    steps = [SSE_HEAD, piece(delta("stop", content="a") + DONE), asyncio.Event()]
    async with WireServer(steps) as server, adapter(server.url) as opened:
        seen: list[Chunk] = []
        task = asyncio.create_task(gather_into(seen, opened))
        await until(lambda: seen)
        await clock.advance(0.3)
        assert task.done()
        assert text_of(seen) == "a"
        await server.gone.wait()


async def test_a_server_that_says_nothing_after_the_finish_reason_is_not_waited_for(
    clock: Clock,
) -> None:
    steps = [SSE_HEAD, piece(delta(content="a")), piece(delta("stop")), asyncio.Event()]
    for options in ({}, {"stream_idle_seconds": 0}):
        async with (
            WireServer(list(steps)) as server,
            adapter(server.url, options=options) as opened,
        ):
            seen: list[Chunk] = []
            task = asyncio.create_task(gather_into(seen, opened))
            while not task.done():
                await clock.advance(11 if seen else 0)
            assert text_of(seen) == "a"


async def test_an_error_object_in_the_stream_fails_with_its_message() -> None:
    error = event(error={"message": "credit used up E402", "code": 402})
    seen: list[Chunk] = []
    async with (
        WireServer(sse(delta(content="part"), error, DONE), answer()) as server,
        adapter(server.url) as opened,
    ):
        with pytest.raises(LlmFailure, match="credit used up E402") as raised:
            await gather_into(seen, opened)
        assert text_of(await collect(opened)) == "hello"
        assert server.connections == 1
    assert (raised.value.code, raised.value.request_id) == ("QUOTA", "req-1")
    assert seen == [BlockStart(0, "text"), TextDelta(0, "part")]


async def gather_into(seen: list[Chunk], opened: OpenAIChat) -> None:
    async for chunk in opened.stream(REQUEST):
        seen.append(chunk)


@pytest.mark.parametrize("reason", ["stop", "content_filter"])
async def test_a_finished_answer_that_is_none_ends_with_a_failure(reason: str) -> None:
    chunks, _ = await ask(sse(delta(reason), event(choices=[], usage={"prompt_tokens": 9}), DONE))
    usage, end = chunks
    assert usage == UsageChunk(Usage(9))
    assert isinstance(end, Finish)
    assert end.reason == "error"
    assert end.failure is not None
    assert end.failure.request_id == "req-1"


# --- other bodies


COMPLETION = {
    "choices": [{"index": 0, "message": {"content": "whole"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


async def test_without_a_stream_one_object_gives_the_same_chunks() -> None:
    request = Request("test/m", MESSAGES, stream=False)
    chunks, server = await ask(plain(COMPLETION), request=request)
    assert server.asked[0].json["stream"] is False
    assert chunks == [
        BlockStart(0, "text"),
        TextDelta(0, "whole"),
        UsageChunk(Usage(3, 2)),
        Finish("stop"),
    ]


async def test_one_object_in_answer_to_a_stream_request_is_taken() -> None:
    pretty = json.dumps(COMPLETION, indent=2).replace("\n", "\n\n").encode()
    for label in ("application/json", "text/event-stream", "text/plain"):
        chunks, _ = await ask(plain(pretty, headers=[f"content-type: {label}"]))
        assert text_of(chunks) == "whole"


async def test_blank_lines_before_an_answer_are_nothing() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    whole = json.dumps(COMPLETION).encode()
    stream = delta("stop", content="whole")
    for body in ([whole[:9], whole[9:]], [stream]):
        blanks = [b"\n", b"\xef", b"\xbb\xbf\r", b"\n\n"]
        chunks, _ = await ask([head, *[piece(data) for data in [*blanks, *body]], END])
        assert text_of(chunks) == "whole"


async def test_a_stream_with_another_label_or_none_is_taken() -> None:
    stream = delta(content="a") + delta("stop") + DONE
    for headers in (["content-type: application/json"], []):
        chunks, _ = await ask(plain(stream, headers=headers))
        assert text_of(chunks) == "a"


@pytest.mark.parametrize(
    ("body", "label", "shown"),
    [
        (b"<!doctype html><title>Log in &amp; pay</title><p>no", "text/html", "Log in & pay"),
        (b"\n <html><script>x()</script><b>Gate</b> way</html>", "text/plain", ": Gate way"),
        (b"upstream   down", "text/plain", ": upstream down"),
        (b'{"status": "ok"}', "application/json", '{"status": "ok"}'),
        (b"{broken", "application/json", "{broken"),
        (b"data: {broken\n\n", "text/event-stream", "{broken"),
    ],
)
async def test_a_body_that_is_no_completion_is_malformed_and_shown(
    body: bytes, label: str, shown: str
) -> None:
    failure = await failure_of(plain(body, headers=[f"content-type: {label}", "request-id: r"]))
    assert (failure.code, failure.request_id) == ("MALFORMED_RESPONSE", "r")
    assert shown in failure.message


async def test_an_error_in_one_object_of_status_200_is_a_failure() -> None:
    failure = await failure_of(plain({"error": {"message": "no", "code": "rate_limit_exceeded"}}))
    assert failure.code == "RATE_LIMIT"


# --- refusals


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {"error": {"message": "bad"}}, "INVALID_REQUEST"),
        (
            400,
            {"error": {"code": "context_length_exceeded", "message": "x"}},
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (
            400,
            {
                "error": {
                    "message": "This model's maximum context length is 65536 tokens. However,"
                    " you requested 70000 tokens."
                }
            },
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (
            400,
            {"error": {"message": "prompt is too long: 213462 tokens > 200000 maximum"}},
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (
            400,
            {"error": {"message": "the request exceeds the available context size"}},
            "CONTEXT_WINDOW_EXCEEDED",
        ),
        (400, {"error": {"message": "max_tokens is too large: 100000"}}, "INVALID_REQUEST"),
        (400, {"error": {"message": "Your credit balance is too low"}}, "QUOTA"),
        (401, {"error": {"message": "no"}}, "AUTH"),
        (402, {"error": {"message": "Insufficient Balance"}}, "QUOTA"),
        (403, {"error": {"message": "insufficient_quota"}}, "AUTH"),
        (404, {"error": {"message": "no such model"}}, "HTTP_404"),
        (408, {}, "TIMEOUT"),
        (409, {}, "HTTP_409"),
        (413, {"error": {"message": "maximum context length"}}, "INVALID_REQUEST"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "HTTP_422"),
        (429, {"error": {"message": "slow down"}}, "RATE_LIMIT"),
        (429, {"error": {"message": "You exceeded your current quota, please check"}}, "QUOTA"),
        (429, {"error": {"message": "no", "type": "insufficient_quota"}}, "QUOTA"),
        (500, {"error": {"message": "quota service: insufficient_quota"}}, "SERVER"),
        (503, b"<html><title>503</title></html>", "SERVER"),
        (529, b"", "SERVER"),
        (204, b"", "HTTP_204"),
    ],
)
async def test_a_status_is_mapped_to_a_code(status: int, body: Any, code: str) -> None:
    failure = await failure_of(plain(body, f"{status} X", ["x-request-id: r-7"]))
    assert (failure.code, failure.status, failure.request_id) == (code, status, "r-7")
    assert str(status) in failure.message


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": {"message": "A"}}, ": A"),
        ({"error": "B"}, ": B"),
        ({"message": "C"}, ": C"),
        ({"detail": "D"}, ": D"),
        ({"detail": [{"msg": "E"}]}, ": E"),
        ([{"error": {"message": "F"}}], ": F"),
        ({"error": "Bad Request", "message": "G"}, ": G"),
        ({"odd": 1}, ': {"odd": 1}'),
        (b"plain\n  words", ": plain words"),
        (b"<html><head><TITLE>\n502 Bad\nGateway</TITLE></head><body>x", ": 502 Bad Gateway"),
        (b"<p>no <b>title</b></p>", ": no title"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
    ],
)
async def test_the_providers_own_words_are_shown(body: Any, shown: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    failure = await failure_of(plain(data, "500 X"))
    assert failure.message.endswith("answered 500" + shown)


async def test_long_words_are_cut() -> None:
    failure = await failure_of(plain({"error": {"message": "x" * 10_000}}, "500 X"))
    assert len(failure.message) < 500


async def test_an_endless_body_of_a_refusal_is_not_read_to_its_end() -> None:
    async def endless(transport: asyncio.Transport) -> None:
        while True:
            transport.write(piece(b"y" * 4096))
            await asyncio.sleep(0)

    head = b"HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n"
    assert (await failure_of([head, endless])).code == "SERVER"


async def test_a_refusal_whose_body_breaks_off_keeps_its_status() -> None:
    head = b"HTTP/1.1 503 X\r\ncontent-length: 100\r\n\r\nbusy"
    failure = await failure_of([head, close])
    assert (failure.code, failure.message.endswith("503: busy")) == ("SERVER", True)


async def test_a_404_names_the_whole_address_without_its_credentials() -> None:
    async with WireServer(plain({}, "404 X")) as server:
        url = server.url.replace("//", "//user:password@") + "/api/?key=KEYTEXT"
        async with adapter(url, api_key=None, key_hint=None) as opened:
            with pytest.raises(LlmFailure) as raised:
                await collect(opened)
    assert f"{server.url}/api/chat/completions answered 404" in raised.value.message
    assert "password" not in raised.value.message
    assert "KEYTEXT" not in raised.value.message


async def test_a_redirect_is_not_followed_but_named() -> None:
    headers = ["location: https://elsewhere.test/v1"]
    failure = await failure_of(plain(b"", "308 X", headers))
    assert failure.code == "HTTP_308"
    assert "https://elsewhere.test/v1" in failure.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (["retry-after: 2"], 2.0),
        (["retry-after: 0.5"], 0.5),
        (["retry-after: 86400"], 86400.0),
        (["retry-after-ms: 1500", "retry-after: 9"], 1.5),
        (["retry-after: soon"], None),
        (["retry-after: -1"], None),
        (["retry-after: nan"], None),
        ([], None),
    ],
)
async def test_the_wish_to_wait_is_read(headers: list[str], seconds: float | None) -> None:
    failure = await failure_of(plain({}, "429 X", headers))
    assert failure.retry_after_seconds == seconds


async def test_the_wish_to_wait_may_be_a_date() -> None:
    for ahead, low, high in ((60, 50, 60), (-60, 0, 0)):
        date = formatdate(time.time() + ahead, usegmt=True)
        failure = await failure_of(plain({}, "503 X", [f"retry-after: {date}"]))
        assert failure.retry_after_seconds is not None
        assert low <= failure.retry_after_seconds <= high


# --- connections


async def test_a_refused_connection_names_host_and_cause() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, so that nobody else listens there
        port = held.getsockname()[1]
        async with adapter(f"http://127.0.0.1:{port}") as opened:
            with pytest.raises(LlmFailure) as raised:
                await collect(opened)
    assert raised.value.code == "TRANSPORT"
    assert f"127.0.0.1:{port}" in raised.value.message
    assert "Errno" in raised.value.message


async def test_an_unknown_host_names_host_and_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with adapter("http://api.invalid/v1") as opened:
        with pytest.raises(LlmFailure) as raised:
            await collect(opened)
    assert raised.value.code == "TRANSPORT"
    assert "api.invalid" in raised.value.message
    assert "Name or service not known" in raised.value.message


async def test_a_failed_tls_handshake_names_host_and_cause() -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with adapter(f"https://{host}/v1") as opened:
            with pytest.raises(LlmFailure) as raised:
                await collect(opened)
    assert raised.value.code == "TRANSPORT"
    assert host in raised.value.message
    assert "SSL" in raised.value.message


async def test_closing_the_iterator_closes_the_connection() -> None:
    steps = [SSE_HEAD, piece(delta(content="a")), asyncio.Event()]
    async with WireServer(steps) as server, adapter(server.url) as opened:
        async with aclosing(opened.stream(REQUEST)) as chunks:  # type: ignore[type-var]
            assert await anext(chunks) == BlockStart(0, "text")
        await server.gone.wait()


async def test_a_cancelled_request_ends_as_cancelled_and_closes_its_connection() -> None:
    for steps in ([asyncio.Event()], [SSE_HEAD, piece(delta(content="a")), asyncio.Event()]):
        async with WireServer(list(steps)) as server, adapter(server.url) as opened:
            task = asyncio.create_task(collect(opened))
            await until(lambda: server.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.gone.wait()


async def test_closing_the_adapter_closes_its_connections() -> None:
    async with WireServer(answer()) as server:
        async with adapter(server.url) as opened:
            await collect(opened)
            assert len(server.open) == 1
        await until(lambda: not server.open)


async def test_an_adapter_that_was_never_used_can_be_closed() -> None:
    await OpenAIChat(provider("http://x.invalid")).aclose()


# --- silence


async def waiting(
    server: WireServer, opened: OpenAIChat, seen: list[Chunk]
) -> "asyncio.Task[None]":
    """A task that has asked and waits for the answer to go on."""
    task = asyncio.create_task(gather_into(seen, opened))
    await until(lambda: server.asked)
    return task


async def test_a_server_that_never_answers_times_out(clock: Clock) -> None:
    async with WireServer([asyncio.Event()]) as server, adapter(server.url) as opened:
        task = await waiting(server, opened, [])
        await clock.advance(119)
        assert not task.done()
        await clock.advance(2)
        with pytest.raises(LlmFailure, match="120 s") as raised:
            await task
        assert raised.value.code == "TIMEOUT"
        assert "Cancelled" not in error_chain(raised.value)
        assert task.cancelling() == 0
        await server.gone.wait()


async def test_a_whole_answer_may_take_five_times_as_long(clock: Clock) -> None:
    request = Request("test/m", MESSAGES, stream=False)
    async with WireServer([asyncio.Event()]) as server, adapter(server.url) as opened:
        task = asyncio.create_task(collect(opened, request))
        await until(lambda: server.asked)
        await clock.advance(599)
        assert not task.done()
        await clock.advance(2)
        with pytest.raises(LlmFailure, match="600 s"):
            await task


async def test_a_stream_that_falls_silent_times_out(clock: Clock) -> None:
    steps = [SSE_HEAD, piece(delta(content="a")), asyncio.Event()]
    async with (
        WireServer(steps) as server,
        adapter(server.url, options={"stream_idle_seconds": 3}) as opened,
    ):
        seen: list[Chunk] = []
        task = await waiting(server, opened, seen)
        await until(lambda: seen)
        await clock.advance(3.1)
        with pytest.raises(LlmFailure, match="sent nothing for 3 s"):
            await task
        await server.gone.wait()


@pytest.mark.parametrize(
    "ping", [b": ping\n\n", delta(content=""), event(choices=[]), b"data:\n\n", b"\n"]
)
async def test_keep_alives_are_no_sign_of_life(ping: bytes) -> None:
    async def pings(transport: asyncio.Transport) -> None:
        while True:
            transport.write(piece(ping))
            await asyncio.sleep(0.01)

    steps = [SSE_HEAD, piece(delta(content="a")), pings]
    failure = await failure_of(steps, options={"stream_idle_seconds": 0.15})
    assert failure.code == "TIMEOUT"


async def test_content_in_time_keeps_the_stream_alive(clock: Clock) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    steps: list[Step] = [SSE_HEAD]
    for gate in gates:
        steps += [piece(delta(content="x")), gate]
    async with (
        WireServer([*steps, piece(delta("stop")), END]) as server,
        adapter(server.url) as opened,
    ):
        seen: list[Chunk] = []
        task = await waiting(server, opened, seen)
        for number, gate in enumerate(gates):
            await until(lambda: len(seen) == number + 2)  # noqa: B023
            await clock.advance(100)
            gate.set()
        await task
    assert text_of(seen) == "xxxx"


async def test_a_slow_consumer_is_not_silence_and_silence_after_it_is(clock: Clock) -> None:
    steps = [SSE_HEAD, piece(delta(content="a")), piece(delta(content="b")), asyncio.Event()]
    async with WireServer(steps) as server, adapter(server.url) as opened:
        seen: list[Chunk] = []

        async def consume_slowly() -> None:
            async for chunk in opened.stream(REQUEST):
                seen.append(chunk)
                await clock.advance(1000)

        task = asyncio.create_task(consume_slowly())
        await until(lambda: len(seen) == 3)
        await clock.advance(0)
        await clock.advance(121)
        with pytest.raises(LlmFailure, match="120 s"):
            await task
    assert seen[1:] == [TextDelta(0, "a"), TextDelta(0, "b")]


async def test_zero_switches_the_limit_off(clock: Clock) -> None:
    gate = asyncio.Event()
    async with (
        WireServer([gate, *answer()]) as server,
        adapter(server.url, options={"stream_idle_seconds": 0}) as opened,
    ):
        seen: list[Chunk] = []
        task = await waiting(server, opened, seen)
        await clock.advance(1_000_000)
        gate.set()
        await task
    assert text_of(seen) == "hello"


async def test_a_cancellation_wins_over_silence_at_the_same_time(clock: Clock) -> None:
    for first in ("cancel", "silence"):
        async with WireServer([asyncio.Event()]) as server, adapter(server.url) as opened:
            task = await waiting(server, opened, [])
            if first == "cancel":
                task.cancel()
            clock.ahead += 121
            asyncio.get_running_loop().call_later(0, task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_a_stream_that_changes_tasks_is_watched_in_the_task_that_waits(clock: Clock) -> None:
    steps = [SSE_HEAD, piece(delta(content="a")), asyncio.Event()]
    async with WireServer(steps) as server, adapter(server.url) as opened:
        chunks = opened.stream(REQUEST)
        assert await anext(chunks) == BlockStart(0, "text")
        assert await anext(chunks) == TextDelta(0, "a")
        other = asyncio.ensure_future(anext(chunks))
        await clock.advance(0)
        await clock.advance(121)
        with pytest.raises(LlmFailure, match="120 s"):
            await other


# --- the key


@pytest.mark.parametrize(
    ("key", "code", "says"),
    [
        ("", "MISSING_CREDENTIAL", "TEST_API_KEY is not set or empty"),
        (" \n", "MISSING_CREDENTIAL", "TEST_API_KEY holds only blanks"),
        ("sk-sécret-KEYTEXT", "INVALID_CREDENTIAL", "not ASCII at character 5"),
        (" sk-sécret-KEYTEXT", "INVALID_CREDENTIAL", "character 6"),
        ("sk-KEY\nTEXT", "INVALID_CREDENTIAL", "control character at character 7"),
        ("sk-KEY\x7fTEXT", "INVALID_CREDENTIAL", "control character at character 7"),
        ("Bearer sk-KEYTEXT", "INVALID_CREDENTIAL", "blank or control character at character 7"),
        ("\ufeffsk-KEYTEXT", "INVALID_CREDENTIAL", "character 1"),
        ("KEY=sk-KEYTEXT", "INVALID_CREDENTIAL", "'=' at character 4"),
        ("export API_KEY=sk-KEYTEXT", "INVALID_CREDENTIAL", "'=' at character 15"),
        ('"sk-KEYTEXT"', "INVALID_CREDENTIAL", "quotation mark at character 1"),
        ("sk-KEYTEXT'", "INVALID_CREDENTIAL", "quotation mark at character 11"),
        ("“sk-KEYTEXT”", "INVALID_CREDENTIAL", "quotation mark at character 1"),
    ],
)
async def test_a_key_that_cannot_work_is_refused_before_any_request(
    key: str, code: str, says: str
) -> None:
    async with WireServer() as server, adapter(server.url, api_key=Secret(key)) as opened:
        for _ in range(2):
            with pytest.raises(LlmFailure) as raised:
                await collect(opened)
        assert server.asked == []
    failure = raised.value
    assert failure.code == code
    assert says in failure.message
    assert "TEST_API_KEY" in failure.message
    for part in ("KEYTEXT", "sk-", "é", "cret"):
        assert part not in failure.message


@pytest.mark.parametrize("key", [f" {KEY}\n", f"{KEY}\r\n", "a2V5=", "a2V5PT0=="])
async def test_blanks_around_a_key_are_left_out(key: str) -> None:
    _, server = await ask(answer(), api_key=Secret(key))
    assert server.asked[0].headers["authorization"] == f"Bearer {key.strip()}"


async def test_without_a_key_to_look_for_none_is_sent() -> None:
    _, server = await ask(answer(), api_key=None, key_hint=None)
    assert "authorization" not in server.asked[0].headers


async def test_a_key_that_was_looked_for_and_not_found_is_missing() -> None:
    failure = await failure_of([], api_key=None)
    assert failure.code == "MISSING_CREDENTIAL"


async def test_without_a_hint_the_configuration_key_is_named() -> None:
    failure = await failure_of([], api_key=Secret(""), key_hint=None)
    assert "providers.test.api_key" in failure.message


@pytest.mark.parametrize(
    "echo",
    [
        f"Incorrect API key provided: {KEY}.",
        f"bad header 'Bearer {KEY}'",
        f"key {KEY[:12]}… is wrong",
        "Incorrect API key provided: sk-KE************wxyz.",
    ],
)
async def test_a_key_that_the_server_repeats_is_not_shown(echo: str) -> None:
    bodies = [plain({"error": {"message": echo}}, "401 X"), plain(echo.encode(), "401 X")]
    for body in [*bodies, sse(event(error={"message": echo}), DONE), plain(echo.encode())]:
        failure = await failure_of(body)
        assert "***" in failure.message
        for part in (KEY, "KEYTEXT", "sk-KE", "wxyz"):
            assert part not in str(failure)


async def test_a_secret_header_that_the_server_repeats_is_not_shown() -> None:
    options = {"headers": {"api-key": "0123456789abcdef", "x-title": "Wonderful"}}
    body = {"error": {"message": "Wonderful key 0123456789abcdef is wrong"}}
    failure = await failure_of(plain(body, "401 X"), options=options)
    assert "Wonderful key *** is wrong" in failure.message


async def test_a_refused_key_is_traced_to_its_setting() -> None:
    failure = await failure_of(plain({"error": {"message": "no"}}, "401 X"))
    assert failure.message.endswith("no (the key comes from TEST_API_KEY)")


async def test_the_key_is_in_no_log_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    options = {"headers": {"x-secret": "hush-hush"}}
    async with WireServer(answer()) as server:
        given = provider(server.url, options=options)
        opened = FACTORY.open(given)
        assert isinstance(opened, OpenAIChat)
        await collect(opened)
        await opened.aclose()
    shown = caplog.text + repr(opened) + repr(opened._options) + repr(given.api_key)
    assert "KEYTEXT" not in shown
    assert "hush" not in shown
    assert KEY in server.asked[0].headers["authorization"]


# --- the options


def test_the_factory_names_its_options() -> None:
    assert FACTORY.name == "openai_chat"
    assert FACTORY.options == {
        "connect_seconds",
        "headers",
        "include_usage",
        "path",
        "stream_idle_seconds",
        "system_role",
        "verify",
    }


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("connect_seconds", 0, "above 0"),
        ("connect_seconds", "10", "number of seconds"),
        ("stream_idle_seconds", -1, "number of seconds"),
        ("stream_idle_seconds", True, "number of seconds"),
        ("stream_idle_seconds", float("nan"), "number of seconds"),
        ("include_usage", "yes", "true or false"),
        ("system_role", "root", "system or developer"),
        ("path", "/", "must be a path"),
        ("path", 7, "must be a path"),
        ("verify", "/no/such/file", "path of trusted certificates"),
        ("verify", 1, "path of trusted certificates"),
        ("headers", ["a"], "mapping"),
        ("headers", {"a b": "c"}, "'a b' is no header name"),
        ("headers", {"a": 1}, "header a must be printable ASCII text"),
        ("headers", {"a": "x\ny"}, "header a must be printable ASCII text"),
        ("headers", {"a": Secret("é")}, "header a must be printable ASCII text"),
        ("model", "x", "no option of openai_chat"),
    ],
)
def test_an_option_of_the_wrong_kind_is_named(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        OpenAIChat(provider("http://x.invalid", options={name: value}))
    assert raised.value.where == f"providers.test.{name}"


@pytest.mark.parametrize("verify", [True, False, "."])
def test_verify_is_a_flag_or_a_path(verify: bool | str) -> None:
    assert OpenAIChat(provider("https://x.invalid", options={"verify": verify}))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "is missing"),
        ("", "is missing"),
        ("  ", "is missing"),
        ("api.deepseek.com", "no http or https address"),
        ("ftp://api.deepseek.com", "no http or https address"),
        ("http://", "no http or https address"),
        ("http://x:99999", "no http or https address"),
        ("http://[::1", "no http or https address"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_the_users_mistake(url: str | None, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        OpenAIChat(provider(url))
    assert raised.value.where == "providers.test.base_url"


async def test_an_address_that_the_library_cannot_use_is_the_users_mistake() -> None:
    opened = OpenAIChat(provider("http://☃.invalid"))
    with pytest.raises(ConfigError, match="is no address"):
        await collect(opened)
