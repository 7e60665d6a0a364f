"""Notifications: who is called, and what a failing plugin causes."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from waterfalls import unplaced

from dsh_core import hookspecs
from dsh_core.errors import LlmFailure, PluginError, UserError
from dsh_core.hooks.dispatch import Hooks
from dsh_core.marks import OnError, emit, hookimpl, parallel
from dsh_core.testing.hooks import HookLab, spec_module

RAISING = [policy for policy in OnError if policy is not OnError.REPORT]
KINDS = ["def", "async def", "parallel"]
CONTAINED = [ValueError("no"), SystemExit(3), asyncio.CancelledError()]


class Speaks:
    """Implements `happened`: notes its name, then does what it was told."""

    def __init__(self, name: str, heard: list[str], failure: BaseException | None = None):
        self.name, self.heard, self.failure = name, heard, failure

    @hookimpl
    def happened(self, value: int) -> None:
        self.heard.append(f"{self.name} {value}")
        if self.failure is not None:
            raise self.failure


def spec(kind: str, policy: OnError) -> Callable[..., Any]:
    if kind == "def":

        @emit(policy)
        def happened(value: int) -> None: ...

        return happened

    async def happened(value: int) -> None: ...  # type: ignore[no-redef]

    mark = emit(policy) if kind == "async def" else parallel(policy, limit_seconds=30)
    return mark(happened)


async def notify(lab: HookLab, kind: str, hook: Callable[..., Any], **values: Any) -> None:
    if kind == "def":
        lab.hooks.emit(hook, **values)
    elif kind == "async def":
        await lab.hooks.notify(hook, **values)
    else:
        await lab.hooks.parallel(hook, **values)


@pytest.mark.parametrize("kind", KINDS)
async def test_everyone_is_told_in_the_asked_order(kind: str) -> None:
    hook, heard = spec(kind, OnError.REPORT), []
    lab = HookLab(hook, a=Speaks("a", heard), b=Speaks("b", heard), c=Speaks("c", heard))
    await notify(lab, kind, hook, value=7)
    assert heard == ["a 7", "b 7", "c 7"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", CONTAINED, ids=repr)
async def test_with_policy_report_failures_are_reported_and_nothing_is_raised(
    kind: str, failure: BaseException
) -> None:
    hook, heard = spec(kind, OnError.REPORT), []
    lab = HookLab(hook, a=Speaks("a", heard, failure), b=Speaks("b", heard))
    await notify(lab, kind, hook, value=1)
    assert heard == ["a 1", "b 1"]
    (error,) = lab.reported
    assert (error.plugin, error.hook) == ("a", "happened")
    assert type(error.__cause__) is type(failure)
    assert lab.reported_with == [{"value": 1}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", RAISING, ids=lambda policy: policy.name)
@pytest.mark.parametrize("failure", CONTAINED, ids=repr)
async def test_with_other_policies_the_first_failure_is_raised_when_all_were_told(
    kind: str, policy: OnError, failure: BaseException
) -> None:
    hook, heard = spec(kind, policy), []
    lab = HookLab(
        hook,
        a=Speaks("a", heard, failure),
        b=Speaks("b", heard, RuntimeError("too")),
        c=Speaks("c", heard),
    )
    with pytest.raises(PluginError) as caught:
        await notify(lab, kind, hook, value=1)
    assert heard == ["a 1", "b 1", "c 1"]
    assert (caught.value.plugin, caught.value.hook) == ("a", "happened")
    assert type(caught.value.__cause__) is type(failure)
    assert unplaced(lab.reports()) == ["plugin 'b' in happened: RuntimeError: too"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", [UserError("write it out"), LlmFailure("AUTH", "no key")])
async def test_failures_in_the_users_words_stay_themselves(
    kind: str, failure: BaseException
) -> None:
    hook = spec(kind, OnError.END_TURN)
    lab = HookLab(hook, a=Speaks("a", [], failure))
    with pytest.raises(type(failure)) as caught:
        await notify(lab, kind, hook, value=1)
    assert caught.value is failure
    assert failure.__cause__ is None


@pytest.mark.parametrize("kind", KINDS)
async def test_at_start_up_even_a_user_error_names_its_plugin(kind: str) -> None:
    hook = spec(kind, OnError.START)
    lab = HookLab(hook, a=Speaks("a", [], UserError("set a key")))
    with pytest.raises(PluginError, match="plugin 'a' in happened: set a key"):
        await notify(lab, kind, hook, value=1)


@pytest.mark.parametrize("kind", KINDS)
async def test_ctrl_c_stops_at_once_and_the_failure_before_it_is_reported(kind: str) -> None:
    hook, heard = spec(kind, OnError.END_TURN), []
    lab = HookLab(
        hook,
        a=Speaks("a", heard, ValueError("first")),
        b=Speaks("b", heard, KeyboardInterrupt()),
        c=Speaks("c", heard),
    )
    with pytest.raises(KeyboardInterrupt):
        await notify(lab, kind, hook, value=1)
    assert heard[:2] == ["a 1", "b 1"]
    assert kind == "parallel" or len(heard) == 2
    assert unplaced(lab.reports()) == ["plugin 'a' in happened: ValueError: first"]


class Waits:
    """Implements `happened`: waits until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.was_cancelled = False

    @hookimpl
    async def happened(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


@pytest.mark.parametrize("kind", ["async def", "parallel"])
async def test_a_requested_cancellation_stops_at_once(kind: str) -> None:
    hook, heard, waits = spec(kind, OnError.END_TURN), [], Waits()
    lab = HookLab(hook, a=Speaks("a", heard, ValueError("first")), b=waits, c=Speaks("c", heard))
    task = asyncio.create_task(notify(lab, kind, hook, value=1))
    await waits.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waits.was_cancelled
    assert kind == "parallel" or heard == ["a 1"]
    assert unplaced(lab.reports()) == ["plugin 'a' in happened: ValueError: first"]


class Swallows:
    """Implements `happened`: ignores that it was cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()

    @hookimpl
    async def happened(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return


async def test_a_swallowed_cancellation_is_raised_in_its_place() -> None:
    hook, heard, swallows = spec("async def", OnError.REPORT), [], Swallows()
    lab = HookLab(hook, a=swallows, b=Speaks("b", heard))
    task = asyncio.create_task(notify(lab, "async def", hook, value=1))
    await swallows.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == []
    assert lab.reported == []


async def test_a_cancellation_asked_for_by_the_implementation_itself_arrives_once() -> None:
    class CancelsItsTask:
        @hookimpl
        def happened(self) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    hook = spec("async def", OnError.REPORT)
    lab = HookLab(hook, a=CancelsItsTask())
    arrived = []

    async def caller() -> None:
        try:
            await lab.hooks.notify(hook, value=1)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            arrived.append("once")
        await asyncio.sleep(0)

    await asyncio.create_task(caller())
    assert arrived == ["once"]


async def test_a_timeout_inside_an_implementation_is_no_cancellation() -> None:
    class TimesOut:
        @hookimpl
        async def happened(self) -> None:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

    hook = spec("async def", OnError.REPORT)
    lab = HookLab(hook, a=TimesOut())
    await lab.hooks.notify(hook, value=1)
    assert unplaced(lab.reports()) == ["plugin 'a' in happened: TimeoutError ← CancelledError"]


@pytest.mark.parametrize("mode", [emit, parallel])
async def test_an_implementation_over_its_limit_is_reported_and_not_waited_for(mode: Any) -> None:
    @mode(OnError.REPORT, limit_seconds=0.01)
    async def happened() -> None: ...

    release = asyncio.Event()
    heard: list[str] = []

    class Stuck:
        @hookimpl
        async def happened(self) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    heard.append("ignored")

    class Quick:
        @hookimpl
        async def happened(self) -> None:
            heard.append("quick")

    lab = HookLab(happened, a=Stuck(), b=Quick())
    kind = "async def" if mode is emit else "parallel"
    await notify(lab, kind, happened)
    assert "quick" in heard
    assert lab.reports() == ["plugin 'a' in happened: DeadlineError: took more than 0.01 s"]
    release.set()
    await asyncio.sleep(0)


@pytest.mark.parametrize("mode", [emit, parallel])
async def test_system_exit_in_a_task_of_its_own_does_not_end_the_loop(mode: Any) -> None:
    @mode(OnError.REPORT, limit_seconds=30)
    async def happened() -> None: ...

    class Exits:
        @hookimpl
        async def happened(self) -> None:
            await asyncio.sleep(0)
            raise SystemExit(2)

    lab = HookLab(happened, a=Exits(), b=Exits())
    await notify(lab, "async def" if mode is emit else "parallel", happened)
    assert [error.plugin for error in lab.reported] == ["a", "b"]


async def test_parallel_implementations_run_at_the_same_time() -> None:
    hook, meeting = spec("parallel", OnError.REPORT), asyncio.Barrier(2)

    class Meets:
        @hookimpl
        async def happened(self) -> None:
            await meeting.wait()

    lab = HookLab(hook, a=Meets(), b=Meets())
    await lab.hooks.parallel(hook, value=1)
    assert not meeting.broken
    assert lab.reported == []


async def test_a_cancelled_checkpoint_that_never_began_leaves_nothing_behind() -> None:
    hook = spec("parallel", OnError.REPORT)
    lab = HookLab(hook, a=Waits(), b=Waits())
    task = asyncio.create_task(lab.hooks.parallel(hook, value=1))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.reported == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_slow_sync_implementation_is_reported_once_with_the_arguments(kind: str) -> None:
    class Blocks:
        @hookimpl
        def happened(self) -> None:
            time.sleep(0.002)

    hook = spec(kind, OnError.END_TURN)
    lab = HookLab(hook, held_loop_seconds=0.001, a=Blocks())
    await notify(lab, kind, hook, value=4)
    await notify(lab, kind, hook, value=5)
    (error,) = lab.reported
    assert (error.plugin, error.hook) == ("a", "happened")
    assert "held the event loop" in error.message
    assert lab.reported_with == [{"value": 4}]


async def test_a_coroutine_that_only_turns_up_at_call_time_is_refused_and_closed() -> None:
    def hidden(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return function(*args)

        return call

    class Hides:
        @hookimpl
        @hidden
        async def happened(self) -> None: ...

    hook = spec("def", OnError.REPORT)
    lab = HookLab(hook, a=Hides())
    lab.hooks.emit(hook, value=1)
    assert "returned an awaitable" in lab.reports()[0]
    asynchronous = spec("async def", OnError.REPORT)
    lab = HookLab(asynchronous, a=Hides())
    await lab.hooks.notify(asynchronous, value=1)
    assert lab.reported == []


@pytest.mark.parametrize("kind", KINDS)
async def test_arguments_may_be_given_by_position(kind: str) -> None:
    hook, heard = spec(kind, OnError.REPORT), []
    lab = HookLab(hook, a=Speaks("a", heard))
    call = {"def": lab.hooks.emit, "async def": lab.hooks.notify, "parallel": lab.hooks.parallel}
    result = call[kind](hook, 3)  # type: ignore[operator]
    if result is not None:
        await result
    assert heard == ["a 3"]


async def test_a_reporter_that_fails_disturbs_nobody() -> None:
    def broken(error: PluginError, values: Any) -> None:
        raise RuntimeError("the log is full")

    hook, heard = spec("def", OnError.REPORT), []
    hooks = Hooks(broken, lambda name: 0)
    hooks.add_specs(spec_module("lab", hook))
    hooks.register(Speaks("a", heard, ValueError("no")), "a")
    hooks.register(Speaks("b", heard), "b")
    hooks.emit(hook, value=1)
    assert heard == ["a 1", "b 1"]


def test_a_hook_that_nobody_implements_costs_one_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = HookLab()
    lab.hooks.emit(hookspecs.agent_stream_chunk, agent=None, turn=1, step=1, chunk=None)  # type: ignore[arg-type]
    monkeypatch.setattr(lab.hooks, "_compile", None)  # calling it would raise
    lab.hooks.emit(hookspecs.agent_stream_chunk, agent=None, turn=1, step=1, chunk=None)  # type: ignore[arg-type]
    assert not lab.hooks.has(hookspecs.agent_stream_chunk)


def test_what_is_implemented_is_known_as_plugins_come_and_go() -> None:
    hook = spec("def", OnError.REPORT)
    lab = HookLab(hook, a=Speaks("a", []))
    assert hook.__name__ in lab.hooks.implemented

    lab.hooks.unregister("a")
    assert hook.__name__ not in lab.hooks.implemented

    lab.hooks.register(Speaks("b", []), "b")
    assert lab.hooks.has(hook)


def test_some_plugins_or_one_can_be_told_alone() -> None:
    hook, heard = spec("def", OnError.REPORT), []
    lab = HookLab(hook, a=Speaks("a", heard), b=Speaks("b", heard), c=Speaks("c", heard))
    lab.hooks.emit_only({"a", "c"}, hook, value=1)
    lab.hooks.emit_from("b", hook, value=2)
    assert heard == ["a 1", "c 1", "b 2"]


async def test_one_plugin_told_alone_raises_naming_it_whatever_the_policy() -> None:
    hook = spec("def", OnError.REPORT)
    lab = HookLab(hook, a=Speaks("a", [], ValueError("no")))
    with pytest.raises(PluginError, match="plugin 'a' in happened: ValueError: no") as caught:
        lab.hooks.emit_from("a", hook, value=1)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_code_that_holds_the_loop_at_start_up_is_not_reported() -> None:
    class Imports:
        @hookimpl
        def happened(self) -> None:
            time.sleep(0.002)

    hook = spec("async def", OnError.START)
    lab = HookLab(hook, held_loop_seconds=0.001, a=Imports())
    await notify(lab, "async def", hook)
    assert lab.reported == []


class Session:
    """As much of a session as a report looks at."""

    open_turn: int | None = 1


async def test_a_report_is_said_once_in_a_turn_and_anew_in_the_next() -> None:
    hook, session, other = spec("def", OnError.REPORT), Session(), Session()
    lab = HookLab(hook, a=Speaks("a", [], ValueError("no")), b=Speaks("b", [], ValueError("no")))

    def told(*sessions: Session) -> int:
        before = len(lab.reported)
        for one in sessions:
            for error in [PluginError("a", "happened", "no"), PluginError("b", "happened", "no")]:
                lab.hooks.report(error, {"session": one})
        return len(lab.reported) - before

    assert told(session, session, other, session) == 4
    session.open_turn = 2
    assert told(session, session) == 2
    session.open_turn = None
    assert told(session, session) == 4


async def test_what_denies_is_reported_every_time() -> None:
    lab = HookLab(spec("async def", OnError.DENY))
    for _ in range(3):
        lab.hooks.report(PluginError("a", "happened", "no"), {"session": Session()})
    assert len(lab.reported) == 3
