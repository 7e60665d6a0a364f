"""Who is blamed for what a waterfall raises, and what stays itself."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Generator

import pytest
from waterfalls import Classic, Decides, DecidesSync, Next, Wraps, rewrite, run

from dsh_core.errors import LlmFailure, PluginError, UserError
from dsh_core.marks import OnError, hookimpl, waterfall
from dsh_core.testing.hooks import HookLab


@pytest.mark.parametrize("kind", [Decides, DecidesSync])
@pytest.mark.parametrize(
    "failure", [ValueError("no"), SystemExit(1), asyncio.CancelledError()], ids=repr
)
async def test_what_a_plugin_raised_leaves_as_an_error_that_names_it(
    kind: type[Decides], failure: BaseException
) -> None:
    lab = HookLab(rewrite, a=Wraps("a"), b=Classic("b"), c=kind(failure), d=Decides("d"))
    with pytest.raises(PluginError) as caught:
        await run(lab)
    assert (caught.value.plugin, caught.value.hook) == ("c", "rewrite")
    assert caught.value.__cause__ is failure


@pytest.mark.parametrize(
    "failure",
    [ValueError("bug"), LlmFailure("SERVER", "down"), UserError("x"), asyncio.CancelledError()],
    ids=repr,
)
async def test_what_the_core_raised_stays_itself(failure: BaseException) -> None:
    async def fails(text: str, fixed: int) -> str:
        raise failure

    with pytest.raises(type(failure)) as caught:
        await run(HookLab(rewrite, a=Wraps("a"), b=Classic("b")), answer=fails)
    assert caught.value is failure


@pytest.mark.parametrize("failure", [LlmFailure("SERVER", "down"), UserError("x")], ids=repr)
async def test_failures_in_the_users_words_stay_themselves_from_plugins_too(
    failure: BaseException,
) -> None:
    with pytest.raises(type(failure)) as caught:
        await run(HookLab(rewrite, a=Wraps("a"), b=Decides(failure)))
    assert caught.value is failure


async def test_an_earlier_failure_raised_again_later_is_still_its_authors() -> None:
    original = ValueError("from the core")

    async def fails(text: str, fixed: int) -> str:
        raise original

    class RemembersTheFirst:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            try:
                return await call_next()
            except ValueError as first:
                try:
                    return await call_next(text="other")
                except KeyError:
                    raise first from None

    class FailsOnOther:
        @hookimpl
        async def rewrite(self, text: str) -> None:
            if text == "other":
                raise KeyError(text)

    with pytest.raises(ValueError, match="from the core") as caught:
        await run(HookLab(rewrite, a=RemembersTheFirst(), b=FailsOnOther()), answer=fails)
    assert caught.value is original


async def test_blame_passes_through_nested_waterfalls_to_the_plugin_that_raised() -> None:
    @waterfall(OnError.END_TURN, returns=(str,))
    async def inner(depth: int) -> str: ...

    async def inner_answer(depth: int) -> str:
        return "deep"

    class Nests:
        def __init__(self) -> None:
            self.lab: HookLab

        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            below = await self.lab.hooks.waterfall(inner, inner_answer, depth=1)
            return f"{below} {await call_next()}"

    class FailsInside:
        def __init__(self, failure: Exception | None):
            self.failure = failure

        @hookimpl
        async def inner(self) -> str | None:
            if self.failure is not None:
                raise self.failure
            return None

    nests, fails = Nests(), FailsInside(ValueError("no"))
    nests.lab = HookLab(rewrite, inner, a=nests, b=fails)
    with pytest.raises(PluginError) as caught:
        await run(nests.lab)
    assert (caught.value.plugin, caught.value.hook) == ("b", "inner")
    fails.failure = None
    assert await run(nests.lab) == "deep core(t)"


async def test_a_cancellation_swallowed_by_a_plugin_is_raised_in_its_place() -> None:
    started = asyncio.Event()

    class Swallows:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            try:
                return await call_next()
            except asyncio.CancelledError:
                return "swallowed"

    async def hangs(text: str, fixed: int) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.create_task(run(HookLab(rewrite, a=Swallows()), answer=hangs))  # type: ignore[arg-type]
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_with_policy_report_the_core_answers_for_a_plugin_that_failed() -> None:
    @waterfall(OnError.REPORT, returns=(int,))
    async def count(text: str) -> int: ...

    class Fails:
        @hookimpl
        async def count(self) -> int:
            raise UserError("no dictionary")

    async def length(text: str) -> int:
        return len(text)

    lab = HookLab(count, a=Fails())
    assert await lab.hooks.waterfall(count, length, text="abc") == 3
    assert lab.reports() == ["plugin 'a' in count: no dictionary"]


async def test_at_start_up_even_a_user_error_names_its_plugin() -> None:
    @waterfall(OnError.START)
    async def stored(harness: object) -> object: ...

    class Fails:
        @hookimpl
        async def stored(self) -> object:
            raise UserError("no folder")

    async def nobody(harness: object) -> object:
        return None

    with pytest.raises(PluginError, match="plugin 'a' in stored: no folder"):
        await HookLab(stored, a=Fails()).hooks.waterfall(stored, nobody, harness=None)


@pytest.mark.parametrize("is_wrapper", [False, True])
async def test_sync_code_that_holds_the_loop_is_reported_once(is_wrapper: bool) -> None:
    class Blocks:
        @hookimpl
        def rewrite(self) -> None:
            time.sleep(0.002)

    class BlocksAround:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            result = yield
            time.sleep(0.002)
            return result

    lab = HookLab(rewrite, held_loop_seconds=0.001, a=BlocksAround() if is_wrapper else Blocks())
    assert await run(lab) == "core(t)"
    assert await run(lab) == "core(t)"
    (error,) = lab.reported
    assert (error.plugin, error.hook) == ("a", "rewrite")
    assert lab.reported_with == [{"text": "t", "fixed": 1}]


def deeper() -> None:
    raise ValueError("deep")


async def test_the_message_ends_with_the_last_line_of_the_plugins_own_code() -> None:
    class Fails:
        @hookimpl
        async def rewrite(self, text: str) -> str:
            deeper()
            return text

    class Decodes:
        @hookimpl
        def rewrite(self) -> str:
            return json.loads("{")  # type: ignore[no-any-return]

    line = deeper.__code__.co_firstlineno + 1
    for plugin, place in [(Fails(), f"{line})"), (Decodes(), ")")]:
        with pytest.raises(PluginError) as caught:
            await run(HookLab(rewrite, a=Wraps("a"), b=plugin))
        assert f" (tests/test_hooks_blame.py:{place}"[:-1] in caught.value.message
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.__traceback__ is not None


async def test_a_failure_in_the_users_words_names_no_line() -> None:
    @waterfall(OnError.START)
    async def begun() -> None: ...

    async def nothing() -> None: ...

    class Refuses:
        @hookimpl
        async def begun(self) -> None:
            raise UserError("set a key")

    with pytest.raises(PluginError) as caught:
        await HookLab(begun, a=Refuses()).hooks.waterfall(begun, nothing)
    assert caught.value.message.endswith("set a key")
