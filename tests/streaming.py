"""A model that streams words, and the plugins that tests of streams are made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from dsh_core import hookspecs
from dsh_core.chunks import Chunk, TextDelta
from dsh_core.hooks.streams import StreamRun
from dsh_core.marks import hookimpl
from dsh_core.request import Request
from dsh_core.testing.hooks import HookLab

Next = Callable[..., Awaitable[AsyncIterator[Chunk]]]


class Model:
    """The core's own answer: streams words, and notes when it is opened and closed."""

    def __init__(self, *words: str | BaseException, log: list[str] | None = None):
        self.words = words
        self.log = log if log is not None else []
        self.opened = 0

    async def __call__(self, agent: Any, request: Request) -> AsyncIterator[Chunk]:
        self.opened += 1
        return self._words(f"model{self.opened}")

    async def _words(self, name: str) -> AsyncIterator[Chunk]:
        try:
            for word in self.words:
                if isinstance(word, BaseException):
                    raise word
                yield TextDelta(0, word)
        finally:
            self.log.append(f"{name} closed")


def opened(lab: HookLab, model: Any) -> StreamRun[Chunk]:
    return lab.hooks.stream(hookspecs.llm_stream, model, agent=None, request=Request("p/m"))


async def text(lab: HookLab, model: Any = None) -> str:
    words = []
    async with opened(lab, model or Model("a", "b")) as chunks:
        async for chunk in chunks:
            assert isinstance(chunk, TextDelta)
            words.append(chunk.text)
    return " ".join(words)


class Wraps:
    """An async generator around the rest; notes when it is closed."""

    def __init__(self, name: str, log: list[str] | None = None):
        self.name = name
        self.log = log if log is not None else []

    @hookimpl
    async def llm_stream(self, *, call_next: Next) -> AsyncIterator[Chunk]:
        try:
            async for chunk in await call_next():
                assert isinstance(chunk, TextDelta)
                yield TextDelta(0, f"{self.name}{chunk.text}")
        finally:
            self.log.append(f"{self.name} closed")


class Returns:
    """An `async def` that returns what it was given."""

    def __init__(self, answer: Any):
        self.answer = answer

    @hookimpl
    async def llm_stream(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer


async def words(*said: str) -> AsyncIterator[Chunk]:
    for word in said:
        yield TextDelta(0, word)
