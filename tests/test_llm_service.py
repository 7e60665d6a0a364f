"""The model service finds the adapter of a route and gives every reply one form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from loop_stage import Model, bounded, says

from dsh_core import (
    AdapterFactory,
    Chunk,
    LlmFailure,
    Message,
    ModelConfig,
    ProviderConfig,
    Request,
    Secret,
    UserError,
    hookimpl,
)
from dsh_core.chunks import Finish, TextDelta, Usage, UsageChunk
from dsh_core.content import Image, Reasoning, Text, ToolCall, ToolResult
from dsh_core.llm import Llm
from dsh_core.llm.service import estimate_tokens
from dsh_core.testing.hooks import HookLab


class Service:
    """A model service with one provider, and everything it told."""

    def __init__(self, *replies: Any, lab: HookLab | None = None):
        self.changes = 0
        self.model = Model(*replies)
        self.opened = 0
        self.lab = lab or HookLab()
        self.llm = Llm(self.lab.hooks, self._changed)
        self.unregister = self.llm.register(AdapterFactory("fake", self._open), owner="fake")
        self.llm.register_provider(ProviderConfig("p", "fake"), owner="config")

    def _changed(self) -> None:
        self.changes += 1

    def _open(self, provider: ProviderConfig) -> Any:
        self.opened += 1
        return self.model

    async def ask(self, route: str = "p/m") -> list[Chunk]:
        async with self.llm.stream(None, Request(route)) as chunks:
            return [chunk async for chunk in chunks]


def failure_of(chunks: list[Chunk]) -> LlmFailure:
    last = chunks[-1]
    assert isinstance(last, Finish)
    assert last.failure is not None
    return last.failure


# --------------------------------------------------------------------------------------- routing


async def test_an_adapter_is_opened_once_when_it_is_first_asked() -> None:
    service = Service("a", "b")
    assert service.opened == 0

    await service.ask()
    await service.ask()

    assert service.opened == 1
    assert [request.model for request in service.model.requests] == ["p/m", "p/m"]


@pytest.mark.parametrize(
    ("route", "says"),
    [
        ("none/m", "no provider 'none' for model 'none/m'; configured: p, q."),
        ("m", "no provider 'm'"),
        ("", "no provider ''"),
        ("q/m", "provider 'q' wants adapter 'gone'; installed: fake"),
    ],
)
async def test_a_route_nobody_serves_is_a_failure_that_says_who_is_there(
    route: str, says: str
) -> None:
    service = Service()
    service.llm.register_provider(ProviderConfig("q", "gone"), owner="config")

    failure = failure_of(await service.ask(route))

    assert failure.code == "NO_ADAPTER"
    assert says in failure.message


async def test_a_plugin_may_serve_a_route_nobody_else_does() -> None:
    class Serves:
        @hookimpl
        async def llm_stream(self, request: Request) -> AsyncIterator[Chunk]:
            for chunk in says(f"I am {request.model}"):
                yield chunk

    service = Service(lab=HookLab(serves=Serves()))
    text = "".join(c.text for c in await service.ask("none/m") if isinstance(c, TextDelta))

    assert text == "I am none/m"


async def test_names_are_taken_once() -> None:
    service = Service()

    with pytest.raises(UserError, match="adapter 'fake' exists already, from 'fake'"):
        service.llm.register(AdapterFactory("fake", service._open), owner="other")
    with pytest.raises(UserError, match="provider 'p' exists already"):
        service.llm.register_provider(ProviderConfig("p", "fake"), owner="other")
    assert service.changes == 2


async def test_what_is_disposed_is_gone_and_disposing_twice_does_nothing() -> None:
    service = Service()
    dispose = service.llm.register_provider(ProviderConfig("q", "fake"), owner="me")
    dispose()
    again = service.llm.register_provider(ProviderConfig("q", "fake"), owner="me")
    changes = service.changes

    dispose()
    assert "q" in service.llm.providers
    again()
    assert list(service.llm.providers) == ["p"]
    service.unregister()
    service.unregister()
    assert failure_of(await service.ask()).code == "NO_ADAPTER"
    assert service.changes == changes + 2


async def test_removing_an_owner_removes_what_it_brought() -> None:
    service = Service()
    service.llm.register_provider(ProviderConfig("q", "fake"), owner="me")
    changes = service.changes

    service.llm.remove_owner("nobody")
    assert service.changes == changes
    service.llm.remove_owner("me")
    assert list(service.llm.providers) == ["p"]
    service.llm.remove_owner("fake")
    assert failure_of(await service.ask()).code == "NO_ADAPTER"
    assert service.changes == changes + 2


async def test_a_call_that_runs_finishes_on_the_adapter_that_was_replaced() -> None:
    service = Service(says("one two three"))
    second = Model("from the new one")
    async with service.llm.stream(None, Request("p/m")) as chunks:
        first = await anext(aiter(chunks))
        service.unregister()
        service.llm.register(AdapterFactory("fake", lambda provider: second), owner="fake")
        rest = [chunk async for chunk in chunks]

    assert isinstance(first, TextDelta)
    assert rest[-1] == Finish("stop")
    text = "".join(c.text for c in await service.ask() if isinstance(c, TextDelta))
    assert text == "from the new one"


async def test_every_adapter_is_closed_in_the_end_also_the_replaced_and_after_a_broken_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[str] = []

    class Closes(Model):
        def __init__(self, name: str, error: BaseException | None = None):
            super().__init__()
            self._name, self._error = name, error

        async def aclose(self) -> None:
            closed.append(self._name)
            if self._error:
                raise self._error

    llm = Llm(HookLab().hooks, lambda: None)
    models = {
        "a": Closes("a", OSError("stuck")),
        "b": Closes("b", SystemExit(1)),
        "c": Closes("c"),
    }
    llm.register(AdapterFactory("fake", lambda provider: models[provider.name]), owner="x")
    disposers = {n: llm.register_provider(ProviderConfig(n, "fake"), owner="y") for n in models}
    for name in models:
        async with llm.stream(None, Request(f"{name}/m")) as chunks:
            [chunk async for chunk in chunks]
    disposers["c"]()

    await llm.aclose()
    await llm.aclose()

    assert sorted(closed) == ["a", "b", "c"]
    assert caplog.text.count("an adapter did not close") == 2


def test_what_is_configured_of_a_model_is_found_by_its_route() -> None:
    service = Service()
    model = ModelConfig(context_window_tokens=1_000)
    service.llm.register_provider(ProviderConfig("q", "fake", models={"big": model}), owner="c")

    assert service.llm.model_config("q/big") is model
    assert service.llm.model_config("q/other") == ModelConfig()
    assert service.llm.model_config("none/x") == ModelConfig()
    assert service.llm.default_model() == "q/big"


# --------------------------------------------------------------------------------------- one form


@pytest.mark.parametrize(
    "error",
    [
        ValueError("broken"),
        SystemExit(3),
        asyncio.CancelledError(),
        LlmFailure("QUOTA", "no money"),
        UserError("no key", remedy="Set one."),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("when", ["open", "call", "first", "later"])
async def test_whatever_an_adapter_raises_becomes_one_finish(
    error: BaseException, when: str
) -> None:
    service = Service(error)

    if when == "open":
        service.llm.register_provider(ProviderConfig("bad", "bad"), owner="c")

        def fails(provider: ProviderConfig) -> Any:
            raise error

        service.llm.register(AdapterFactory("bad", fails), owner="c")
        chunks = await service.ask("bad/m")
    else:

        async def stream(request: Request) -> AsyncIterator[Chunk]:
            if when == "later":
                yield TextDelta(0, "half")
            raise error

        def call(request: Request) -> Any:
            if when == "call":
                raise error
            return stream(request)

        service.model.stream = call
        chunks = await service.ask()

    failure = failure_of(chunks)
    assert [chunk.type for chunk in chunks] == [*(["text-delta"] * (when == "later")), "finish"]
    if isinstance(error, LlmFailure):
        assert failure is error
    else:
        assert failure.code == ("CONFIG" if isinstance(error, UserError) else "UNKNOWN")
        assert failure.__cause__ is error
        assert (str(error) or type(error).__name__) in failure.message


@pytest.mark.parametrize(
    ("reply", "chunks"),
    [
        ([TextDelta(0, "a")], [TextDelta(0, "a"), Finish("stop")]),
        ([], [Finish("stop")]),
        ([Finish("stop"), TextDelta(0, "late"), Finish("error")], [Finish("stop")]),
        (
            [Finish("stop"), UsageChunk(Usage(1))],
            [Finish("stop")],
        ),
    ],
)
async def test_chunks_end_with_one_finish(reply: list[Chunk], chunks: list[Chunk]) -> None:
    assert await Service(reply).ask() == chunks


@pytest.mark.parametrize(
    ("finish", "code"), [(Finish("error"), "UNKNOWN"), (Finish("aborted"), "ABORTED")]
)
async def test_an_ending_without_a_failure_gets_one(finish: Finish, code: str) -> None:
    chunks = await Service([finish]).ask()

    assert failure_of(chunks).code == code
    assert chunks[-1].reason == finish.reason


@pytest.mark.parametrize("junk", ["text", None, 3, Text("x"), {"type": "finish"}])
async def test_what_is_no_chunk_is_a_malformed_response(junk: Any) -> None:
    chunks = await Service([TextDelta(0, "a"), junk, TextDelta(0, "b")]).ask()

    assert failure_of(chunks).code == "MALFORMED_RESPONSE"
    assert len(chunks) == 2


async def test_a_secret_that_a_provider_repeats_is_in_no_failure_and_no_request_id() -> None:
    failures = [
        LlmFailure("AUTH", "bad key late-secret", request_id="late-secret"),
        ValueError("late-secret"),
        [Finish("error", LlmFailure("AUTH", "late-secret"), "late-secret")],
        [TextDelta(0, "a"), Finish("stop", request_id="r-late-secret")],
    ]
    for said in failures:
        service = Service(said)
        late = ProviderConfig("late", "fake", api_key=Secret("late-secret"))
        service.llm.register_provider(late, owner="test")
        finish = (await service.ask("late/m"))[-1]
        assert "late-secret" not in repr(finish)
        assert "late-secret" not in str(getattr(finish, "failure", None))


async def test_half_a_character_in_an_error_is_made_whole() -> None:
    failure = failure_of(await Service(ValueError("half \ud800")).ask())

    assert failure.message == "ValueError: half \ufffd"


async def test_what_a_plugin_raises_stays_raised() -> None:
    class Breaks:
        @hookimpl
        async def llm_stream(
            self, *, call_next: Callable[[], Awaitable[AsyncIterator[Chunk]]]
        ) -> AsyncIterator[Chunk]:
            async for chunk in await call_next():
                yield chunk
                raise ValueError("mine")

    service = Service("a b", lab=HookLab(breaks=Breaks()))

    with pytest.raises(Exception, match="plugin 'breaks' in llm_stream: ValueError: mine"):
        await service.ask()


async def test_leaving_a_stream_closes_the_adapters_iterator() -> None:
    closed: list[bool] = []

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        try:
            for number in range(100):
                yield TextDelta(0, f"{number}")
        finally:
            closed.append(True)

    service = Service()
    service.model.stream = stream
    async with service.llm.stream(None, Request("p/m")) as chunks:
        await anext(aiter(chunks))
        assert closed == []
    assert closed == [True]


async def test_a_request_may_be_sent_twice() -> None:
    service = Service("a", "b")
    request = Request("p/m", parameters={"stop": ["x"]})
    for _ in range(2):
        async with service.llm.stream(None, request) as chunks:
            [chunk async for chunk in chunks]

    with pytest.raises(AttributeError, match=r"Request\.model is frozen here"):
        request.model = "other"
    assert request.parameters["stop"] == ("x",)


async def test_a_caller_that_is_cancelled_stops_the_adapter() -> None:
    entered, closed = asyncio.Event(), asyncio.Event()

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        try:
            entered.set()
            await asyncio.Event().wait()
            yield TextDelta(0, "never")
        finally:
            closed.set()

    service = Service(stream)
    asking = asyncio.ensure_future(service.ask())
    await bounded(entered.wait())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert closed.is_set()


# ------------------------------------------------------------------------------------- measuring


def test_four_characters_are_a_token_and_a_message_costs_four() -> None:
    blocks = (
        Text("x" * 40),
        Reasoning("x" * 40),
        ToolCall("id", "name", "x" * 36),
        ToolResult("id", (Text("x" * 40), Image("a", "b"))),
        Image("image/png", "AA=="),
    )

    assert estimate_tokens((Message("user", blocks), Message("user", ()))) == 4 + 40 + 4
    assert estimate_tokens(()) == 0


@pytest.mark.parametrize("answer", [None, 7, 0])
async def test_a_plugin_may_count_better(answer: Any) -> None:
    class Counts:
        @hookimpl
        async def tokens_measure(self, messages: tuple[Message, ...]) -> Any:
            return answer

    service = Service(lab=HookLab(counts=Counts()))
    messages = (Message("user", (Text("x" * 40),)),)

    assert await service.llm.measure(None, messages) == (14 if answer is None else answer)


@pytest.mark.parametrize("answer", ["many", ValueError("cannot count")])
async def test_a_plugin_that_cannot_count_is_reported_and_the_estimate_holds(answer: Any) -> None:
    class Counts:
        @hookimpl
        async def tokens_measure(self) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    lab = HookLab(counts=Counts())
    measured = await Service(lab=lab).llm.measure(None, (Message("user", (Text("x" * 40),)),))

    assert measured == 14
    assert [report.plugin for report in lab.reported] == ["counts"]
