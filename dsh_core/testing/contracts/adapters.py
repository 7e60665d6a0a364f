"""The contract of a model adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import pytest

from dsh_core.chunks import (
    BlockAssembler,
    BlockEnd,
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageChunk,
)
from dsh_core.content import Text, text_of
from dsh_core.errors import LlmFailure
from dsh_core.llm import LlmAdapter
from dsh_core.messages import USER, Message
from dsh_core.request import Request
from dsh_core.testing.contracts.in_loop import in_loop

Delta = (TextDelta, ReasoningDelta, ToolCallDelta)


class AdapterContract:
    """What every adapter does: the protocol of a stream, failures with codes, a clean end.

    Attributes:
        model: The route of requests, `provider/model`.
        text: What the model of `adapter()` answers.

    """

    model: str = "provider/model"
    text: str = "Hello."

    def adapter(self) -> LlmAdapter:
        """Return an adapter whose provider answers every request with `text`, in several pieces."""
        raise NotImplementedError

    def failing(self) -> Mapping[str, LlmAdapter]:
        """Return adapters whose provider fails, by the code that the failure must have."""
        return {}

    # ------------------------------------------------------------------------- tests

    @in_loop
    async def test_a_reply_is_a_stream_that_keeps_the_protocol(self) -> None:
        """Blocks open and close, usage comes before finish, and nothing after it."""
        adapter = self.adapter()
        chunks = await self._all(adapter)
        await adapter.aclose()
        _check_protocol(chunks)
        assembler = BlockAssembler()
        for chunk in chunks:
            assembler.feed(chunk)
        assert text_of(assembler.blocks()) == self.text

    @in_loop
    async def test_two_requests_at_once_do_not_mix(self) -> None:
        """One adapter serves all agents."""
        adapter = self.adapter()
        for chunks in await asyncio.gather(*(self._all(adapter) for _ in range(3))):
            _check_protocol(chunks)
        await adapter.aclose()

    @in_loop
    async def test_a_request_can_be_left_in_the_middle(self) -> None:
        """Closing the iterator ends the request; the next one is answered."""
        adapter = self.adapter()
        async with aclosing(adapter.stream(self._request())) as stream:  # type: ignore[type-var]
            await anext(stream)
        _check_protocol(await self._all(adapter))
        await adapter.aclose()

    @in_loop
    async def test_a_request_is_not_changed(self) -> None:
        """It is shared with the log."""
        adapter, request = self.adapter(), self._request()
        before = request.values()
        await self._all(adapter, request)
        await adapter.aclose()
        assert request.values() == before

    @in_loop
    async def test_closing_twice_is_once(self) -> None:
        """Also before anything was asked."""
        adapter = self.adapter()
        await adapter.aclose()
        await adapter.aclose()

    @in_loop
    async def test_failures_have_their_codes(self) -> None:
        """Raised as `LlmFailure`, or in a finish of reason `error`."""
        failing = self.failing()
        if not failing:
            pytest.skip("no failing adapters are given")
        found = {code: await self._code(adapter) for code, adapter in failing.items()}
        assert found == {code: code for code in failing}

    # ----------------------------------------------------------------------- plumbing

    def _request(self) -> Request:
        request = Request(self.model, (Message("user", (Text("Say hello."),), USER),))
        request.freeze()
        return request

    async def _all(self, adapter: LlmAdapter, request: Request | None = None) -> list[Chunk]:
        return [chunk async for chunk in adapter.stream(request or self._request())]

    async def _code(self, adapter: LlmAdapter) -> str | None:
        try:
            chunks = await self._all(adapter)
        except LlmFailure as failure:
            return failure.code
        finally:
            await adapter.aclose()
        last: Any = chunks[-1]
        return last.failure.code if isinstance(last, Finish) and last.failure else None


def _check_protocol(chunks: list[Chunk]) -> None:
    """Raise `AssertionError` for the first chunk that breaks the protocol."""
    kinds = [chunk.type for chunk in chunks]
    finishes = [index for index, chunk in enumerate(chunks) if isinstance(chunk, Finish)]
    assert finishes == [len(chunks) - 1], f"one finish, at the end; found {kinds}"
    usages = [chunk for chunk in chunks if isinstance(chunk, UsageChunk)]
    assert len(usages) <= 1, f"usage once; found {kinds}"
    is_open: set[int] = set()
    seen: set[int] = set()
    for chunk in chunks:
        if isinstance(chunk, BlockStart):
            assert chunk.index not in seen, f"block {chunk.index} begins twice"
            is_open.add(chunk.index)
            seen.add(chunk.index)
        elif isinstance(chunk, Delta):
            assert chunk.index in is_open, f"a piece of block {chunk.index}, which is not open"
        elif isinstance(chunk, BlockEnd):
            assert chunk.index in is_open, f"block {chunk.index} ends and was not open"
            is_open.remove(chunk.index)
    assert not is_open, f"blocks {sorted(is_open)} never end"
