"""One `llm_stream` waterfall: who returned which iterator, who raised, and closing them all."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from types import TracebackType
from typing import Any, Generic, TypeVar

from dsh_core.chunks import Chunk
from dsh_core.errors import PluginError
from dsh_core.hooks.blame import is_stop
from dsh_core.hooks.chain import Chain, Implementation
from dsh_core.hooks.waterfall import Run, SlowReport, Values

R = TypeVar("R")


class StreamRun(Generic[R]):
    """An open stream. Use it as `async with`; entering returns the outermost iterator."""

    def __init__(
        self,
        chain: Chain,
        answer: Callable[..., Awaitable[AsyncIterator[R]]],
        report_slow: SlowReport,
        records: list[dict[str, Any]] | None,
        values: Values,
        tracer: Callable[..., None] | None,
    ):
        self._run = _StreamChain(chain, answer, report_slow, records)
        self._values = values
        self._tracer = tracer
        self._started = time.perf_counter()

    async def __aenter__(self) -> AsyncIterator[R]:
        try:
            iterator: AsyncIterator[R] = await self._run.start(self._values)
        except BaseException:
            await self._run.close()
            raise
        return iterator

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._run.close()
        if self._tracer is not None and self._run.records is not None:
            seconds = time.perf_counter() - self._started
            self._tracer(self._run.chain.hook, seconds, tuple(self._run.records), self._values)
        if error is not None:
            edge = self._run.at_edge(error)
            if edge is not error:
                raise edge from error


class _StreamChain(Run):
    """A waterfall of iterators: each is remembered, and blamed for what it raises."""

    __slots__ = ("iterators",)

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.iterators: list[tuple[int, AsyncIterator[Any]]] = []

    async def go_on(self, index: int, values: Values) -> Any:
        plain = self.chain.plain
        while index < len(plain):
            implementation = plain[index]
            result = await self._ask_stream(implementation, index, values)
            if result is not None:
                return result
            index += 1
        answered = await self._own_answer(values)
        self.iterators.append((index, answered))
        return answered

    async def _ask_stream(
        self, implementation: Implementation, index: int, values: Values
    ) -> AsyncIterator[Any] | None:
        record = self._begin(implementation, values)
        gate = _Gate()
        try:
            result = self._call_stream(implementation, index, values, gate)
            if isawaitable(result):
                result = await result
        except BaseException as error:
            gate.is_open = False
            self.blame(error, implementation)
            raise
        if not implementation.is_generator:
            gate.is_open = False
        self._end(record, values, decided=result is not None)
        if result is None and not implementation.wraps:
            return None
        if not hasattr(result, "__aiter__"):
            junk = PluginError(implementation.plugin, self.chain.hook, "returned no async iterator")
            self.blame(junk, implementation)
            raise junk
        self.iterators.append((index, result))
        return self._watched(implementation, result, gate)

    def _call_stream(
        self, implementation: Implementation, index: int, values: Values, gate: _Gate
    ) -> Any:
        if not implementation.wraps:
            return self._timed(implementation, values)

        async def call_next(**changes: Any) -> Any:
            if not gate.is_open:
                raise RuntimeError("call_next was called after the hook returned")
            return await self.go_on(index + 1, self.replace(values, changes, implementation))

        arguments = [values[name] for name in implementation.arguments]
        return implementation.function(*arguments, call_next=call_next)

    async def _watched(
        self, implementation: Implementation, iterator: AsyncIterator[Any], gate: _Gate
    ) -> AsyncIterator[Any]:
        try:
            async for item in iterator:
                if not isinstance(item, Chunk):
                    raise TypeError(f"yielded a {type(item).__name__}, not a chunk")
                yield item
        except BaseException as error:
            if not isinstance(error, GeneratorExit) and not is_stop(error):
                self.blame(error, implementation)
            raise
        finally:
            gate.is_open = False

    async def close(self) -> None:
        """Close every iterator, outermost first. A failure to close is no failure of the stream."""
        for _, iterator in sorted(self.iterators, key=lambda entry: entry[0]):
            closer = getattr(iterator, "aclose", None)
            if closer is None:
                continue
            try:
                await closer()
            except BaseException as error:
                if is_stop(error):
                    raise
        self.iterators.clear()


class _Gate:
    """Whether `call_next` may still be called."""

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = True
