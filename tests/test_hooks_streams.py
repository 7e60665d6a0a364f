"""`llm_stream`: answering with a stream, wrapping one, and who is blamed for what it raises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from streaming import Model, Next, Returns, Wraps, opened, text, words

from dsh_core.chunks import Chunk, Finish, TextDelta
from dsh_core.errors import LlmFailure, PluginError
from dsh_core.marks import hookimpl
from dsh_core.request import Request
from dsh_core.testing.hooks import HookLab

# ----------------------------------------------------------------------------------------- answers


async def test_without_plugins_the_core_streams() -> None:
    assert await text(HookLab()) == "a b"


async def test_a_generator_function_wraps_the_rest() -> None:
    assert await text(HookLab(x=Wraps("x"), y=Wraps("y"))) == "xya xyb"


async def test_a_generator_function_without_call_next_answers_itself() -> None:
    class Own:
        @hookimpl
        async def llm_stream(self, request: Request) -> AsyncIterator[Chunk]:
            yield TextDelta(0, request.model)

    model = Model("never")
    assert await text(HookLab(x=Wraps("x"), o=Own()), model) == "xp/m"
    assert model.opened == 0


async def test_a_generator_that_yields_nothing_is_an_empty_answer_and_never_passes() -> None:
    class Silent:
        @hookimpl
        async def llm_stream(self) -> AsyncIterator[Chunk]:
            return
            yield

    assert await text(HookLab(s=Silent())) == ""


async def test_an_async_def_may_return_an_iterator() -> None:
    lab = HookLab(x=Wraps("x"), r=Returns(lambda: words("own")))
    assert await text(lab) == "xown"


async def test_an_async_def_may_return_the_iterator_of_the_rest() -> None:
    class Through:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            return await call_next()

    assert await text(HookLab(t=Through(), x=Wraps("x"))) == "xa xb"


async def test_none_passes_with_and_without_call_next() -> None:
    class Declines:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> None:
            return None

    class DeclinesSync:
        @hookimpl
        def llm_stream(self) -> None:
            return None

    lab = HookLab(a=Returns(None), b=Declines(), c=DeclinesSync(), x=Wraps("x"))
    assert await text(lab) == "xa xb"


async def test_a_wrapper_that_loses_the_stream_it_asked_for_is_blamed() -> None:
    class Loses:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> None:
            await call_next()

    log: list[str] = []
    lab = HookLab(l=Loses(), x=Wraps("x", log))
    with pytest.raises(PluginError, match="plugin 'l' in llm_stream: returned no async iterator"):
        await text(lab)


async def test_something_that_only_can_be_iterated_is_an_answer() -> None:
    class Iterable:
        def __aiter__(self) -> AsyncIterator[Chunk]:
            return words("it")

    assert await text(HookLab(r=Returns(Iterable()))) == "it"


@pytest.mark.parametrize("junk", ["text", 7, [TextDelta(0, "x")]], ids=repr)
async def test_an_answer_that_is_no_iterator_is_refused(junk: Any) -> None:
    with pytest.raises(PluginError, match="plugin 'j' in llm_stream: returned no async iterator"):
        await text(HookLab(x=Wraps("x"), j=Returns(junk)))


async def test_an_item_that_is_no_chunk_is_refused_and_blamed() -> None:
    class Junk:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Any]:
            async for _ in await call_next():
                yield "text"

    with pytest.raises(PluginError, match="plugin 'j' in llm_stream: TypeError: yielded a str"):
        await text(HookLab(x=Wraps("x"), j=Junk(), y=Wraps("y")))


async def test_nothing_may_be_replaced() -> None:
    class Tries:
        @hookimpl
        async def llm_stream(self, request: Request, *, call_next: Next) -> AsyncIterator[Chunk]:
            async for chunk in await call_next(request=request):
                yield chunk

    with pytest.raises(PluginError, match="call_next cannot replace `request`"):
        await text(HookLab(t=Tries()))


# ------------------------------------------------------------------------------------------- blame


async def test_an_exception_during_iteration_is_blamed_on_the_innermost_that_raised() -> None:
    class Breaks:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            async for chunk in await call_next():
                yield chunk
                raise ValueError("broke")

    with pytest.raises(PluginError) as caught:
        await text(HookLab(x=Wraps("x"), b=Breaks(), y=Wraps("y")))
    assert (caught.value.plugin, caught.value.hook) == ("b", "llm_stream")
    assert isinstance(caught.value.__cause__, ValueError)


async def test_an_exception_before_the_first_chunk_is_blamed_too() -> None:
    with pytest.raises(PluginError, match="plugin 'r' in llm_stream: ValueError: no"):
        await text(HookLab(x=Wraps("x"), r=Returns(ValueError("no"))))


@pytest.mark.parametrize("failure", [SystemExit(1), asyncio.CancelledError()], ids=repr)
async def test_system_exit_and_unasked_cancellations_are_the_plugins_fault(
    failure: BaseException,
) -> None:
    class Breaks:
        @hookimpl
        async def llm_stream(self) -> AsyncIterator[Chunk]:
            yield TextDelta(0, "a")
            raise failure

    with pytest.raises(PluginError, match="plugin 'b'"):
        await text(HookLab(b=Breaks()))


@pytest.mark.parametrize(
    "failure", [ValueError("bug"), LlmFailure("SERVER", "down"), asyncio.CancelledError()], ids=repr
)
async def test_what_the_core_raises_stays_itself_through_plugins(failure: BaseException) -> None:
    with pytest.raises(type(failure)) as caught:
        await text(HookLab(x=Wraps("x"), y=Wraps("y")), Model("a", failure))
    assert caught.value is failure


async def test_a_plugin_may_recover_from_what_the_rest_raises() -> None:
    class Recovers:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            try:
                async for chunk in await call_next():
                    yield chunk
            except LlmFailure:
                yield Finish("stop")

    async with opened(HookLab(r=Recovers()), Model("a", LlmFailure("SERVER", "down"))) as chunks:
        assert [type(chunk) async for chunk in chunks] == [TextDelta, Finish]


async def test_what_the_consumer_raises_is_nobodys_fault() -> None:
    async def consume() -> None:
        async with opened(HookLab(x=Wraps("x")), Model("a")) as chunks:
            async for _ in chunks:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()


# --------------------------------------------------------------------------------------- call_next


async def test_an_async_def_cannot_call_next_after_it_returned() -> None:
    caught: list[BaseException] = []

    class Late:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            async def later() -> AsyncIterator[Chunk]:
                try:
                    await call_next()
                except RuntimeError as error:
                    caught.append(error)
                yield TextDelta(0, "own")

            return later()

    assert await text(HookLab(late=Late())) == "own"
    assert "after the hook returned" in str(caught[0])


@pytest.mark.parametrize("ends", ["finished", "closed"])
async def test_a_generator_cannot_call_next_after_it_finished_or_was_closed(ends: str) -> None:
    kept: list[Next] = []

    class Keeps:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            kept.append(call_next)
            async for chunk in await call_next():
                yield chunk

    async with opened(HookLab(k=Keeps()), Model("a", "b")) as chunks:
        await anext(chunks)
        await kept[0]()
        if ends == "finished":
            assert len([chunk async for chunk in chunks]) == 1
            with pytest.raises(RuntimeError, match="after the hook returned"):
                await kept[0]()
    with pytest.raises(RuntimeError, match="after the hook returned"):
        await kept[0]()


async def test_a_wrapper_may_close_the_stream_it_abandons_itself() -> None:
    log: list[str] = []

    class Closes:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            first: Any = await call_next()
            await anext(first)
            await first.aclose()
            log.append("abandoned")
            async for chunk in await call_next():
                yield chunk

    lab = HookLab(c=Closes(), y=Wraps("y", log))
    assert await text(lab, Model("a", log=log)) == "ya"
    assert log[:2] == ["y closed", "abandoned"]


async def test_concurrent_streams_do_not_disturb_each_other() -> None:
    both = asyncio.Barrier(2)

    class Meets:
        @hookimpl
        async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
            async for chunk in await call_next():
                await both.wait()
                yield chunk

    lab = HookLab(m=Meets(), x=Wraps("x"))
    good, bad = await asyncio.gather(
        text(lab, Model("a", "b")),
        text(lab, Model("c", "d", KeyError("d"))),
        return_exceptions=True,
    )
    assert good == "xa xb"
    assert isinstance(bad, KeyError)


# ----------------------------------------------------------------------------------------- tracing


async def test_a_stream_is_traced_when_it_is_closed_even_if_it_never_began() -> None:
    traced: list[Any] = []

    def tracer(hook: str, seconds: float, ran: Any, values: Any) -> None:
        traced.append((hook, [(r["plugin"], r["decided"]) for r in ran]))

    lab = HookLab(tracer=tracer, n=Returns(None), x=Wraps("x"), r=Returns(lambda: words("own")))
    assert await text(lab) == "xown"
    assert traced.pop() == ("llm_stream", [("n", False), ("x", False), ("r", True)])
    with pytest.raises(PluginError):
        await text(HookLab(tracer=tracer, x=Returns(ValueError("no"))))
    assert traced.pop() == ("llm_stream", [("x", False)])
    await text(HookLab(tracer=tracer))
    assert traced == []
