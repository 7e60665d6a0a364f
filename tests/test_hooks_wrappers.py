"""Generator wrappers: results, failures, cancellations, and wrappers that break the rules."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any

import pytest
from waterfalls import Classic, Decides, Wraps, rewrite, run, unplaced

from dsh_core.errors import PluginError, error_chain
from dsh_core.marks import hookimpl
from dsh_core.testing.hooks import HookLab


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

    with pytest.raises(PluginError) as caught:
        await run(HookLab(rewrite, a=Classic("a"), b=Forgets(), c=Decides("x")))
    assert error_chain(caught.value) == (
        "plugin 'b' in rewrite: returned None, not str; "
        "a wrapper returns the result it got from `yield`"
    )


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
    assert unplaced(lab.reports()) == ["plugin 'c' in rewrite: ValueError: in the way"]


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
