"""A real HTTP server that plays a model: scripted chat completions on loopback.

::

    async with ModelServer([call("bash", {"command": "ls"}), reply("done")]) as server:
        ...  # point the product at server.base_url
        assert server.requests[1].last_text == "a.txt"
        server.assert_consumed()

A person can point a product at it: `python -m dsh_core.testing.model_server --say Hello`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Thread
from types import TracebackType
from typing import Any, Self

from dsh_core.errors import error_chain
from dsh_core.testing.behaviours import context_overflow, http_error, invalid_request
from dsh_core.testing.completions import JSON, encode
from dsh_core.testing.connection import Connection, HttpRequest
from dsh_core.testing.exchange import Behaviour, ModelRequest, Response, Scripted
from dsh_core.testing.provider_rules import problems_of

HOST = "127.0.0.1"
SERVER_TASK = "dsh-model-server"
"""What the tasks that serve a connection are called."""

COMPLETIONS = "/v1/chat/completions"
MODELS = "/v1/models"
MODEL_LIST = encode({"object": "list", "data": [{"id": "scripted", "object": "model"}]})


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request that was none: not JSON, or for a path nobody serves. It used up no behaviour."""

    method: str
    path: str
    raw: bytes
    reason: str


class ModelServer:
    """Answers each chat-completions request with the next behaviour of its script.

    Args:
        script: Behaviours, or functions from `ModelRequest` to one; a function that raises is a
            500 and a problem.
        strict: Refuse with a 400 what a real provider would refuse (`provider_rules`); such a
            request uses up no behaviour.
        window_tokens: Refuse a larger request as a provider does whose context window it exceeds;
            it uses up no behaviour. Replies then report what was counted as their usage.
        default: Answers every request after the script; None = those get a 500 that says so.
        port: 0 = a free one.

    Attributes:
        requests: Every well-formed request in order of arrival, refused ones too.
        rejected: What came in beside them.
        problems: Lines about broken provider rules, functions that raised, and requests after
            the end of the script.
    """

    def __init__(
        self,
        script: Iterable[Scripted] = (),
        *,
        strict: bool = False,
        window_tokens: int | None = None,
        default: Scripted | None = None,
        port: int = 0,
    ):
        self.requests: list[ModelRequest] = []
        self.rejected: list[Rejected] = []
        self.problems: list[str] = []
        self._script = list(script)
        self._used = 0
        self._strict = strict
        self._window_tokens = window_tokens
        self._default = default
        self._port = port
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._changed = asyncio.Event()

    # --------------------------------------------------------------------- life of a server

    async def start(self) -> None:
        """Listen. Raises `OSError` when the port is taken."""
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, HOST, self._port, limit=2**26)
        self._port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and end every connection, stalled ones too. Safe to call again."""
        if self._server is None:
            return
        server, self._server = self._server, None
        server.close()
        tasks = dict(self._connections)
        for task, connection in tasks.items():
            connection.abort()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    @classmethod
    @contextmanager
    def in_thread(
        cls,
        script: Iterable[Scripted] = (),
        *,
        strict: bool = False,
        window_tokens: int | None = None,
        default: Scripted | None = None,
        port: int = 0,
    ) -> Iterator[Self]:
        """Serve from a thread of its own, for tests that run a program and wait for it.

        Functions of the script run in that thread.
        """
        server = cls(script, strict=strict, window_tokens=window_tokens, default=default, port=port)
        started: Future[Callable[[], object]] = Future()
        thread = Thread(target=_run_in_thread, args=(server, started), daemon=True)
        thread.start()
        stop = started.result()
        try:
            yield server
        finally:
            stop()
            thread.join()

    @property
    def base_url(self) -> str:
        """Where clients go, as in `http://127.0.0.1:8080/v1`."""
        if self._loop is None:
            raise RuntimeError("the model server was not started: use `async with`")
        return f"http://{HOST}:{self._port}/v1"

    # ------------------------------------------------------------------------ what happened

    def assert_consumed(self) -> None:
        """Raise `AssertionError` unless the script is used up and nothing was asked in vain."""
        left = [_verb(entry) for entry in self._script[self._used :]]
        lines = [f"never asked for: {', '.join(left)}"] if left else []
        lines += self.problems
        lines += [f"rejected: {it.method} {it.path}: {it.reason}" for it in self.rejected]
        if lines:
            asked = "\n  ".join(map(repr, self.requests)) or "no request"
            raise AssertionError("\n".join(["model server:", *lines, f"  {asked}"]))

    async def until(
        self, predicate: Callable[[], bool], *, timeout_seconds: float | None = 10.0
    ) -> None:
        """Wait until `predicate` holds; it is asked whenever a request begins or ends.

        Raises `TimeoutError`, which lists the requests.

        Example:
            await server.until(lambda: server.requests[0].state == "gone")
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not predicate():
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"model server: never came true; {self.requests}") from None

    def wait_until(self, predicate: Callable[[], bool], *, timeout_seconds: float = 10.0) -> None:
        """Do what `until` does, from another thread than the server's."""
        if self._loop is None:
            raise RuntimeError("the model server was not started: use `in_thread`")
        waiting = self.until(predicate, timeout_seconds=timeout_seconds)
        asyncio.run_coroutine_threadsafe(waiting, self._loop).result()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # ---------------------------------------------------------------------- serving requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        task = asyncio.current_task()
        if self._server is None or task is None:  # accepted while the server was closing
            connection.abort()
            return
        task.set_name(SERVER_TASK)
        self._connections[task] = connection
        try:
            while await self._exchange(connection):
                pass
        except ConnectionError:
            pass  # the request's state says it
        except asyncio.CancelledError:
            if self._server is not None:
                raise
            # `aclose` ends its own task; Python 3.11's streams would log that as an error.
        finally:
            await self._end(task, connection)

    async def _end(self, task: asyncio.Task[Any], connection: Connection) -> None:
        """Close a connection; until it is closed, `aclose` has to wait for it."""
        try:
            await connection.close()
        except asyncio.CancelledError:
            if self._server is not None:
                raise
        finally:
            del self._connections[task]

    async def _exchange(self, connection: Connection) -> bool:
        """Take and answer one request; False = the connection is over."""
        try:
            http = await connection.read()
        except ValueError as error:
            await self._reject(connection, HttpRequest("?", "?", {}, b""), f"not HTTP: {error}")
            return False
        return http is not None and await self._answer(connection, http)

    async def _answer(self, connection: Connection, http: HttpRequest) -> bool:
        path = http.path.partition("?")[0]
        if (http.method, path) == ("GET", MODELS):
            return await connection.play(Response(200, JSON, (MODEL_LIST,)))
        if (http.method, path) != ("POST", COMPLETIONS):
            return await self._reject(connection, http, "unknown path", status=404)
        try:
            body = _parse(http.body)
        except ValueError as error:
            return await self._reject(connection, http, str(error))
        request = ModelRequest(len(self.requests) + 1, http.path, http.headers, http.body, body)
        self.requests.append(request)
        self._notify()
        try:
            reusable = await connection.play(await self._response_to(request))
            request.state = "answered"
        except ConnectionError:
            request.state = "gone"
            raise
        except asyncio.CancelledError:
            request.state = "stopped"
            raise
        finally:
            self._notify()
        return reusable

    async def _response_to(self, request: ModelRequest) -> Response:
        if self._strict and (found := problems_of(request.body)):
            request.problems = tuple(found)
            self.problems += [f"request {request.number}: {problem}" for problem in found]
            return invalid_request("; ".join(found)).response(request)
        window = self._window_tokens
        if window is not None:
            request.is_counted = True
            if request.tokens > window:
                overflow = context_overflow(limit_tokens=window, asked_tokens=request.tokens)
                request.behaviour = overflow.verb
                return overflow.response(request)
        entry = self._next(request)
        request.behaviour = _verb(entry)
        try:
            behaviour = await _chosen(entry, request)
            request.behaviour = behaviour.verb
            return behaviour.response(request)
        except Exception as error:  # noqa: BLE001 - the script is the test's; the client gets a 500
            message = f"request {request.number}: {_verb(entry)} raised {error_chain(error)}"
            self.problems.append(message)
            return http_error(500, message, type="script_error").response(request)

    def _next(self, request: ModelRequest) -> Scripted:
        if self._used < len(self._script):
            self._used += 1
            return self._script[self._used - 1]
        if self._default is not None:
            return self._default
        message = (
            f"request {request.number}: the script has no behaviour left "
            f"(it had {len(self._script)}); the last message is {request.last_text[:200]!r}"
        )
        self.problems.append(message)
        return http_error(500, f"model server: {message}", type="script_exhausted")

    async def _reject(
        self, connection: Connection, http: HttpRequest, reason: str, *, status: int = 400
    ) -> bool:
        self.rejected.append(Rejected(http.method, http.path, http.body, reason))
        self._notify()
        error = {"message": f"{http.method} {http.path}: {reason}", "type": "invalid_request_error"}
        return await connection.play(Response(status, JSON, (encode({"error": error}),)))


async def _chosen(entry: Scripted, request: ModelRequest) -> Behaviour:
    if not callable(entry):
        return entry
    chosen = entry(request)
    return await chosen if inspect.isawaitable(chosen) else chosen


def _parse(raw: bytes) -> Mapping[str, Any]:
    """Return the body of a request. Raises `ValueError` that says why it is none."""
    try:
        body = json.loads(raw.decode(), parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ValueError(f"the body is not a JSON object but {type(body).__name__}")  # noqa: TRY004
    return body


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _verb(entry: Scripted) -> str:
    if callable(entry):
        return getattr(entry, "__name__", repr(entry))
    return entry.verb


def _run_in_thread(server: ModelServer, started: Future[Callable[[], object]]) -> None:
    asyncio.run(_serve_until_stopped(server, started))


async def _serve_until_stopped(server: ModelServer, started: Future[Callable[[], object]]) -> None:
    """Set `started` to the function that stops the server, or to the error of its start."""
    try:
        await server.start()
    except OSError as error:
        started.set_exception(error)
        return
    stop = asyncio.Event()
    started.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
    try:
        await stop.wait()
    finally:
        await server.aclose()


if __name__ == "__main__":
    from dsh_core.testing.model_script import main

    sys.exit(main())
