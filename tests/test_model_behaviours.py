import json

import httpx
import pytest
from model_client import BODY, STREAM, post, serving

from dsh_core.testing.behaviours import (
    auth_error,
    call,
    connection_reset,
    content_filter,
    context_overflow,
    empty,
    empty_body,
    error_in_stream,
    http_error,
    invalid_request,
    malformed_event,
    malformed_json,
    max_tokens,
    partial_disconnect,
    partial_eof,
    quota_exceeded,
    rate_limit,
    raw,
    refuse,
    reply,
    server_error,
    service_unavailable,
    slow,
    stream_disconnect,
    stream_eof,
    wrong_content_type,
)


def events(text):
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]


def deltas(text, key):
    chunks = [event for event in events(text) if event != "[DONE]" and event["choices"]]
    return [c["choices"][0]["delta"][key] for c in chunks if key in c["choices"][0]["delta"]]


# --------------------------------------------------------------------------------- replies


async def test_a_reply_streams_in_pieces_then_finish_usage_and_done():
    answer = reply(
        "Hello, world!", reasoning="Greet.", calls=[call("read", {"path": "a"})], chunk_chars=5
    )
    async with serving([answer]) as (server, client):
        response = await post(client, STREAM)

    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["x-request-id"] == "req_1"
    assert deltas(response.text, "reasoning_content") == ["Greet", "."]
    assert deltas(response.text, "content") == ["", "Hello", ", wor", "ld!"]
    pieces = [piece[0] for piece in deltas(response.text, "tool_calls")]
    assert pieces[0]["id"] == "call_1_0"
    assert pieces[0]["function"]["name"] == "read"
    assert "".join(piece["function"]["arguments"] for piece in pieces) == '{"path": "a"}'
    *_, finish, usage, done = events(response.text)
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 15
    assert done == "[DONE]"
    server.assert_consumed()


async def test_usage_is_streamed_only_to_clients_that_ask():
    async with serving([reply("a"), reply("b", usage=None)]) as (_, client):
        not_asked = await post(client, {**BODY, "stream": True})
        not_told = await post(client, STREAM)

    assert "usage" not in not_asked.text
    assert "usage" not in not_told.text


async def test_a_request_without_stream_gets_one_document():
    answer = reply("Hi", reasoning="Hm", calls=[call("a"), call("b", "{bad", id="x")])
    async with serving([answer]) as (_, client):
        response = await post(client, BODY)

    (choice,) = response.json()["choices"]
    assert response.headers["content-type"] == "application/json"
    assert response.json()["usage"]["prompt_tokens"] == 10
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "Hm"
    assert [
        (it["id"], it["function"]["name"], it["function"]["arguments"])
        for it in choice["message"]["tool_calls"]
    ] == [("call_1_0", "a", "{}"), ("x", "b", "{bad")]


async def test_a_call_alone_is_a_reply():
    async with serving([call("read", {"path": "ü"}), reply("done")]) as (server, client):
        first = (await post(client, BODY)).json()
        second = (await post(client, BODY)).json()

    message = first["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"path": "ü"}'
    assert second["choices"][0]["message"]["content"] == "done"
    assert [request.behaviour for request in server.requests] == ["call", "reply"]


async def test_lone_surrogates_go_out_as_escapes():
    async with serving([reply("a\ud83db", chunk_chars=1)]) as (_, client):
        response = await post(client, STREAM)

    assert deltas(response.text, "content") == ["", "a", "\ud83d", "b"]


@pytest.mark.parametrize(
    ("behaviour", "finish", "text"),
    [
        (slow("slowly", delay_seconds=0.001, wait_seconds=0.001), "stop", "slowly"),
        (max_tokens("cut"), "length", "cut"),
        (empty(), "stop", ""),
        (content_filter("so"), "content_filter", "so"),
    ],
    ids=lambda value: getattr(value, "verb", None),
)
async def test_a_whole_reply_says_how_it_finished(behaviour, finish, text):
    async with serving([behaviour, behaviour]) as (_, client):
        streamed = (await post(client, STREAM)).text
        whole = (await post(client, BODY)).json()["choices"][0]

    assert "".join(deltas(streamed, "content")) == text
    assert events(streamed)[-3]["choices"][0]["finish_reason"] == finish
    assert (whole["message"]["content"] or "", whole["finish_reason"]) == (text, finish)


@pytest.mark.parametrize(
    ("behaviour", "status", "code", "retry_after"),
    [
        (rate_limit(retry_after=2), 429, "rate_limit_exceeded", "2"),
        (rate_limit(), 429, "rate_limit_exceeded", None),
        (server_error(), 500, None, None),
        (service_unavailable(retry_after="Thu, 01 Jan 2099 00:00:00 GMT"), 503, None,
         "Thu, 01 Jan 2099 00:00:00 GMT"),
        (auth_error(), 401, "invalid_api_key", None),
        (invalid_request(), 400, None, None),
        (context_overflow(), 400, "context_length_exceeded", None),
        (quota_exceeded(), 429, "insufficient_quota", None),
        (quota_exceeded(status=402), 402, "insufficient_quota", None),
        (http_error(599, "odd", code="x"), 599, "x", None),
    ],
)  # fmt: skip
async def test_a_refusal_has_status_code_and_request_id(behaviour, status, code, retry_after):
    async with serving([behaviour]) as (server, client):
        response = await post(client, STREAM)

    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert response.headers.get("retry-after") == retry_after
    assert response.headers["x-request-id"] == "req_1"
    server.assert_consumed()


# -------------------------------------------------------------------------- broken replies


@pytest.mark.parametrize("body", [STREAM, BODY], ids=["stream", "plain"])
@pytest.mark.parametrize(
    "behaviour",
    [
        empty_body(),
        stream_eof(),
        partial_eof(),
        malformed_json("so far"),
        malformed_event(),
        wrong_content_type(),
        error_in_stream("overloaded"),
    ],
    ids=lambda behaviour: behaviour.verb,
)
async def test_a_broken_reply_is_good_http_and_no_completion(behaviour, body):
    async with serving([behaviour, reply("next")]) as (server, client):
        response = await post(client, body)
        after = await post(client, BODY)

    assert response.status_code == 200
    assert "[DONE]" not in response.text
    assert '"finish_reason": "stop"' not in response.text
    assert after.json()["choices"][0]["message"]["content"] == "next"
    assert server.requests[0].state == "answered"


async def test_what_was_said_before_a_reply_broke_arrives():
    script = [partial_eof("half"), malformed_json("half"), error_in_stream("no", after_text="half")]
    async with serving(script) as (_, client):
        texts = [(await post(client, STREAM)).text for _ in script]

    assert all('"content": "half"' in text for text in texts)
    assert events(texts[2])[-1] == {
        "error": {"message": "no", "type": "server_error", "code": "server_error"}
    }


@pytest.mark.parametrize("body", [STREAM, BODY], ids=["stream", "plain"])
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (refuse(), httpx.RemoteProtocolError),
        (connection_reset(), httpx.ReadError),
        (stream_disconnect(), httpx.RemoteProtocolError),
        (stream_disconnect(reset=True), httpx.ReadError),
        (partial_disconnect(), httpx.RemoteProtocolError),
    ],
)
async def test_a_broken_socket_is_an_error_of_the_transport(behaviour, error, body):
    async with serving([behaviour, reply("next")]) as (server, client):
        with pytest.raises(error):
            await post(client, body)
        after = await post(client, BODY)

    assert after.json()["choices"][0]["message"]["content"] == "next"
    assert [request.state for request in server.requests] == ["answered", "answered"]


async def test_text_before_a_disconnect_arrives():
    got = []

    async def read(client):
        async with client.stream("POST", "chat/completions", json=STREAM) as response:
            async for piece in response.aiter_text():
                got.append(piece)

    async with serving([partial_disconnect("half")]) as (_, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await read(client)

    assert deltas("".join(got), "content") == ["", "half"]


async def test_raw_bytes_arrive_cut_as_asked():
    data = "data: ü\n\n".encode()
    script = [raw(data[:7], b"", data[7:]), raw(data, cuts=4), raw(data, cuts=[7, 1])]
    got = []
    async with serving(script) as (_, client):
        for _ in script:
            async with client.stream("POST", "chat/completions", json=STREAM) as response:
                got.append([piece async for piece in response.aiter_raw()])

    assert got == [
        [data[:7], data[7:]],
        [data[:4], data[4:8], data[8:]],
        [data[:1], data[1:7], data[7:]],
    ]


async def test_raw_bytes_may_replace_the_whole_response():
    async with serving([raw(b"HTTP/1.1 200 OK\r\n", b"nonsense", status=None)]) as (_, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await post(client, STREAM)
