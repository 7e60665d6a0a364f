"""Waterfalls: decide, mutate, wrap; who is blamed; what happens on failure and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

import pytest

from dsh_core import hookspecs
from dsh_core.errors import LlmFailure, PluginError, UserError
from dsh_core.marks import OnError, hookimpl, waterfall
from dsh_core.request import Request
from dsh_core.testing.hooks import HookLab

Next = Callable[..., Awaitable[str]]


@waterfall(OnError.END_TURN, returns=(str,), replaceable=("text",))
async def rewrite(text: str, fixed: int) -> str: ...


async def own(text: str, fixed: int) -> str:
    return f"core({text})"


async def run(lab: HookLab, text: str = "t", answer: Any = own) -> str:
    return await lab.hooks.waterfall(rewrite, answer, text=text, fixed=1)


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


# -------------------------------------------------------------------------------- deciding


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

    with pytest.raises(PluginError, match="plugin 'b' in rewrite: returned None, not str"):
        await run(HookLab(rewrite, a=Wraps("a"), b=Forgets()))


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


# -------------------------------------------------------------------------------- call_next


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


# ------------------------------------------------------------------------ generator wrappers


async def test_generator_wrappers_go_around_everything_else() -> None:
    lab = HookLab(
        rewrite, a=Wraps("a"), b=Classic("b"), c=Wraps("c"), d=Classic("d"), e=Decides("e")
    )
    assert await run(lab) == "b(d(a(c(e))))"


async def test_a_wrapper_can_swallow_a_failure() -> None:
    class Swallows:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            except ValueError as error:
                return f"saved from {error}"

    lab = HookLab(rewrite, a=Swallows(), b=Decides(ValueError("no")))
    assert await run(lab) == "saved from no"


async def test_a_wrapper_can_translate_a_failure_and_is_then_its_author() -> None:
    class Translates:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            except ValueError as error:
                raise KeyError("translated") from error

    lab = HookLab(rewrite, a=Classic("a"), b=Translates(), c=Decides(ValueError("no")))
    with pytest.raises(PluginError) as caught:
        await run(lab)
    assert caught.value.plugin == "b"
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_wrapper_sees_the_original_exception_and_passing_it_on_is_no_blame() -> None:
    seen: list[BaseException] = []
    original = ValueError("no")

    class Sees:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            except BaseException as error:
                seen.append(error)
                raise

    lab = HookLab(rewrite, a=Sees(), b=Wraps("b"), c=Decides(original))
    with pytest.raises(PluginError) as caught:
        await run(lab)
    assert seen == [original]
    assert caught.value.plugin == "c"
    assert caught.value.__cause__ is original


async def test_a_wrapper_that_does_not_yield_is_blamed() -> None:
    class Empty:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            return "x"
            yield

    unwound = []

    class Outer:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            finally:
                unwound.append("outer")

    with pytest.raises(PluginError, match="plugin 'b' in rewrite: the wrapper did not yield"):
        await run(HookLab(rewrite, a=Outer(), b=Empty(), c=Classic("c")))
    assert unwound == ["outer"]


@pytest.mark.parametrize("inner", ["fine", ValueError("inner")], ids=repr)
async def test_a_wrapper_that_yields_twice_is_blamed_and_closed(inner: Any) -> None:
    closed = []

    class Twice:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            with contextlib.suppress(ValueError):
                yield
            try:
                yield
            finally:
                closed.append(True)
            return "x"

    lab = HookLab(rewrite, a=Classic("a"), b=Twice(), c=Decides(inner))
    with pytest.raises(PluginError, match="plugin 'b' in rewrite: the wrapper yielded twice") as c:
        await run(lab)
    assert closed == [True]
    assert c.value.__cause__ is (inner if isinstance(inner, ValueError) else None)


async def test_a_wrapper_that_yields_twice_and_refuses_to_close_does_not_stop_the_unwinding() -> (
    None
):
    class Stubborn:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            yield
            try:
                yield
            finally:
                raise OSError("never")
            return "x"

    unwound = []

    class Outer:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            finally:
                unwound.append("outer")

    with pytest.raises(PluginError, match="plugin 'b' in rewrite: the wrapper yielded twice"):
        await run(HookLab(rewrite, a=Outer(), b=Stubborn()))
    assert unwound == ["outer"]


async def test_a_wrapper_that_returns_the_wrong_type_is_blamed() -> None:
    class Forgets:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, None]:
            yield

    with pytest.raises(PluginError, match="plugin 'b' in rewrite: returned None, not str"):
        await run(HookLab(rewrite, a=Classic("a"), b=Forgets(), c=Decides("x")))


class AtCancel:
    """A generator wrapper that notes being cancelled and then does what it was told."""

    def __init__(self, log: list[str], name: str, then: BaseException | str | None = None):
        self.log, self.name, self.then = log, name, then

    @hookimpl(wrapper=True)
    def rewrite(self) -> Generator[None, str, str]:
        try:
            return (yield)
        except asyncio.CancelledError:
            self.log.append(self.name)
            if isinstance(self.then, BaseException):
                raise self.then from None
            if self.then is not None:
                return self.then
            raise


class Hangs:
    def __init__(self) -> None:
        self.started = asyncio.Event()

    @hookimpl
    async def rewrite(self) -> str:
        self.started.set()
        await asyncio.Event().wait()
        return "never"


async def test_a_cancellation_is_raised_after_unwinding_whatever_wrappers_return() -> None:
    log: list[str] = []
    hangs = Hangs()
    lab = HookLab(
        rewrite,
        a=AtCancel(log, "a"),
        b=AtCancel(log, "b", "swallowed"),
        c=AtCancel(log, "c", ValueError("in the way")),
        d=hangs,
    )
    task = asyncio.create_task(run(lab))  # type: ignore[arg-type]
    await hangs.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["c", "b", "a"]
    assert lab.reports() == ["plugin 'c' in rewrite: ValueError: in the way"]


async def test_ctrl_c_in_a_wrapper_is_not_swallowed_by_the_one_around_it() -> None:
    class Interrupted:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            yield
            raise KeyboardInterrupt

    class Swallows:
        @hookimpl(wrapper=True)
        def rewrite(self) -> Generator[None, str, str]:
            try:
                return (yield)
            except BaseException:
                return "swallowed"

    with pytest.raises(KeyboardInterrupt):
        await run(HookLab(rewrite, a=Swallows(), b=Interrupted()))


# ------------------------------------------------------------------------ failure and blame


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


# ---------------------------------------------------------------------------------- order


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


# ---------------------------------------------------------------------------- concurrency


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


# ----------------------------------------------------------------------------- drafts


def request() -> Request:
    return Request("p/m", system="s")


async def ask(lab: HookLab, draft: Request) -> Request:
    async def unchanged(agent: Any, turn: int, step: int, request: Request) -> Request:
        return request

    return await lab.hooks.waterfall(
        hookspecs.agent_request,
        unchanged,
        agent=None,  # type: ignore[arg-type]
        turn=1,
        step=1,
        request=draft,
    )


class Sets:
    """Implements `agent_request`: sets an attribute, and passes or wraps."""

    def __init__(self, **values: Any):
        self.values = values

    def set_on(self, request: Request) -> None:
        for name, value in self.values.items():
            setattr(request, name, value)


class Mutates(Sets):
    @hookimpl
    async def agent_request(self, request: Request) -> None:
        self.set_on(request)


class MutatesAfter(Sets):
    @hookimpl
    async def agent_request(self, *, call_next: Any) -> Request:
        result: Request = await call_next()
        self.set_on(result)
        return result


class MutatesAround(Sets):
    @hookimpl(wrapper=True)
    def agent_request(self) -> Generator[None, Request, Request]:
        result = yield
        self.set_on(result)
        return result


class MutatesBefore(Sets):
    @hookimpl(wrapper=True)
    def agent_request(self, request: Request) -> Generator[None, Request, Request]:
        self.set_on(request)
        return (yield)


class Replaces(Sets):
    @hookimpl
    async def agent_request(self, request: Request, *, call_next: Any) -> Request:
        result: Request = await call_next(request=copy_of(request, **self.values))
        return result


class DecidesAnew(Sets):
    @hookimpl
    async def agent_request(self, request: Request) -> Request:
        return copy_of(request, **self.values)


def copy_of(request: Request, **changes: Any) -> Request:
    other = Request(request.model)
    for name in Request.fields:
        setattr(other, name, changes.get(name, getattr(request, name)))
    return other


@pytest.mark.parametrize(
    "kind", [Mutates, MutatesAfter, MutatesAround, MutatesBefore, Replaces, DecidesAnew]
)
async def test_every_way_to_change_a_draft_names_the_plugin(kind: type[Sets]) -> None:
    lab = HookLab(a=Mutates(stream=False), b=kind(system="b"), c=Mutates(parameters={"x": 1}))
    result = await ask(lab, request())
    assert result.system == "b"
    expected = {"stream": "a", "system": "b", "parameters": "c"}
    if kind is DecidesAnew:
        del expected["parameters"]
    assert result.changed_by == expected


@pytest.mark.parametrize("outer", [MutatesAfter, MutatesAround])
@pytest.mark.parametrize("inner", [Replaces, DecidesAnew])
async def test_who_changes_a_new_draft_afterwards_is_named_too(
    outer: type[Sets], inner: type[Sets]
) -> None:
    lab = HookLab(a=outer(system="a", stream=False), b=inner(model="b/b", system="b"))
    result = await ask(lab, request())
    assert (result.model, result.system) == ("b/b", "a")
    assert result.changed_by == {"model": "b", "system": "a", "stream": "a"}


async def test_what_a_nested_plugin_or_the_core_changes_is_not_put_down_to_the_wrapper() -> None:
    async def core(agent: Any, turn: int, step: int, request: Request) -> Request:
        request.stream = False
        return request

    lab = HookLab(a=MutatesAfter(system="a"))
    result = await lab.hooks.waterfall(
        hookspecs.agent_request,
        core,
        agent=None,  # type: ignore[arg-type]
        turn=1,
        step=1,
        request=request(),
    )
    assert result.changed_by == {"system": "a"}


async def test_after_the_waterfall_changes_have_no_author() -> None:
    result = await ask(HookLab(a=Mutates(system="a")), request())
    result.model = "later/m"
    assert result.changed_by == {"system": "a"}


async def test_only_a_draft_can_take_a_drafts_place() -> None:
    class Tries:
        @hookimpl
        async def agent_request(self, *, call_next: Any) -> Request:
            result: Request = await call_next(request={"model": "x"})
            return result

    with pytest.raises(PluginError, match="`request` must be a Request, not a dict"):
        await ask(HookLab(a=Tries()), request())


# ----------------------------------------------------------------------------- tracing


class Trace:
    def __init__(self) -> None:
        self.entries: list[tuple[str, tuple[Mapping[str, Any], ...]]] = []

    def __call__(
        self, hook: str, seconds: float, ran: tuple[Mapping[str, Any], ...], values: Any
    ) -> None:
        assert seconds >= 0
        self.entries.append((hook, ran))

    def last(self) -> list[tuple[str, tuple[str, ...], bool]]:
        return [(r["plugin"], r["changed"], r["decided"]) for r in self.entries[-1][1]]


async def test_a_trace_says_who_ran_what_each_changed_and_who_decided() -> None:
    trace = Trace()
    lab = HookLab(
        tracer=trace,
        around=MutatesAround(system="w"),
        passes=Mutates(),
        wraps=MutatesAfter(parameters={"x": 1}),
        sets=Mutates(stream=False),
        decides=DecidesAnew(model="d/d"),
        never=Mutates(system="never"),
    )
    await ask(lab, request())
    assert trace.last() == [
        ("around", ("system",), False),
        ("passes", (), False),
        ("wraps", ("parameters",), False),
        ("sets", ("stream",), False),
        ("decides", ("model",), True),
    ]
    assert all(record["seconds"] >= 0 for record in trace.entries[-1][1])


async def test_a_trace_shows_replaced_arguments_and_changed_results() -> None:
    class Upper:
        @hookimpl
        async def rewrite(self, text: str, *, call_next: Next) -> str:
            return await call_next(text=text.upper())

    trace = Trace()
    await run(HookLab(rewrite, tracer=trace, a=Upper(), b=Wraps("b"), c=Decides(None)))
    assert trace.last() == [("a", ("text",), False), ("b", (), True), ("c", (), False)]


async def test_a_failed_waterfall_is_traced_too_and_a_failing_tracer_changes_nothing() -> None:
    trace = Trace()
    with pytest.raises(PluginError):
        await run(HookLab(rewrite, tracer=trace, a=Wraps("a"), b=Decides(ValueError("no"))))
    assert trace.last() == [("a", (), False), ("b", (), False)]

    def broken(*arguments: Any) -> None:
        raise OSError("disk full")

    assert await run(HookLab(rewrite, tracer=broken, a=Wraps("a"))) == "a(core(t))"


async def test_a_hook_that_nobody_implements_is_not_traced() -> None:
    trace = Trace()
    await run(HookLab(rewrite, tracer=trace))
    assert trace.entries == []
