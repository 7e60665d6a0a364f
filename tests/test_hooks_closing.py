"""Every iterator of a stream is closed, outermost first, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from streaming import Model, Next, Wraps, opened, text

from dsh_core.chunks import Chunk, TextDelta
from dsh_core.errors import PluginError
from dsh_core.marks import hookimpl
from dsh_core.request import Request
from dsh_core.testing.hooks import HookLab


async def test_all_iterators_are_closed_outermost_first() -> None:
    log: list[str] = []
    lab = HookLab(x=Wraps("x", log), y=Wraps("y", log))
    async with opened(lab, Model("a", "b", log=log)) as chunks:
        async for _ in chunks:
            break
        assert log == []
    assert log == ["x closed", "y closed", "model1 closed"]


class Twice:
    """Starts the rest, abandons it after one chunk, and starts it again."""

    @hookimpl
    async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
        async for chunk in await call_next():
            yield chunk
            break
        async for chunk in await call_next():
            yield chunk


async def test_abandoned_iterators_are_closed_too_each_level_before_the_next() -> None:
    log: list[str] = []
    lab = HookLab(x=Wraps("x", log), t=Twice(), y=Wraps("y", log))
    async with opened(lab, Model("a", "b", log=log)) as chunks:
        said = [chunk.text async for chunk in chunks if isinstance(chunk, TextDelta)]
    assert said == ["xya", "xya", "xyb"]
    # The second attempt ran to its end; the first is closed with the stream.
    assert log == ["model2 closed", "y closed", "x closed", "y closed", "model1 closed"]


async def test_iterators_are_closed_when_a_plugin_fails_before_the_stream_begins() -> None:
    class FailsAfter:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            iterator = await call_next()
            await anext(iterator)
            raise ValueError("no")

    log: list[str] = []
    with pytest.raises(PluginError, match="plugin 'f'"):
        await text(HookLab(f=FailsAfter(), y=Wraps("y", log)), Model("a", log=log))
    assert log == ["y closed", "model1 closed"]


async def test_without_plugins_the_models_iterator_is_closed() -> None:
    log: list[str] = []
    async with opened(HookLab(), Model("a", "b", log=log)) as chunks:
        await anext(chunks)
    assert log == ["model1 closed"]


async def test_an_iterator_that_fails_to_close_is_reported_and_the_others_are_closed() -> None:
    class Stubborn:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            try:
                async for chunk in await call_next():
                    yield chunk
            finally:
                raise OSError("stuck")

    log: list[str] = []
    lab = HookLab(s=Stubborn(), y=Wraps("y", log))
    async with opened(lab, Model("a", "b", log=log)) as chunks:
        await anext(chunks)
    assert log == ["y closed", "model1 closed"]
    (report,) = lab.reports()
    assert report.startswith("plugin 's' in llm_stream: OSError: stuck")


async def test_a_model_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck:
        def __aiter__(self) -> Stuck:
            return self

        async def __anext__(self) -> Chunk:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            raise OSError("connection lost")

    async def model(agent: Any, request: Request) -> AsyncIterator[Chunk]:
        return Stuck()

    lab = HookLab(x=Wraps("x"))
    assert await text(lab, model) == ""
    assert "closing the model's stream failed: OSError: connection lost" in caplog.text


async def test_a_cancellation_while_closing_waits_until_all_are_closed() -> None:
    log: list[str] = []
    closing = asyncio.Event()

    class SlowToClose:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            try:
                async for chunk in await call_next():
                    yield chunk
            finally:
                closing.set()
                await asyncio.Event().wait()

    async def consume() -> None:
        async with opened(HookLab(s=SlowToClose(), y=Wraps("y", log)), Model("a", log=log)) as c:
            await anext(c)

    task = asyncio.create_task(consume())
    await closing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["y closed", "model1 closed"]


async def test_a_cancellation_in_mid_stream_closes_everything() -> None:
    log: list[str] = []
    waiting = asyncio.Event()

    async def model(agent: Any, request: Request) -> AsyncIterator[Chunk]:
        async def hangs() -> AsyncIterator[Chunk]:
            try:
                yield TextDelta(0, "a")
                waiting.set()
                await asyncio.Event().wait()
            finally:
                log.append("model closed")

        return hangs()

    lab = HookLab(x=Wraps("x", log))
    task = asyncio.create_task(text(lab, model))  # type: ignore[arg-type]
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["model closed", "x closed"]
    assert lab.reported == []


async def test_a_cancellation_swallowed_in_mid_stream_is_raised_in_its_place() -> None:
    waiting = asyncio.Event()

    class Swallows:
        @hookimpl
        async def llm_stream(self) -> AsyncIterator[Chunk]:
            try:
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield TextDelta(0, "nothing happened")

    task = asyncio.create_task(text(HookLab(x=Wraps("x"), s=Swallows())))  # type: ignore[arg-type]
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
