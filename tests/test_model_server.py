import asyncio
import json
import socket
import subprocess
import sys

import httpx
import pytest
from model_client import BODY, HELLO, STREAM, connected, http, post, serving

from dsh_core.testing.behaviours import (
    rate_limit,
    reply,
    slow,
    stall,
)
from dsh_core.testing.model_server import ModelServer

# ------------------------------------------------------------------------- stalls and ends


async def first_piece(client):
    async with client.stream("POST", "chat/completions", json=STREAM) as response:
        return await anext(response.aiter_text())


@pytest.mark.parametrize("comments", [True, False])
async def test_a_stall_lasts_until_the_client_goes(comments):
    script = [stall("thinking", keep_alive_comments=comments, comment_seconds=0.001)]
    async with serving(script) as (server, client):
        assert await first_piece(client)
        await server.until(lambda: server.requests[0].state == "gone")


async def test_a_stalling_server_may_send_comments():
    script = [stall(keep_alive_comments=True, comment_seconds=0.001)]
    pieces = []
    async with (
        serving(script) as (_, client),
        client.stream("POST", "chat/completions", json=STREAM) as response,
    ):
        async for piece in response.aiter_text():
            pieces.append(piece)
            if len(pieces) == 3:
                break

    assert pieces[1:] == [": keep-alive\n\n"] * 2


async def test_a_client_that_leaves_a_slow_reply_is_noticed_during_the_pause():
    async with serving([slow("x" * 100, delay_seconds=3600)]) as (server, client):
        assert await first_piece(client)
        await server.until(lambda: server.requests[0].state == "gone")


async def test_closing_the_server_ends_stalled_connections():
    async with ModelServer([stall("a")]) as server, httpx.AsyncClient(trust_env=False) as client:
        url = f"{server.base_url}/chat/completions"
        async with client.stream("POST", url, json=STREAM) as response:
            pieces = response.aiter_raw()
            await anext(pieces)
            await anext(pieces)
            await server.aclose()
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(pieces)

        assert server.requests[0].state == "stopped"
        with pytest.raises(httpx.ConnectError):
            await client.post(url, json=BODY)


async def test_closing_the_server_ends_a_client_that_does_not_read():
    endless = reply("x" * 20_000_000, chunk_chars=1_000_000)
    async with ModelServer([endless]) as server, connected(server) as (_, writer):
        writer.transport.pause_reading()
        writer.write(http(STREAM))
        await server.until(lambda: len(server.requests) == 1)
        await server.aclose()

    assert server.requests[0].state == "stopped"


async def test_closing_an_idle_server_ends_kept_alive_connections():
    async with serving([reply("a")]) as (server, client):
        await post(client, BODY)
        await server.aclose()
        await server.aclose()


async def test_waiting_for_what_never_happens_lists_the_requests():
    async with serving([reply("a")]) as (server, client):
        await post(client, BODY)
        with pytest.raises(TimeoutError, match="request 1: 1 messages, last user 'hello', reply"):
            await server.until(lambda: False, timeout_seconds=0.001)


# ---------------------------------------------------------------------------------- script


async def test_requests_are_captured_as_they_came():
    body = {**BODY, "tools": [{"type": "function", "function": {"name": "read"}}]}
    async with serving([reply("a")]) as (server, client):
        raw_body = json.dumps(body, indent=3).encode()
        await client.post("chat/completions?x=1", content=raw_body, headers={"X-Mine": "Yes"})

    (request,) = server.requests
    assert request.raw == raw_body
    assert request.body == body
    assert request.path == "/v1/chat/completions?x=1"
    assert request.headers["x-mine"] == "Yes"
    assert request.last_text == "hello"
    assert request.tool_names == ["read"]


async def test_a_function_chooses_the_behaviour():
    async def later(request):
        return reply(f"{request.number}: {request.last_text}")

    async with serving([lambda request: reply(request.last_text), later]) as (server, client):
        answers = [(await post(client, BODY)).json() for _ in range(2)]

    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts == ["hello", "2: hello"]
    server.assert_consumed()


async def test_a_function_that_raises_is_a_500_and_a_problem():
    def broken(request):
        raise LookupError("no idea")

    async with serving([broken, reply("next")]) as (server, client):
        response = await post(client, BODY)
        after = await post(client, BODY)

    assert response.status_code == 500
    assert server.problems == ["request 1: broken raised LookupError: no idea"]
    assert after.status_code == 200
    with pytest.raises(AssertionError, match="broken raised LookupError"):
        server.assert_consumed()


async def test_a_request_after_the_script_is_a_500_that_says_so():
    async with serving([reply("a")]) as (server, client):
        await post(client, BODY)
        response = await post(client, BODY)

    message = response.json()["error"]["message"]
    assert response.status_code == 500
    assert message == (
        "model server: request 2: the script has no behaviour left (it had 1); "
        "the last message is 'hello'"
    )
    with pytest.raises(AssertionError, match="request 2: the script has no behaviour left"):
        server.assert_consumed()


async def test_behaviours_nobody_asked_for_are_named():
    async with serving([reply("a"), rate_limit(), lambda request: reply("c")]) as (server, client):
        await post(client, BODY)

    with pytest.raises(AssertionError, match="never asked for: rate_limit, <lambda>"):
        server.assert_consumed()


async def test_a_default_answers_what_comes_after_the_script():
    async with serving([reply("a")], default=reply("more")) as (server, client):
        answers = [(await post(client, BODY)).json() for _ in range(3)]

    texts = [answer["choices"][0]["message"]["content"] for answer in answers]
    assert texts == ["a", "more", "more"]
    server.assert_consumed()


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "reason"),
    [
        ("POST", "chat/completions", b"{", 400, "the body is not JSON"),
        ("POST", "chat/completions", b"\xff", 400, "the body is not JSON"),
        ("POST", "chat/completions", b'{"a": NaN}', 400, "NaN is not JSON"),
        ("POST", "chat/completions", b"[]", 400, "the body is not a JSON object but list"),
        ("POST", "completions", b"{}", 404, "unknown path"),
        ("GET", "chat/completions", b"", 404, "unknown path"),
    ],
)
async def test_an_invalid_request_does_not_use_up_the_script(method, path, content, status, reason):
    async with serving([reply("still here")]) as (server, client):
        refused = await client.request(method, path, content=content)
        after = await post(client, BODY)

    assert refused.status_code == status
    assert reason in refused.json()["error"]["message"]
    assert after.json()["choices"][0]["message"]["content"] == "still here"
    assert len(server.requests) == 1
    assert server.rejected[0].raw == content
    with pytest.raises(AssertionError, match="rejected: "):
        server.assert_consumed()


async def test_the_list_of_models_is_served():
    async with serving() as (server, client):
        response = await client.get("models")

    assert response.json()["data"][0]["id"] == "scripted"
    server.assert_consumed()


async def test_concurrent_requests_take_behaviours_in_order_of_arrival():
    async with serving([reply(str(n)) for n in range(20)]) as (server, client):
        responses = await asyncio.gather(*(post(client, BODY) for _ in range(20)))

    texts = [response.json()["choices"][0]["message"]["content"] for response in responses]
    assert sorted(texts, key=int) == [str(n) for n in range(20)]
    server.assert_consumed()


async def test_a_strict_server_refuses_what_a_provider_would_refuse():
    unanswered = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    history = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [unanswered]}, *HELLO]
    async with serving([reply("kept")], strict=True) as (server, client):
        refused = await post(client, {**BODY, "messages": history})
        after = await post(client, BODY)

    problem = "messages[2]: follows calls without a result: c1"
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == problem
    assert server.requests[0].problems == (problem,)
    assert server.problems == [f"request 1: {problem}"]
    assert after.status_code == 200
    with pytest.raises(AssertionError, match="request 1: messages"):
        server.assert_consumed()


# ------------------------------------------------------------------------- thread, command


def test_a_server_in_a_thread_serves_programs_that_a_test_waits_for():
    code = (
        "import sys, urllib.request as u\n"
        "print(u.urlopen(sys.argv[1] + '/chat/completions', data=sys.argv[2].encode()).read())"
    )
    with ModelServer.in_thread([reply("from the thread")]) as server:
        run = subprocess.run(
            [sys.executable, "-c", code, server.base_url, json.dumps(BODY)],
            capture_output=True,
            text=True,
            check=True,
            env={"no_proxy": "*"},
        )

    assert "from the thread" in run.stdout
    server.assert_consumed()


def test_a_test_can_wait_for_a_server_in_a_thread():
    with ModelServer.in_thread([stall("a")]) as server:
        port = httpx.URL(server.base_url).port
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(http(STREAM))
            server.wait_until(lambda: len(server.requests) == 1)
        server.wait_until(lambda: server.requests[0].state == "gone")


def test_a_taken_port_is_an_error_of_the_one_who_starts():
    with ModelServer.in_thread() as first:
        port = httpx.URL(first.base_url).port
        with pytest.raises(OSError, match="in use"), ModelServer.in_thread(port=port):
            pass


def test_a_server_that_was_not_started_says_so():
    with pytest.raises(RuntimeError, match="was not started"):
        _ = ModelServer().base_url
    with pytest.raises(RuntimeError, match="was not started"):
        ModelServer().wait_until(lambda: True)


# ------------------------------------------------------------------------------- the window


async def test_a_request_beyond_the_window_is_refused_and_uses_up_no_behaviour():
    large = {**BODY, "messages": [{"role": "user", "content": "x" * 4000}]}
    async with serving([reply("fits")], window_tokens=500) as (server, client):
        refused = await post(client, large)
        answered = await post(client, BODY)

    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert f"{server.requests[0].tokens} tokens" in refused.json()["error"]["message"]
    assert answered.json()["choices"][0]["message"]["content"] == "fits"
    assert [request.behaviour for request in server.requests] == ["context_overflow", "reply"]
    server.assert_consumed()


async def test_with_a_window_replies_report_what_was_counted():
    script = [reply("y" * 40), reply("z", usage={"prompt_tokens": 7})]
    async with serving(script, window_tokens=500) as (server, client):
        counted = (await post(client, BODY)).json()["usage"]
        given = (await post(client, BODY)).json()["usage"]

    tokens = server.requests[0].tokens
    assert tokens == len(server.requests[0].raw) // 4
    assert counted == {
        "prompt_tokens": tokens,
        "completion_tokens": 10,
        "total_tokens": tokens + 10,
    }
    assert given == {"prompt_tokens": 7}


async def test_closing_the_server_beside_an_idle_connection_is_quiet(caplog):
    async with ModelServer([reply("hi")]) as server, connected(server) as (reader, writer):
        writer.write(http(BODY))
        await reader.readuntil(b"}")
        await server.aclose()
        await asyncio.sleep(0)

    assert [record for record in caplog.records if record.name == "asyncio"] == []
