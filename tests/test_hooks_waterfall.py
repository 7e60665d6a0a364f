"""Waterfalls: decide, wrap with `call_next`, in which order, many at once."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Generator
from typing import Any

import pytest
from waterfalls import Classic, Decides, DecidesSync, Next, Wraps, own, rewrite, run

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.marks import OnError, hookimpl, waterfall
from dsh_core.testing.hooks import HookLab

# ---------------------------------------------------------------------------------------- deciding


async def test_nobody_implements_it_and_the_core_answers() -> None:
    assert await run(HookLab(rewrite)) == "core(t)"


@pytest.mark.parametrize("kind", [Decides, DecidesSync])
async def test_the_first_value_that_is_not_none_ends_the_chain(kind: type[Decides]) -> None:
    first, second, third = kind(None), kind("b"), kind("c")
    lab = HookLab(rewrite, a=first, b=second, c=third)
    assert await run(lab) == "b"
    assert (first.calls, second.calls, third.calls) == (1, 1, 0)


async def test_when_all_pass_the_core_answers() -> None:
    assert await run(HookLab(rewrite, a=Decides(None), b=DecidesSync(None))) == "core(t)"


async def test_arguments_may_be_given_by_position() -> None:
    lab = HookLab(rewrite, a=Wraps("a"))
    assert await lab.hooks.waterfall(rewrite, own, "t", 1) == "a(core(t))"


@pytest.mark.parametrize("kind", [Decides, DecidesSync])
async def test_a_result_of_the_wrong_type_is_blamed_on_who_gave_it(kind: type[Decides]) -> None:
    lab = HookLab(rewrite, outer=Wraps("outer"), wrong=kind(5), inner=Decides("x"))
    with pytest.raises(PluginError) as caught:
        await run(lab)
    assert str(caught.value) == "plugin 'wrong' in rewrite: returned a int, not str"


async def test_a_wrapper_that_forgets_to_return_is_blamed() -> None:
    class Forgets:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> None:
            await call_next()

    wanted = "plugin 'b' in rewrite: returned None, not str; a wrapper returns what `await call_"
    with pytest.raises(PluginError, match=wanted):
        await run(HookLab(rewrite, a=Wraps("a"), b=Forgets()))


class TakesTheCoroutine:
    @hookimpl
    async def rewrite(self, *, call_next: Any) -> Any:
        return call_next().upper()


class ReturnsTheCoroutine:
    @hookimpl
    async def rewrite(self, *, call_next: Any) -> Any:
        return call_next()


class DropsTheCoroutine:
    @hookimpl
    async def rewrite(self, *, call_next: Any) -> Any:
        call_next()


@pytest.mark.parametrize("kind", [TakesTheCoroutine, ReturnsTheCoroutine, DropsTheCoroutine])
async def test_a_wrapper_that_forgets_to_await_is_told_so_and_no_coroutine_is_left(
    kind: type[Any],
) -> None:
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(PluginError, match=r"plugin 'b' .*; write `await call_next\(\)`"):
            await run(HookLab(rewrite, a=Wraps("a"), b=kind()))
        gc.collect()
    assert leaked == []


async def test_a_wrapper_that_asks_nobody_and_returns_none_passes() -> None:
    class Declines:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> None:
            return None

    assert await run(HookLab(rewrite, a=Declines(), b=Decides("b"))) == "b"


async def test_where_none_is_an_answer_a_wrapper_can_veto_with_it() -> None:
    @waterfall(OnError.END_TURN, returns=(str, type(None)))
    async def maybe() -> str | None: ...

    class Vetoes:
        @hookimpl
        async def maybe(self, *, call_next: Next) -> None:
            return None

    class Says:
        @hookimpl
        async def maybe(self) -> str:
            return "yes"

    async def nothing() -> str | None:
        return None

    assert await HookLab(maybe, a=Vetoes(), b=Says()).hooks.waterfall(maybe, nothing) is None
    assert await HookLab(maybe, b=Says()).hooks.waterfall(maybe, nothing) == "yes"


async def test_stop_iteration_of_a_sync_implementation_is_blamed_on_it() -> None:
    class Exhausted:
        @hookimpl
        def rewrite(self) -> str:
            return next(iter(()))

    with pytest.raises(PluginError, match="plugin 'a' in rewrite") as caught:
        await run(HookLab(rewrite, a=Exhausted()))
    assert isinstance(caught.value.__cause__, RuntimeError)


# --------------------------------------------------------------------------------------- call_next


async def test_a_wrapper_wraps_everything_after_it_and_nothing_before() -> None:
    lab = HookLab(rewrite, a=Wraps("a"), b=Decides(None), c=Wraps("c"), d=Wraps("d"))
    assert await run(lab) == "a(c(d(core(t))))"


async def test_a_veto_keeps_the_rest_from_running() -> None:
    class Vetoes:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            return "veto"

    inner = Decides("inner")
    assert await run(HookLab(rewrite, a=Wraps("a"), b=Vetoes(), c=inner)) == "a(veto)"
    assert inner.calls == 0


async def test_replaced_arguments_reach_the_rest_and_the_core_but_nobody_before() -> None:
    seen = []

    class Replaces:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            result = await call_next(text=text.upper())
            seen.append(text)
            return result

    class Sees:
        @hookimpl
        async def rewrite(self, text: str) -> None:
            seen.append(text)

    assert await run(HookLab(rewrite, before=Sees(), a=Replaces(), after=Sees())) == "core(T)"
    assert seen == ["t", "T", "t"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fixed": 2}, "call_next cannot replace `fixed` in rewrite; replaceable: text"),
        ({"other": 2}, "call_next cannot replace `other` in rewrite; replaceable: text"),
        ({"text": 5}, "`text` must be a str, not a int"),
    ],
)
async def test_what_may_not_be_replaced_raises_type_error_in_the_plugin(
    changes: dict[str, Any], message: str
) -> None:
    caught = []

    class Tries:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            try:
                return await call_next(**changes)
            except TypeError as error:
                caught.append(str(error))
                raise

    with pytest.raises(PluginError, match="plugin 'a' in rewrite: TypeError"):
        await run(HookLab(rewrite, a=Tries()))
    assert caught == [message]


async def test_call_next_takes_no_positional_arguments() -> None:
    class Tries:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            return await call_next("t")

    with pytest.raises(PluginError, match="TypeError"):
        await run(HookLab(rewrite, a=Tries()))


@pytest.mark.parametrize(
    "spec", [hookspecs.tools_execute, hookspecs.approval_request, hookspecs.llm_stream]
)
def test_some_core_waterfalls_let_nothing_be_replaced(spec: Any) -> None:
    assert HookLab().hooks.modes[spec.__name__].replaceable == frozenset()


async def test_no_core_waterfall_lets_agent_turn_or_step_be_replaced() -> None:
    for mode in HookLab().hooks.modes.values():
        assert not mode.replaceable & {"agent", "turn", "step"}


async def test_awaited_twice_the_rest_and_the_core_are_asked_anew_as_replaced_so_far() -> None:
    answers = iter(["first", "second"])

    async def counted(text: str, fixed: int) -> str:
        return f"{next(answers)}({text})"

    class Replaces:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            return await call_next(text=f"[{text}]")

    class Twice:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            return f"{await call_next()} {await call_next(text='u')}"

    inner = Decides(None)
    lab = HookLab(rewrite, a=Replaces(), b=Twice(), c=inner, d=Wraps("d"))
    assert await run(lab, answer=counted) == "d(first([t])) d(second(u))"
    assert inner.calls == 2


async def test_a_failing_rest_can_be_tried_again() -> None:
    failures = [ValueError("once"), None]

    async def flaky(text: str, fixed: int) -> str:
        failure = failures.pop(0)
        if failure is not None:
            raise failure
        return "well"

    class Retries:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            try:
                return await call_next()
            except ValueError:
                return await call_next()

    assert await run(HookLab(rewrite, a=Retries()), answer=flaky) == "well"


async def test_after_the_hook_returned_call_next_raises() -> None:
    kept: list[Next] = []

    class Keeps:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            kept.append(call_next)
            return "done"

    await run(HookLab(rewrite, a=Keeps()))
    with pytest.raises(RuntimeError, match="call_next was called after the hook returned"):
        await kept[0]()


# ------------------------------------------------------------------------------------------- order


def banded(name: str, **options: Any) -> object:
    class Banded:
        @hookimpl(**options)
        async def rewrite(self, *, call_next: Next) -> str:
            return f"{name}({await call_next()})"

    return Banded()


def banded_classic(name: str, **options: Any) -> object:
    class Banded:
        @hookimpl(wrapper=True, **options)
        def rewrite(self) -> Generator[None, str, str]:
            return f"{name}({(yield)})"

    return Banded()


async def test_within_a_band_the_rank_counts_and_bands_are_pluggys() -> None:
    plugins = {
        "last1": banded("last1", trylast=True),
        "none1": banded("none1"),
        "first1": banded("first1", tryfirst=True),
        "wrap1": banded_classic("wrap1"),
        "wraplast": banded_classic("wraplast", trylast=True),
        "last2": banded("last2", trylast=True),
        "none2": banded("none2"),
        "first2": banded("first2", tryfirst=True),
        "wrapfirst": banded_classic("wrapfirst", tryfirst=True),
    }
    lab = HookLab(rewrite, **plugins)
    order = [
        "wrapfirst",
        "wrap1",
        "wraplast",
        "first1",
        "first2",
        "none1",
        "none2",
        "last1",
        "last2",
    ]
    assert await run(lab) == "(".join(order) + "(core(t)" + ")" * len(order)


async def test_the_order_of_registration_means_nothing() -> None:
    lab = HookLab(rewrite)
    lab.order = ["a", "b", "c"]
    for name in ("b", "c", "a"):
        lab.add(name, Wraps(name))
    assert await run(lab) == "a(b(c(core(t))))"


async def test_plugins_of_equal_rank_are_asked_as_they_were_registered() -> None:
    lab = HookLab(rewrite)
    lab._rank = lambda name: 0  # type: ignore[method-assign]
    lab.hooks._rank = lambda name: 0
    for name in ("b", "c", "a"):
        lab.add(name, banded(name, trylast=True))
    assert await run(lab) == "b(c(a(core(t))))"


# ------------------------------------------------------------------------------------- concurrency


async def test_concurrent_calls_on_one_manager_do_not_disturb_each_other() -> None:
    both_inside = asyncio.Barrier(2)

    class Waits:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            result = await call_next(text=text + text)
            await both_inside.wait()
            return result

    class Fails:
        @hookimpl
        async def rewrite(self, text: str) -> None:
            if text == "yy":
                await both_inside.wait()
                raise ValueError("only y")

    lab = HookLab(rewrite, w=Classic("w"), a=Waits(), b=Fails())
    good, bad = await asyncio.gather(run(lab, "x"), run(lab, "y"), return_exceptions=True)
    assert good == "w(core(xx))"
    assert isinstance(bad, PluginError)
    assert bad.plugin == "b"


async def test_a_plugin_taken_out_stays_in_the_calls_that_run() -> None:
    lab = HookLab(rewrite)

    class Unregisters:
        @hookimpl
        async def rewrite(self, *, call_next: Next) -> str:
            lab.hooks.unregister("b")
            lab.add("c", Wraps("c"))
            return await call_next()

    lab.add("a", Unregisters())
    lab.add("b", Wraps("b"))
    assert await run(lab) == "b(core(t))"
    lab.hooks.unregister("a")
    assert await run(lab) == "c(core(t))"
