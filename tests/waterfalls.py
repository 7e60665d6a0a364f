"""A waterfall that rewrites text, and the plugins that tests of waterfalls are made of."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any

from dsh_core.marks import OnError, hookimpl, waterfall
from dsh_core.testing.hooks import HookLab

Next = Callable[..., Awaitable[str]]


@waterfall(OnError.END_TURN, returns=(str,), replaceable=("text",))
async def rewrite(text: str, fixed: int) -> str: ...


async def own(text: str, fixed: int) -> str:
    return f"core({text})"


async def run(lab: HookLab, text: str = "t", answer: Any = own) -> str:
    return await lab.hooks.waterfall(rewrite, answer, text=text, fixed=1)


def unplaced(reports: Iterable[str]) -> list[str]:
    """Reports without the place in the plugin's code at their end."""
    return [re.sub(r" \([^ ]+\.py:\d+\)$", "", report) for report in reports]


class Decides:
    def __init__(self, answer: Any):
        self.answer = answer
        self.calls = 0

    @hookimpl
    async def rewrite(self, text: str) -> Any:
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class DecidesSync(Decides):
    @hookimpl
    def rewrite(self, text: str) -> Any:  # type: ignore[override]
        self.calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Wraps:
    """Puts its name around what comes back."""

    def __init__(self, name: str):
        self.name = name

    @hookimpl
    async def rewrite(self, *, call_next: Next) -> str:
        return f"{self.name}({await call_next()})"


class Classic:
    """The same as a generator wrapper."""

    def __init__(self, name: str):
        self.name = name

    @hookimpl(wrapper=True)
    def rewrite(self) -> Generator[None, str, str]:
        result = yield
        return f"{self.name}({result})"
