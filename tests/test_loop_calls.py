"""Tool calls are judged in order, run side by side where they only read, and answered once each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from loop_stage import Gate, Stage, bounded, calls, lines, stage

from dsh_core import (
    Agent,
    Call,
    Event,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.content import text_of
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    ErrorEvent,
    StepStart,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
    TurnEnd,
)
from dsh_core.loop.calls import MAX_PARALLEL_CALLS, StepCalls


def results(s: Stage) -> list[tuple[str, str | None]]:
    """Text and code of every result."""
    return [(text_of(r.content), r.code) for r in s.logged(ToolResultEvent)]


def codes(s: Stage) -> list[str | None]:
    return [code for _, code in results(s)]


class Meeting:
    """Tools that count how many of them run at once."""

    def __init__(self, expected: int = 0) -> None:
        self.running: list[str] = []
        self.most = 0
        self.log: list[str] = []
        self.expected = expected
        self.full = asyncio.Event()

    async def attend(self, name: str) -> str:
        self.running.append(name)
        self.log.append(f"+{name}")
        self.most = max(self.most, len(self.running))
        if len(self.running) >= self.expected:
            self.full.set()
        await self.full.wait()
        await asyncio.sleep(0)
        self.running.remove(name)
        self.log.append(f"-{name}")
        return name

    def tool(self, name: str, *, read_only: bool, **options: Any) -> Tool:
        async def body(n: int = 0) -> str:
            return await self.attend(f"{name}{n}")

        return Tool(name, name, body, read_only=read_only, **options)


def many(*names: str) -> Any:
    return calls(*((name, f'{{"n": {i}}}', f"id{i}") for i, name in enumerate(names)))


# ------------------------------------------------------------------------------------ scheduling


async def test_reading_calls_run_side_by_side_at_most_ten_at_once() -> None:
    meeting = Meeting(MAX_PARALLEL_CALLS)
    async with stage(many(*["read"] * 25), tools=(meeting.tool("read", read_only=True),)) as s:
        await bounded(s.agent.run("go"))

        assert (MAX_PARALLEL_CALLS, meeting.most) == (10, 10)
        assert [text for text, _ in results(s)] == [f"read{i}" for i in range(25)]


async def test_calls_that_may_write_are_barriers() -> None:
    meeting = Meeting()
    meeting.full.set()
    tools = [meeting.tool("r", read_only=True), meeting.tool("w", read_only=False)]
    async with stage(many("r", "r", "w", "w", "r", "r"), tools=tools) as s:
        await bounded(s.agent.run("go"))

        assert meeting.log[:4] in (["+r0", "+r1", "-r0", "-r1"], ["+r0", "+r1", "-r1", "-r0"])
        assert meeting.log[4:8] == ["+w2", "-w2", "+w3", "-w3"]
        assert meeting.log[8:10] == ["+r4", "+r5"]
        assert [text for text, _ in results(s)] == ["r0", "r1", "w2", "w3", "r4", "r5"]


@pytest.mark.parametrize("options", [{"read_only": False}, {"read_only": True, "destructive": 1}])
async def test_only_what_reads_and_destroys_nothing_runs_side_by_side(options: Any) -> None:
    meeting = Meeting()
    meeting.full.set()
    async with stage(many("t", "t"), tools=(meeting.tool("t", **options),)) as s:
        await bounded(s.agent.run("go"))

        assert meeting.most == 1


async def test_sync_tools_that_read_run_side_by_side_in_threads() -> None:
    barrier = threading.Barrier(3, timeout=10)

    @tool(read_only=True)
    def meet() -> int:
        """Wait for the others."""
        return barrier.wait() * 0

    async with stage(calls(*[("meet", "{}")] * 3), tools=(meet,)) as s:
        await bounded(s.agent.run("go"))

        assert results(s) == [("0", None)] * 3


async def test_results_are_logged_in_the_models_order_whatever_ends_first() -> None:
    turns = [asyncio.Event() for _ in range(4)]
    turns[3].set()

    @tool(read_only=True)
    async def last_first(n: int) -> str:
        """End after the next one ended."""
        await turns[n].wait()
        if n:
            turns[n - 1].set()
        return f"result {n}"

    script = calls(*(("last_first", f'{{"n": {n}}}', f"id{n}") for n in range(4)))
    async with stage(script, tools=(last_first,)) as s:
        await bounded(s.agent.run("go"))

        assert [r.call_id for r in s.logged(ToolResultEvent)] == ["id0", "id1", "id2", "id3"]
        assert [text for text, _ in results(s)] == [f"result {n}" for n in range(4)]
        types = [t for t in s.types() if t.startswith("tool/")]
        assert types == ["tool/call"] * 4 + ["tool/result"] * 4


async def test_each_group_is_judged_when_the_one_before_it_has_ended() -> None:
    noted: list[str] = []

    class Judges:
        @hookimpl
        async def tools_authorize(self, call: Call) -> None:
            noted.append(f"judge {call.id}")
            await asyncio.sleep(0)

    @tool(read_only=True)
    async def reads(n: int) -> str:
        """Read."""
        noted.append(f"run id{n}")
        return ""

    @tool
    async def writes(n: int) -> str:
        """Write."""
        noted.append(f"run id{n}")
        return ""

    script = many("reads", "reads", "writes", "reads")
    async with stage(script, plugin=Judges(), tools=(reads, writes)) as s:
        await bounded(s.agent.run("go"))

    assert noted == [
        *["judge id0", "judge id1", "run id0", "run id1"],
        *["judge id2", "run id2", "judge id3", "run id3"],
    ]


async def test_a_call_is_classified_when_its_turn_comes() -> None:
    """The first call makes the other two ones that may write."""
    meeting = Meeting()
    meeting.full.set()

    async with stage(many("change", "t", "t")) as s:
        harness = s.harness
        dispose = harness.tools.register(meeting.tool("t", read_only=True), owner="test")

        async def change(n: int) -> str:
            dispose()
            harness.tools.register(meeting.tool("t", read_only=False), owner="test")
            return "changed"

        harness.tools.register(Tool("change", "", change), owner="test")
        await bounded(s.agent.run("go"))

        assert meeting.most == 1
        assert codes(s) == [None, None, None]


async def test_judging_may_turn_a_group_into_barriers() -> None:
    meeting = Meeting()
    meeting.full.set()

    class Changes:
        @hookimpl
        async def tools_authorize(self, agent: Agent, call: Call) -> None:
            if call.id == "id1":
                dispose()
                agent.harness.tools.register(meeting.tool("t", read_only=False), owner="test")

    async with stage(many("t", "t", "t"), plugin=Changes()) as s:
        dispose = s.harness.tools.register(meeting.tool("t", read_only=True), owner="test")
        await bounded(s.agent.run("go"))

        assert meeting.most == 1


async def test_a_tool_that_goes_away_between_two_calls_is_unknown_to_the_second() -> None:
    async with stage(many("leave", "leave")) as s:

        async def leave(n: int) -> str:
            dispose()
            return "gone"

        dispose = s.harness.tools.register(Tool("leave", "", leave), owner="test")
        await bounded(s.agent.run("go"))

        assert codes(s) == [None, "UNKNOWN_TOOL"]


async def test_a_tool_may_end_the_turn_after_its_batch() -> None:
    @tool
    def finish(ok: bool = True) -> ToolOutput:
        """End the turn."""
        text = ToolOutput.of("finished") if ok else ToolOutput.error("NO", "not yet")
        return ToolOutput(text.content, text.is_error, text.code, ends_turn=True)

    @tool
    def other() -> str:
        """Another call of the batch."""
        return "other"

    async with stage(calls(("finish", "{}"), ("other", "{}")), tools=(finish, other)) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        assert (len(s.model.requests), codes(s)) == (1, [None, None])
    async with stage(calls(("finish", '{"ok": false}')), tools=(finish,)) as s:
        await bounded(s.agent.run("go"))
        assert len(s.model.requests) == 2


async def test_two_calls_with_one_id_get_their_own_results() -> None:
    @tool(read_only=True)
    async def echo(n: int) -> str:
        """Say the number."""
        return f"number {n}"

    twins = calls(*(("echo", f'{{"n": {n}}}', "call_0") for n in range(3)))
    async with stage(twins, twins, tools=(echo,)) as s:
        await bounded(s.agent.run("go"))

        expected = [f"user: number {n}" for n in range(3)]
        shown = lines(s.model.requests[2].messages)
        assert shown[2:5] == expected
        assert shown[6:9] == expected


# -------------------------------------------------------------------------------------- announcing


async def test_every_result_is_announced_after_it_is_logged() -> None:
    seen: list[tuple[str, str, str | None]] = []

    class Sees:
        @hookimpl
        async def tools_authorize(self, call: Call) -> Verdict | None:
            return Verdict("deny", "no") if call.name == "bad" else None

        @hookimpl
        async def tools_result(self, agent: Agent, call: Call, result: ToolOutput) -> None:
            last = agent.session.events[-1].data
            assert isinstance(last, ToolResultEvent)
            assert last.content == result.content
            seen.append((call.name, result.text, result.code))

    @tool
    def good() -> str:
        """Work."""
        return "fine"

    script = calls(("good", "{}"), ("bad", "{}"), ("none", "{}"))
    async with stage(script, plugin=Sees(), tools=(good,)) as s:
        await bounded(s.agent.run("go"))

    assert [(name, code) for name, _, code in seen] == [
        ("good", None),
        ("bad", "DENIED"),
        ("none", "UNKNOWN_TOOL"),
    ]


async def test_a_refused_result_is_replaced_and_ends_the_turn() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == "tool/result" and "secret" in str(event.data):
                raise ValueError("it holds a key")

    @tool
    def leak() -> str:
        """Say too much."""
        return "the secret"

    async with stage(calls(("leak", "{}"), ("leak", "{}")), plugin=Refuses(), tools=(leak,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert codes(s) == ["RESULT_REFUSED", "ABORTED_BEFORE_DISPATCH"]
        assert "it holds a key" in results(s)[0][0]
        assert "secret" not in str(s.agent.session.messages())


async def test_a_plugin_that_refuses_every_result_cannot_leave_a_call_without_one() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type in ("tool/result", "tool/call"):
                raise ValueError("nothing")

    @tool(read_only=True)
    def work() -> str:
        """Work."""
        raise AssertionError("its call was refused")

    async with stage(calls(*[("work", "{}")] * 3), plugin=Refuses(), tools=(work,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert codes(s) == ["RESULT_REFUSED"] * 3
        assert s.logged(ToolCallEvent) == []


# ------------------------------------------------------------------------------------------ abort


def waiting(gate: Gate, *, read_only: bool = False) -> Tool:
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return Tool("wait", "Wait at the gate.", wait, read_only=read_only)


async def aborted(s: Stage, gate: Gate) -> list[str | None]:
    s.agent.send("go")
    await gate.reached()
    s.agent.abort("enough")
    await bounded(s.agent.when_idle())
    assert s.logged(TurnEnd)[-1].reason == Aborted("enough")
    assert s.logged(ErrorEvent) == []
    assert len(s.model.requests) == 1
    return codes(s)


async def test_an_aborted_call_and_those_after_it_get_results_at_once() -> None:
    gate = Gate()
    script = calls(("wait", "{}"), ("wait", "{}"), ("none", "{}"))
    async with stage(script, tools=(waiting(gate),)) as s:
        assert await aborted(s, gate) == [
            "ABORTED",
            "ABORTED_BEFORE_DISPATCH",
            "ABORTED_BEFORE_DISPATCH",
        ]
        assert [c.verdict for c in s.logged(ToolCallEvent)] == ["allow", "deny", "deny"]
        assert len(s.logged(ToolCallEvent)) == 3
        gate.open()
        assert (await bounded(s.agent.run("again"))).is_success


async def test_of_parallel_calls_what_ended_keeps_its_result() -> None:
    gate = Gate()

    @tool(read_only=True)
    async def quick(n: int) -> str:
        """End at once."""
        return f"quick {n}"

    script = calls(("wait", "{}", "w"), *(("quick", f'{{"n": {n}}}', f"q{n}") for n in range(2)))
    async with stage(script, tools=(waiting(gate, read_only=True), quick)) as s:
        s.agent.send("go")
        await gate.reached()
        for _ in range(20):
            await asyncio.sleep(0)
        s.agent.abort()
        await bounded(s.agent.when_idle())

        assert results(s)[1:] == [("quick 0", None), ("quick 1", None)]
        assert codes(s) == ["ABORTED", None, None]


async def test_of_parallel_calls_that_wait_for_a_place_none_was_started() -> None:
    gate = Gate()
    script = calls(*[("wait", "{}")] * 12)
    async with stage(script, tools=(waiting(gate, read_only=True),)) as s:
        assert await aborted(s, gate) == ["ABORTED"] * 10 + ["ABORTED_BEFORE_DISPATCH"] * 2


async def test_a_call_whose_wrapper_never_called_the_body_was_not_started() -> None:
    gate = Gate()

    class Checkpoints:
        @hookimpl
        async def tools_execute(
            self, *, call_next: Callable[[], Awaitable[ToolOutput]]
        ) -> ToolOutput:
            await gate.wait()
            return await call_next()

    async with stage(calls(("wait", "{}")), plugin=Checkpoints(), tools=(waiting(Gate()),)) as s:
        assert await aborted(s, gate) == ["ABORTED_BEFORE_DISPATCH"]


async def test_a_tool_that_makes_a_result_of_its_cancellation_does_not_swallow_the_abort() -> None:
    """Case 051: one interrupt ends the turn, and there is exactly one request."""
    gate = Gate()

    @tool
    async def stubborn() -> str:
        """Answer even when cancelled."""
        try:
            await gate.wait()
        except asyncio.CancelledError:
            return "cancelled, but here is a result"
        return "waited"

    script = calls(("stubborn", "{}"))
    async with stage(script, "never", tools=(stubborn,)) as s:
        assert await aborted(s, gate) == [None]


async def test_a_failure_of_an_aborted_tool_keeps_its_own_words() -> None:
    gate = Gate()

    @tool
    async def cleans() -> str:
        """Fail in the cleanup."""
        try:
            await gate.wait()
        finally:
            raise ToolError("half of it is written", code="HALF")

    async with stage(calls(("cleans", "{}")), tools=(cleans,), settings={"limits": False}) as s:
        assert await aborted(s, gate) == ["HALF"]


async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_reported() -> None:
    gate, never = Gate(), asyncio.Event()
    late: list[str] = []

    @tool
    async def deaf(ctx: ToolContext) -> str:
        """Go on whatever happens."""
        while not never.is_set():
            try:
                await gate.wait()
                await never.wait()
            except asyncio.CancelledError:
                late.append("ignored")
        ctx.progress("too late")
        raise ValueError("nobody hears this")

    async with stage(calls(("deaf", "{}")), tools=(deaf,), grace_seconds=0.05) as s:
        started = time.monotonic()
        assert await aborted(s, gate) == ["ABORTED"]
        assert time.monotonic() - started < 5
        assert s.reports() == [
            "plugin 'kit' in tools_execute: deaf ignored its cancellation for 0.05 s and was "
            "abandoned"
        ]
        assert late == ["ignored"]
        before = len(s.agent.session.events)
        never.set()
        gate.open()
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(s.agent.session.events) == before
        assert (await bounded(s.agent.run("again"))).is_success


async def test_a_tool_in_a_thread_is_told_to_stop_and_not_waited_for() -> None:
    entered, logged, left = threading.Event(), threading.Event(), threading.Event()

    @tool
    def blocks(ctx: ToolContext) -> str:
        """Wait for the cancellation, and go on for a while."""
        entered.set()
        assert ctx.cancelled.wait(10)
        assert logged.wait(10)
        ctx.progress("too late")
        left.set()
        return "never seen"

    async with stage(calls(("blocks", "{}")), tools=(blocks,)) as s:
        s.agent.send("go")
        assert await asyncio.to_thread(entered.wait, 10)
        s.agent.abort()
        await bounded(s.agent.when_idle())

        logged.set()
        assert await asyncio.to_thread(left.wait, 10)
        await asyncio.sleep(0)
        assert codes(s) == ["ABORTED"]
        assert s.logged(ToolProgress) == []


async def test_an_abort_while_calls_are_judged_starts_none_of_them() -> None:
    gate = Gate()

    class Judges:
        @hookimpl
        async def tools_authorize(self, call: Call) -> Verdict | None:
            if call.id == "c0":
                return Verdict("deny", "not this one")
            await gate.wait()
            return None

    script = calls(*[("wait", "{}")] * 3)
    async with stage(script, plugin=Judges(), tools=(waiting(Gate(), read_only=True),)) as s:
        assert await aborted(s, gate) == ["DENIED", *["ABORTED_BEFORE_DISPATCH"] * 2]


async def test_results_of_an_aborted_step_are_announced_too_for_a_limited_time() -> None:
    gate = Gate()
    seen: list[tuple[str, str | None]] = []

    class Sees:
        @hookimpl
        async def tools_result(self, call: Call, result: ToolOutput) -> None:
            seen.append((call.id, result.code))
            if call.id == "c1":
                await asyncio.Event().wait()

    script = calls(*[("wait", "{}")] * 3)
    async with stage(script, plugin=Sees(), tools=(waiting(gate),)) as s:
        await aborted(s, gate)

        assert seen == [("c0", "ABORTED"), ("c1", "ABORTED_BEFORE_DISPATCH")]
        assert len(s.errors) == 1


async def test_an_abort_during_the_announcement_of_a_result_keeps_the_result() -> None:
    gate = Gate()

    class Slow:
        @hookimpl
        async def tools_result(self, call: Call) -> None:
            if call.id == "c0":
                await gate.wait()

    @tool
    def work() -> str:
        """Work."""
        return "worked"

    script = calls(("work", "{}"), ("work", "{}"))
    async with stage(script, plugin=Slow(), tools=(work,)) as s:
        assert await aborted(s, gate) == [None, "ABORTED_BEFORE_DISPATCH"]


# ------------------------------------------------------------------------------------ time limits


async def test_the_time_of_a_call_begins_when_it_has_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting, started = Meeting(MAX_PARALLEL_CALLS), []
    start_clock = StepCalls._start_clock

    def noting(self: Any, state: Any, judged: Any) -> None:
        started.append(len(meeting.running))
        start_clock(self, state, judged)

    monkeypatch.setattr(StepCalls, "_start_clock", noting)
    async with stage(many(*["read"] * 12), tools=(meeting.tool("read", read_only=True),)) as s:
        await bounded(s.agent.run("go"))

    assert started[:10] == list(range(10))
    assert all(count < MAX_PARALLEL_CALLS for count in started[10:])


async def test_a_call_that_took_too_long_is_answered_and_the_others_go_on() -> None:
    gate, other = Gate(), Gate()
    other.open()
    script = calls(("wait", "{}"), ("other", "{}"))
    tools = [waiting(gate, read_only=True), Tool("other", "", other.wait, read_only=True)]
    settings = {"limits": {"tool_seconds": 0.02}}
    async with stage(script, tools=tools, settings=settings) as s:
        assert (await bounded(s.agent.run("go"))).is_success

        assert codes(s) == ["TOOL_TIMEOUT", None]
        assert s.errors == []


# --------------------------------------------------------------------------- stray cancellations


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), SystemExit(3), RuntimeError("x")], ids=lambda e: type(e)
)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("timeout", [None, 30.0])
async def test_whatever_a_body_raises_is_the_result_of_its_call(
    error: BaseException, is_async: bool, timeout: float | None
) -> None:
    async def eventually() -> str:
        raise error

    def now() -> str:
        raise error

    body = eventually if is_async else now
    bad = Tool("bad", "", body, timeout_seconds=timeout)
    async with stage(calls(("bad", "{}")), tools=(bad,)) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert codes(s) == ["TOOL_FAILED"]
        assert type(error).__name__ in results(s)[0][0]


async def test_a_body_that_cancels_its_own_task_fails_its_call_only() -> None:
    @tool
    async def suicidal() -> str:
        """Cancel the task it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    settings = {"limits": {"tool_seconds": None}}
    script = calls(("suicidal", "{}"), ("suicidal", "{}"))
    async with stage(script, tools=(suicidal,), settings=settings) as s:
        result = await bounded(s.agent.run("go"))

        assert result.is_success
        assert codes(s) == ["TOOL_FAILED"] * 2


async def test_an_error_while_calls_run_gives_every_call_a_result() -> None:
    gate = Gate()

    class Breaks:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == "tool/call" and event.to_json()["data"]["call_id"] == "c1":
                raise ValueError("not this call")

    script = calls(*[("wait", "{}")] * 3)
    async with stage(script, plugin=Breaks(), tools=(waiting(gate),)) as s:
        gate.open()
        result = await bounded(s.agent.run("go"))

        assert result.reason.type == "error"
        assert codes(s) == [None, "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
        assert len(s.logged(StepStart)) == 1
        assert len(s.logged(AssistantMessage)) == 1
