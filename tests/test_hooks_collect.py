"""Collections: answers with the plugins they came from, and what a failing plugin causes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from waterfalls import unplaced

from dsh_core.errors import PluginError
from dsh_core.hooks.dispatch import DeadlineError
from dsh_core.marks import OnError, collect, hookimpl
from dsh_core.testing.hooks import HookLab

CONTAINED = [ValueError("no"), SystemExit(3), asyncio.CancelledError()]


def asks(policy: OnError, limit_seconds: float | None = None) -> Callable[..., Any]:
    @collect(policy, limit_seconds=limit_seconds)
    async def wanted(value: int) -> str: ...

    return wanted


class Answers:
    """Implements `wanted` with a fixed answer."""

    def __init__(self, answer: Any):
        self.answer = answer

    @hookimpl
    async def wanted(self, value: int) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


async def test_all_answers_but_none_are_collected_with_their_plugins_in_order() -> None:
    hook = asks(OnError.END_TURN)
    lab = HookLab(hook, a=Answers("x"), b=Answers(None), c=Answers(""), d=Answers(0))
    assert await lab.hooks.collect(hook, value=1) == [("a", "x"), ("c", ""), ("d", 0)]


@pytest.mark.parametrize("failure", CONTAINED, ids=repr)
async def test_where_failing_means_denying_the_error_is_the_answer(failure: BaseException) -> None:
    hook = asks(OnError.DENY)
    lab = HookLab(hook, a=Answers("x"), b=Answers(failure), c=Answers("z"))
    answers = dict(await lab.hooks.collect(hook, value=1))
    assert (answers["a"], answers["c"]) == ("x", "z")
    assert isinstance(answers["b"], PluginError)
    assert lab.reported == [answers["b"]]


async def test_where_failing_is_reported_it_is_no_answer() -> None:
    hook = asks(OnError.REPORT)
    lab = HookLab(hook, a=Answers(ValueError("no")), b=Answers("y"))
    assert await lab.hooks.collect(hook, value=1) == [("b", "y")]
    assert unplaced(lab.reports()) == ["plugin 'a' in wanted: ValueError: no"]


@pytest.mark.parametrize(
    "policy", [OnError.END_TURN, OnError.REFUSE, OnError.TOOL_ERROR, OnError.START]
)
async def test_elsewhere_the_first_failure_of_a_collection_is_raised(policy: OnError) -> None:
    hook = asks(policy)
    lab = HookLab(hook, a=Answers("x"), b=Answers(ValueError("no")))
    with pytest.raises(PluginError, match="plugin 'b' in wanted") as caught:
        await lab.hooks.collect(hook, value=1)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_an_answer_that_takes_too_long_counts_as_failing() -> None:
    class Never:
        @hookimpl
        async def wanted(self) -> str:
            await asyncio.Event().wait()
            return "late"

    hook = asks(OnError.DENY, limit_seconds=0.01)
    lab = HookLab(hook, a=Never(), b=Answers("y"))
    (plugin, error), other = await lab.hooks.collect(hook, value=1)
    assert (plugin, other) == ("a", ("b", "y"))
    assert isinstance(error, PluginError)
    assert isinstance(error.__cause__, DeadlineError)


async def test_a_cancelled_collection_gives_no_answers() -> None:
    class Never:
        @hookimpl
        async def wanted(self) -> str:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "swallowed"
            return "late"

    started = asyncio.Event()
    hook = asks(OnError.DENY)
    lab = HookLab(hook, a=Never())
    task = asyncio.create_task(lab.hooks.collect(hook, value=1))  # type: ignore[arg-type]
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_one_plugin_may_answer_a_hook_more_than_once() -> None:
    @collect(OnError.START)
    def brought() -> list[str]: ...

    class Two:
        @hookimpl
        def brought(self) -> list[str]:
            return ["a"]

        @hookimpl(specname="brought")
        def more(self) -> list[str]:
            return ["b"]

    lab = HookLab(brought, two=Two(), other=Two())
    assert sorted(lab.hooks.collect_from("two", brought)) == [["a"], ["b"]]
