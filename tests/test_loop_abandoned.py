"""Plugins that swallow their cancellation: nobody waits for ever, and the log stays whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from loop_stage import GRACE_SECONDS, Gate, Stage, bounded, calls, nothing, paused, stage
from memory_store import MemoryStore
from waterfalls import unplaced

from dsh_core import Chunk, Request, SessionHeader, Verdict, hookimpl, tool
from dsh_core.chunks import TextDelta
from dsh_core.content import Text
from dsh_core.errors import LlmFailure, SessionError
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    ContextMessage,
    Disposed,
    TurnEnd,
)
from dsh_core.hooks.waiting import within

CLEANUP_SECONDS = 0.05

HOOKS = [
    "agent_turn_start",
    "agent_step_start",
    "system_prompt_sections",
    "system_prompt_assemble",
    "agent_request",
    "agent_request_error",
    "llm_stream",
    "agent_step_result",
    "agent_step_end",
    "agent_turn_continuation",
    "tool_effects",
    "tools_authorize",
    "approval_request",
    "tools_execute",
    "tools_result",
]
ENDING_HOOKS = ["agent_turn_end", "session_flush"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing take longer than this file's cleanup, limits of hooks included."""

    async def hurried(seconds: float, *args: Any, **options: Any) -> Any:
        return await within(min(seconds, CLEANUP_SECONDS), *args, **options)

    monkeypatch.setattr("dsh_core.loop.turn.CLEANUP_SECONDS", CLEANUP_SECONDS)
    monkeypatch.setattr("dsh_core.loop.agent.CLEANUP_SECONDS", CLEANUP_SECONDS)
    monkeypatch.setattr("dsh_core.hooks.waiting.CLEANUP_SECONDS", CLEANUP_SECONDS)
    monkeypatch.setattr("dsh_core.loop.turn.within", hurried)
    monkeypatch.setattr("dsh_core.hooks.dispatch.CLEANUP_SECONDS", CLEANUP_SECONDS)


_deaf: list[Deaf] = []


@pytest.fixture(autouse=True)
async def released() -> AsyncIterator[None]:
    """Release what a failing test leaves: its event loop could not be closed otherwise."""
    yield
    while _deaf:
        _deaf.pop().never.set()


class Deaf:
    """Something that hears no cancellation until it is released."""

    def __init__(self, *, raises: bool = False) -> None:
        self.gate = Gate()
        self.never = asyncio.Event()
        self.over = asyncio.Event()
        self.raises = raises
        self.refused: list[str] = []
        self.is_first = True
        _deaf.append(self)

    async def wait(self, stage: Stage | None = None) -> None:
        if not self.is_first:
            return
        self.is_first = False
        try:
            waiting: Any = self.gate.wait()
            while not self.never.is_set():
                try:
                    await waiting
                except asyncio.CancelledError:
                    waiting = self.never.wait()
            if stage is not None:
                self.write(stage)
            if self.raises:
                raise ValueError("too late")
        finally:
            self.over.set()

    def write(self, stage: Stage) -> None:
        """Try to write into the log, in every way there is."""
        agent = stage.agent
        late = ContextMessage((Text("late"),))
        for attempt in (
            lambda: agent.inject("late"),
            lambda: agent.session.append(late),
            lambda: agent.session.append_owed(late),
            lambda: agent.session.append_chunk(1, 1, TextDelta(0, "late")),
            lambda: agent.session.record(late),
        ):
            try:
                attempt()
            except SessionError as error:
                self.refused.append(str(error))

    def plugin(self, hook: str, box: list[Stage]) -> object:
        async def deaf(_: object) -> None:
            await self.wait(box[0])

        functions = {hook: hookimpl(deaf)}
        if hook == "approval_request":

            async def asks(_: object) -> Verdict:
                return Verdict("ask", "may it?")

            functions["tools_authorize"] = hookimpl(asks)
        return type("DeafPlugin", (), functions)()


@pytest.fixture
def box() -> Iterator[list[Stage]]:
    stages: list[Stage] = []
    yield stages
    stages.clear()


def script(hook: str) -> list[Any]:
    first = LlmFailure("SERVER", "down") if hook == "agent_request_error" else None
    return [first or calls(("nothing", "{}"))]


# ------------------------------------------------------------------------ each hook × each end


@pytest.mark.parametrize("end", ["abort", "abort twice", "dispose", "stop"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_that_swallows_its_cancellation_is_abandoned_and_named(
    hook: str, end: str, box: list[Stage]
) -> None:
    deaf = Deaf()
    plugin = deaf.plugin(hook, box)
    async with stage(*script(hook), plugin=plugin, tools=(nothing,)) as s:
        box.append(s)
        agent = s.agent
        agent.send("go")
        await deaf.gate.reached()
        if end == "dispose":
            await bounded(agent.dispose())
        elif end == "stop":
            await bounded(s.harness.stop())
        else:
            agent.abort("enough")
            if end == "abort twice":
                await asyncio.sleep(0)
                agent.abort("again")
            await bounded(agent.when_idle())

        reason = Aborted("enough") if end.startswith("abort") else Disposed()
        assert s.logged(TurnEnd) == [TurnEnd(1, reason)]
        said = [report for report in s.reports() if "was abandoned" in report]
        assert len(said) == 1
        assert said[0].startswith(f"plugin 'it' in {hook}: ")
        before = list(agent.session.events)
        deaf.never.set()
        await bounded(deaf.over.wait())
        for _ in range(5):
            await asyncio.sleep(0)
        assert list(agent.session.events) == before
        if end.startswith("abort"):
            assert (await bounded(agent.run("again"))).is_success


@pytest.mark.parametrize("end", ["abort", "dispose", "stop"])
@pytest.mark.parametrize("hook", ENDING_HOOKS)
async def test_a_hook_of_the_ending_that_swallows_its_cancellation_has_its_limit(
    hook: str, end: str, box: list[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hurried(seconds: float, *args: Any, **options: Any) -> Any:
        return await within(min(seconds, CLEANUP_SECONDS), *args, **options)

    monkeypatch.setattr("dsh_core.hooks.dispatch.within", hurried)
    deaf = Deaf()
    async with stage(plugin=deaf.plugin(hook, box)) as s:
        box.append(s)
        agent = s.agent
        agent.send("go")
        await deaf.gate.reached()
        if end == "abort":
            agent.abort()
            await bounded(agent.when_idle())
        else:
            await bounded(agent.dispose() if end == "dispose" else s.harness.stop())

        assert s.logged(TurnEnd) == [TurnEnd(1, Completed())]
        assert [report for report in s.reports() if hook in report]
        deaf.never.set()
        await bounded(deaf.over.wait())


# --------------------------------------------------------------- what is still done in the end


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("hook", HOOKS)
async def test_what_an_abandoned_hook_still_does_never_gets_into_a_later_turn(
    hook: str, raises: bool, box: list[Stage]
) -> None:
    deaf, gate = Deaf(raises=raises), Gate()
    plugin = deaf.plugin(hook, box)
    async with stage(*script(hook), plugin=plugin, tools=(nothing,)) as s:
        box.append(s)
        s.agent.send("go")
        await deaf.gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        s.model.replies = [paused(gate)]
        later = asyncio.ensure_future(s.agent.run("later"))
        await gate.reached()
        reports, asked = len(s.errors), len(s.model.requests)
        deaf.never.set()
        await bounded(deaf.over.wait())
        for _ in range(10):
            await asyncio.sleep(0)
        gate.open()

        assert (await bounded(later)).is_success
        assert len(deaf.refused) == 5
        assert all("was aborted and abandoned" in text for text in deaf.refused)
        assert s.logged(ContextMessage) == []
        assert [message.turn for message in s.logged(AssistantMessage)][-1] == 2
        assert (len(s.errors), len(s.model.requests)) == (reports, asked)


async def test_an_adapter_that_swallows_its_cancellation_is_abandoned(box: list[Stage]) -> None:
    deaf = Deaf()

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        yield TextDelta(0, "half")
        await deaf.wait()
        yield TextDelta(0, "late")

    async with stage(stream) as s:
        s.agent.send("go")
        await deaf.gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        (kept,) = s.logged(AssistantMessage)
        assert (kept.content, kept.interrupted) == ((Text("half"),), True)
        said = (
            f"ignored its cancellation for {GRACE_SECONDS + CLEANUP_SECONDS:g} s and was abandoned"
        )
        assert s.reports() == [f"plugin 'kit' in llm_stream: {said}"]
        assert (await bounded(s.agent.run("again"))).is_success
        deaf.never.set()
        await bounded(deaf.over.wait())
        for _ in range(5):
            await asyncio.sleep(0)
        assert "late" not in str(s.agent.session.events)


async def test_a_listener_of_the_stream_that_swallows_it_is_named_and_not_the_adapter(
    box: list[Stage],
) -> None:
    deaf = Deaf()

    class Listens:
        @hookimpl
        async def llm_stream(self, *, call_next: Any) -> AsyncIterator[Chunk]:
            async for chunk in await call_next():
                await deaf.wait()
                yield chunk

    async with stage(plugin=Listens()) as s:
        s.agent.send("go")
        await deaf.gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert unplaced(s.reports())[0].startswith("plugin 'it' in llm_stream: ignored")
        deaf.never.set()
        await bounded(deaf.over.wait())


async def test_a_wrapper_is_not_blamed_for_what_it_waits_for(box: list[Stage]) -> None:
    deaf = Deaf()

    @tool
    async def hangs() -> str:
        """Hang."""
        await deaf.wait(box[0])
        return "never seen"

    class Wraps:
        @hookimpl
        async def tools_execute(self, *, call_next: Any) -> Any:
            return await call_next()

    async with stage(calls(("hangs", "{}")), plugin=Wraps(), tools=(hangs,)) as s:
        box.append(s)
        s.agent.send("go")
        await deaf.gate.reached()
        s.agent.abort("enough")
        await bounded(s.agent.when_idle())

        assert s.reports()[0].startswith("plugin 'kit' in tools_execute: hangs ignored")
        deaf.never.set()
        await bounded(deaf.over.wait())
        assert len(deaf.refused) == 5


async def test_an_abort_before_the_steps_began_ends_a_hook_that_waits() -> None:
    class Waits:
        left = 1

        @hookimpl
        async def agent_turn_start(self) -> None:
            if self.left:
                self.left -= 1
                await asyncio.Event().wait()

    async with stage(plugin=Waits()) as s:
        s.agent.session.subscribe(lambda event: s.agent.abort("early") if event.seq == 0 else None)
        result = await bounded(s.agent.run("go"))

        assert result.reason == Aborted("early")
        assert s.reports() == []
        assert (await bounded(s.agent.run("again"))).is_success


async def test_a_program_that_ends_does_not_wait_for_a_deaf_hook(box: list[Stage]) -> None:
    deaf = Deaf()
    async with stage(plugin=deaf.plugin("agent_request", box)) as s:
        box.append(s)
        s.agent.send("go")
        await deaf.gate.reached()
        for task in asyncio.all_tasks():
            if task.get_name().startswith("dsh-agent-"):
                task.cancel()
        await bounded(s.agent.when_idle())
        while s.agent.session.open_turn is not None:
            await asyncio.sleep(0)

        deaf.never.set()
        await bounded(deaf.over.wait())
        assert len(deaf.refused) == 5


# ------------------------------------------------------------------------------- what is no hook


async def test_maintenance_that_swallows_its_cancellation_does_not_hold_up_dispose() -> None:
    deaf = Deaf()
    async with stage() as s:
        agent = s.agent

        async def maintain() -> None:
            async with agent.exclusive("compaction"):
                await deaf.wait(s)

        maintaining = asyncio.ensure_future(maintain())
        await deaf.gate.reached()
        await bounded(agent.dispose())

        assert s.logged(TurnEnd) == [TurnEnd(1, Disposed())]
        assert "ignored its cancellation" in s.reports()[0]
        before = list(agent.session.events)
        deaf.never.set()
        await asyncio.wait({maintaining})
        assert agent.session.events == before
        assert not maintaining.cancelled()


async def test_a_lock_whose_release_hangs_does_not_hold_up_dispose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dsh_core.loop.agent.RELEASE_SECONDS", CLEANUP_SECONDS)
    store = MemoryStore()
    await store.append(SessionHeader("old", 0.0), [])

    class Stuck:
        async def release(self) -> None:
            await asyncio.Event().wait()

    async def lock(session_id: str) -> Any:
        return Stuck()

    monkeypatch.setattr(store, "lock", lock)
    async with stage(plugins={"store": store}) as s:
        agent = await s.harness.agents.resume("old")
        await bounded(agent.dispose())

        assert s.harness.agents.list() == []
        assert s.reports() == [f"took more than {CLEANUP_SECONDS:g} s"]


async def test_an_adapter_that_never_closes_does_not_hold_up_the_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dsh_core.llm.service.CLOSE_SECONDS", CLEANUP_SECONDS)
    async with stage() as s:
        monkeypatch.setattr(s.model, "aclose", asyncio.Event().wait)
        await bounded(s.agent.run("go"))
        await bounded(s.harness.stop())

    assert "an adapter did not close" in caplog.text
