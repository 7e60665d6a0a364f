"""The tool calls of a step: judged in the model's order, read-only neighbours run together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.content import ToolCall
from dsh_core.errors import HarnessError, PluginError, error_text
from dsh_core.events import ToolCallEvent, ToolResultEvent
from dsh_core.hooks import within
from dsh_core.hooks.stuck import stuck_in
from dsh_core.outcome import ToolOutput
from dsh_core.record import record
from dsh_core.tools.body import cancelled_output, failure
from dsh_core.tools.pipeline import Judged, execute, judge, resolve
from dsh_core.tools.progress import Progress

if TYPE_CHECKING:
    from dsh_core.loop.agent import LoopAgent

log = logging.getLogger("dsh.loop")

MAX_PARALLEL_CALLS = 10


@record(frozen=False, eq=False)
class _State:
    """How far a call of the reply has come."""

    block: ToolCall
    judged: Judged | None = None
    progress: Progress | None = None
    task: asyncio.Task[ToolOutput] | None = None
    ended: asyncio.Future[None] | None = None
    timer: asyncio.TimerHandle | None = None
    timed_out_after: float | None = None
    is_started: bool = False
    is_logged: bool = False
    output: ToolOutput | None = None
    is_announced: bool = False

    def mark_ended(self, task: object = None) -> None:
        """Wake who waits for the call; also called for a task that never began."""
        if self.timer is not None:
            self.timer.cancel()
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(None)


class StepCalls:
    """Runs the calls of one reply. Every call gets exactly one result, whatever happens."""

    def __init__(self, agent: LoopAgent, turn: int, step: int, blocks: Sequence[ToolCall]):
        self._agent = agent
        self._turn = turn
        self._step = step
        self._states = [_State(block) for block in blocks]
        self.ends_turn = False

    async def run(self) -> None:
        """Run all calls, group by group. On abort, the rest get results that say so."""
        try:
            position = 0
            while position < len(self._states):
                group = self._next_group(position)
                await self._run_group(group)
                position += len(group)
        except BaseException:
            await self._end_early()
            raise

    async def refuse(self, code: str, message: str) -> None:
        """Answer every call with an error without running it."""
        for state in self._states:
            self._log_call(state, "deny")
            self._log_result(state, ToolOutput.error(code, message))
        for state in self._states:
            await self._announce(state)

    def _next_group(self, position: int) -> list[_State]:
        """Return a run of read-only calls, or one barrier.

        The earlier results are in: they may have changed the registry.
        """
        rest = self._states[position:]
        return list(takewhile(self._is_read_only, rest)) or rest[:1]

    def _is_read_only(self, state: _State) -> bool:
        agent = self._agent
        tools = agent.harness.tools.for_agent(agent.hooks, agent.options.tools)
        tool = tools.get(state.block.name)
        return tool is not None and tool.read_only and not tool.destructive

    async def _run_group(self, group: list[_State]) -> None:
        for state in group:
            state.judged = await judge(self._agent, state.block, self._turn, self._step)
        if len(group) > 1 and not all(map(self._is_read_only, group)):
            for state in group:  # judging changed the registry: what may write runs alone
                await self._run_together([state])
        else:
            await self._run_together(group)

    async def _run_together(self, group: list[_State]) -> None:
        for state in group:
            assert state.judged is not None
            self._log_call(state, "allow" if state.judged.denial is None else "deny")
        slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        loop = asyncio.get_running_loop()
        for state in group:
            if state.judged is not None and state.judged.denial is None:
                state.ended = loop.create_future()
                state.task = loop.create_task(
                    self._execute(state, state.judged, slots), name=f"dsh-call-{state.block.name}"
                )
                state.task.add_done_callback(state.mark_ended)
        for state in group:
            if state.ended is not None:
                await state.ended
            self._log_result(state, _outcome(state, was_cancelled=False))
            self._give_up_on(state)
            await self._announce(state)

    def _start_clock(self, state: _State, judged: Judged) -> None:
        """Bound a call whose tool does not bound itself: a timer, no task."""
        seconds = self._agent.tool_timeout_seconds
        if seconds is None or judged.tool is None or judged.tool.timeout_seconds is not None:
            return
        loop = asyncio.get_running_loop()
        state.timer = loop.call_later(seconds, self._time_out, state, seconds)

    def _time_out(self, state: _State, seconds: float) -> None:
        """Cancel a call that took too long; one that goes on nevertheless is abandoned."""
        assert state.task is not None
        state.timed_out_after = seconds
        state.task.cancel()
        loop = asyncio.get_running_loop()
        state.timer = loop.call_later(self._agent.grace_seconds, state.mark_ended)

    async def _execute(self, state: _State, judged: Judged, slots: asyncio.Semaphore) -> ToolOutput:
        def started() -> None:
            state.is_started = True

        try:
            async with slots:
                state.progress = Progress(self._agent.session, judged.call)
                self._start_clock(state, judged)
                return await execute(self._agent, judged, state.progress, started)
        finally:
            state.mark_ended()

    async def _announce(self, state: _State) -> None:
        assert state.output is not None
        state.is_announced = True
        if not self._agent.hooks.has(hookspecs.tools_result):
            return
        if state.judged is None:
            call, _ = resolve(self._agent, state.block, self._turn, self._step)
        else:
            call = state.judged.call
        await self._agent.hooks.notify(
            hookspecs.tools_result, agent=self._agent, call=call, result=state.output
        )

    # ---------------------------------------------------------------------- early ends

    async def _end_early(self) -> None:
        """Cancel what runs, wait a grace period, and log what every call came to."""
        seconds = self._agent.grace_seconds
        open_states = [state for state in self._states if state.output is None]
        tasks = [state.task for state in open_states if state.task is not None]
        for task in tasks:
            task.cancel()
        await _settled(tasks, seconds)
        for state in open_states:
            self._conclude(state)
        silent = [s for s in self._states if s.output is not None and not s.is_announced]
        if not silent or not self._agent.hooks.has(hookspecs.tools_result):
            return
        try:
            await within(seconds, self._announce_all(silent))
        except Exception as error:  # noqa: BLE001 - the step is over anyway
            self._agent.report_error(error)

    async def _announce_all(self, states: Iterable[_State]) -> None:
        for state in states:
            await self._announce(state)

    def _conclude(self, state: _State) -> None:
        try:
            if not state.is_logged:
                self._log_call(state, "deny")
        except HarnessError as error:
            self._agent.report_error(error)
        try:
            self._log_result(state, _outcome(state, was_cancelled=True))
        except HarnessError as error:
            self._agent.report_error(error)
        self._give_up_on(state)

    def _give_up_on(self, state: _State) -> None:
        """Report a call that goes on although it was cancelled."""
        task, agent, name = state.task, self._agent, state.block.name
        if task is None or task.done():
            return
        task.add_done_callback(_forget)
        agent.session.bar(task)
        text = f"{name} ignored its cancellation for {agent.grace_seconds:g} s and was abandoned"
        found = stuck_in(task)
        plugin = found.plugin if found is not None else agent.harness.tools.owner_of(name) or "?"
        hook = found.hook if found is not None else hookspecs.tools_execute.__name__
        agent.report_error(PluginError(plugin, hook, text))

    # ------------------------------------------------------------------------- the log

    def _log_call(self, state: _State, verdict: str) -> None:
        block = state.block
        by = state.judged.by if state.judged is not None else None
        turn, step = self._turn, self._step
        self._agent.session.append(
            ToolCallEvent(turn, step, block.id, block.name, block.arguments, verdict, by)
        )
        state.is_logged = True

    def _log_result(self, state: _State, output: ToolOutput) -> None:
        """Log a result, after which there is no progress.

        Where it is refused, an error stands in for it, so that the pair is whole; the refusal is
        raised then.
        """
        if state.progress is not None:
            state.progress.close()
        if state.timer is not None:
            state.timer.cancel()
        result = ToolResultEvent(
            self._turn,
            self._step,
            state.block.id,
            output.content,
            is_error=output.is_error,
            code=output.code,
            meta=output.meta,
        )
        session = self._agent.session
        try:
            session.append(result)
        except HarnessError as error:
            state.output = refused = ToolOutput.error("RESULT_REFUSED", error_text(error))
            session.append_owed(
                replace(
                    result, content=refused.content, is_error=True, code=refused.code, meta=None
                )
            )
            raise error from None
        state.output = output
        self.ends_turn = self.ends_turn or (output.ends_turn and not output.is_error)


async def _settled(tasks: Sequence[asyncio.Task[ToolOutput]], seconds: float) -> None:
    """Wait for tasks, also when cancelled again meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    pending = {task for task in tasks if not task.done()}
    while pending and (left := deadline - loop.time()) > 0:
        try:
            _, pending = await asyncio.wait(pending, timeout=left)
        except asyncio.CancelledError:
            log.debug("cancelled again while calls end; the first cancellation is under way")


def _outcome(state: _State, *, was_cancelled: bool) -> ToolOutput:
    """Return what a call came to; `was_cancelled` = by us."""
    task, name = state.task, state.block.name
    if state.timed_out_after is not None:
        text = f"{name} took more than {state.timed_out_after:g} s"
        return ToolOutput.error("TOOL_TIMEOUT", text)
    if task is None and state.judged is not None and state.judged.denial is not None:
        return state.judged.denial
    if task is None or not task.done():
        return cancelled_output(started=state.is_started)
    if task.cancelled():
        if was_cancelled:
            return cancelled_output(started=state.is_started)
        return failure(name, asyncio.CancelledError("it cancelled itself"))
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, KeyboardInterrupt):
        raise error
    return failure(name, error)


def _forget(task: asyncio.Task[ToolOutput]) -> None:
    """Take note of what an abandoned call came to, so that nobody warns that nobody did."""
    if not task.cancelled():
        task.exception()
