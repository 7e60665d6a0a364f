"""One `llm_stream` waterfall: who returned which iterator, who raised, and closing them all."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from dsh_core.errors import PluginError, error_chain
from dsh_core.hooks.blame import as_plugin_error, heed_cancellation, is_close, is_stop
from dsh_core.hooks.chain import Implementation, Values
from dsh_core.hooks.ledger import Place
from dsh_core.hooks.waterfall import PASS, Gate, Run

R = TypeVar("R")

log = logging.getLogger("dsh.hooks")


class StreamRun(Generic[R]):
    """An open stream. Use it as `async with`; entering returns the outermost iterator.

    Leaving the block closes every iterator anybody returned, outermost first.
    """

    def __init__(self, chain: StreamChain, trace: Callable[[float], None] | None):
        self._chain = chain
        self._trace = trace
        self._started = time.perf_counter()

    async def __aenter__(self) -> AsyncIterator[R]:
        try:
            iterator: AsyncIterator[R] = await self._chain.start()
        except BaseException:
            await self._end()
            raise
        return iterator

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()
        if error is not None:
            edge = self._chain.at_edge(error)
            if edge is not error:
                raise edge from edge.__cause__

    async def _end(self) -> None:
        try:
            await self._chain.close()
        finally:
            if self._trace is not None:
                self._trace(time.perf_counter() - self._started)


class StreamChain(Run):
    """A waterfall of iterators: each is remembered, and blamed for what it raises."""

    __slots__ = ("_links", "requests", "task")

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._links: list[tuple[int, Link]] = []

    async def start(self) -> Any:
        """Return the outermost iterator."""
        self.task = asyncio.current_task()
        self.requests = self.task.cancelling() if self.task is not None else 0
        return await super().start()

    async def ask(self, implementation: Implementation, following: int, values: Values) -> Any:
        """Ask one implementation for an iterator."""
        link = Link(self, implementation)
        try:
            result = self._call(implementation, following, values, link.gate)
            if not implementation.is_generator:
                if isawaitable(result):
                    result = await result
                link.gate.close(result)
            if result is None and not link.gate.was_used:
                link.end()
                return PASS
            return self._linked(following, link, result)
        except BaseException as error:
            link.end()
            self.blame(error, implementation)
            raise

    def _call(
        self, implementation: Implementation, following: int, values: Values, gate: Gate
    ) -> Any:
        async def proceed(changes: Values) -> Any:
            gate.check()
            return await self.go_on(following, self.replace(values, changes))

        def call_next(**changes: Any) -> Awaitable[Any]:
            return gate.hand_out(proceed(changes))

        if implementation.wraps:
            return implementation.call_around(values, call_next)
        if implementation.is_async or implementation.is_generator:
            return implementation.call(values)
        return self.timed(implementation, values)

    async def own_answer(self, values: Values) -> Any:
        """Ask the core for its iterator."""
        return self._linked(
            len(self.chain.plain) + 1, Link(self, None), await super().own_answer(values)
        )

    def _linked(self, index: int, link: Link, result: Any) -> Any:
        """Remember an iterator, and watch it where there is somebody else to blame."""
        if not hasattr(result, "__aiter__"):
            raise PluginError(link.plugin or "?", self.chain.hook, "returned no async iterator")
        link.iterator = aiter(result)
        self._links.append((index, link))
        return link if self.chain.plain else link.iterator

    async def close(self) -> None:
        """Close every iterator, outermost first; one that fails is reported.

        A cancellation waits until all are closed.
        """
        stop: BaseException | None = None
        for _, link in sorted(self._links, key=lambda entry: entry[0]):
            try:
                await link.aclose()
            except BaseException as error:
                if is_close(error):
                    raise
                if is_stop(error):  # the others are to be closed, too
                    stop = error
                else:
                    self._report_unclosed(link, error)
        self._links.clear()
        if stop is not None:
            raise stop

    def _report_unclosed(self, link: Link, error: BaseException) -> None:
        if link.implementation is None:
            log.warning("closing the model's stream failed: %s", error_chain(error))
            return
        self.reports.report(as_plugin_error(link.implementation, error), self.values)


class Link:
    """An iterator of the chain, whose exceptions are blamed on who returned it."""

    __slots__ = ("_chain", "_place", "_started", "gate", "implementation", "iterator", "plugin")

    def __init__(self, chain: StreamChain, implementation: Implementation | None):
        self._chain = chain
        self.gate = Gate()
        self.implementation = implementation
        self.plugin = implementation.plugin if implementation is not None else None
        self.iterator: AsyncIterator[Any] | None = None
        self._place: Place | None = None
        self._started = time.perf_counter()
        if chain.ledger is not None and self.plugin is not None:
            self._place = chain.ledger.begin(self.plugin)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        chain = self._chain
        assert self.iterator is not None
        try:
            item = await anext(self.iterator)
            if not isinstance(item, chain.chain.mode.returns or object):
                wanted = " or ".join(kind.__name__ for kind in chain.chain.mode.returns)
                raise TypeError(f"yielded a {type(item).__name__}, not a {wanted}")
        except StopAsyncIteration:
            self.end()
            raise
        except BaseException as error:
            self.end()
            chain.blame(error, self.implementation)
            raise
        if chain.task is not None and chain.task.cancelling() > chain.requests:
            await heed_cancellation(chain.requests)
        return item

    async def aclose(self) -> None:
        """Close the iterator, if it can be closed."""
        self.end()
        closer = getattr(self.iterator, "aclose", None)
        if closer is not None:
            await closer()

    def end(self) -> None:
        """Note that the implementation has nothing more to say."""
        self.gate.shut()
        if self._place is not None and self._chain.ledger is not None:
            decided = self.iterator is not None and not self.gate.was_used
            seconds = time.perf_counter() - self._started
            self._chain.ledger.end(self._place, seconds, decided=decided)
            self._place = None
