"""The tool calls of a step: judged in the model's order, read-only neighbours run together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.content import ToolCall
from dsh_core.errors import PluginError
from dsh_core.events import ToolCallEvent, ToolResultEvent
from dsh_core.outcome import ToolOutput
from dsh_core.policy import Call
from dsh_core.tools.body import cancelled_output, failure
from dsh_core.tools.pipeline import Judged, execute, judge

if TYPE_CHECKING:
    from dsh_core.loop.agent import LoopAgent

log = logging.getLogger("dsh.loop")

MAX_PARALLEL_CALLS = 10
GRACE_SECONDS = 5.0
"""How long a cancelled call may take to end before it is abandoned."""


class StepCalls:
    """Runs the calls of one reply. Every call gets exactly one result, whatever happens."""

    def __init__(self, agent: LoopAgent, turn: int, step: int, blocks: Sequence[ToolCall]):
        self._agent = agent
        self._turn = turn
        self._step = step
        self._blocks = blocks
        self._answered = 0
        self._logged = 0
        self.ends_turn = False

    async def run(self) -> None:
        """Run all calls, group by group. On abort, the rest get results that say so."""
        try:
            for group in self._groups():
                await self._run_group(group)
        except BaseException:
            self._answer_rest()
            raise

    def refuse(self, code: str, message: str) -> None:
        """Answer every call with an error without running it."""
        for block in self._blocks:
            self._log_call(block, "deny")
            self._log_result(block.id, ToolOutput.error(code, message))

    def _groups(self) -> list[list[ToolCall]]:
        """Cut the calls into runs of read-only ones, and single barriers."""
        groups: list[list[ToolCall]] = []
        for is_parallel, blocks in groupby(self._blocks, key=self._is_read_only):
            if is_parallel:
                groups.append(list(blocks))
            else:
                groups.extend([block] for block in blocks)
        return groups

    def _is_read_only(self, block: ToolCall) -> bool:
        agent = self._agent
        tools = agent.harness.tools.for_agent(agent.hooks, agent.options.tools)
        tool = tools.get(block.name)
        return tool is not None and tool.read_only and not tool.destructive

    async def _run_group(self, blocks: list[ToolCall]) -> None:
        judged = []
        for block in blocks:
            judged.append(await judge(self._agent, block, self._turn, self._step))
        if len(judged) > 1 and not all(self._is_read_only(block) for block in blocks):
            # A result changed the registry: what is no longer read-only runs alone.
            for one in judged:
                await self._run_together([one])
            return
        await self._run_together(judged)

    async def _run_together(self, judged: list[Judged]) -> None:
        for one in judged:
            self._log_call_of(one)
        slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)
        tasks = [
            asyncio.create_task(self._one(one, slots), name=f"dsh-call-{one.call.name}")
            for one in judged
        ]
        try:
            for one, task in zip(judged, tasks, strict=True):
                await self._finish(one, await asyncio.shield(task))
        except BaseException:
            await self._abandon(judged, tasks)
            raise

    async def _one(self, judged: Judged, slots: asyncio.Semaphore) -> ToolOutput:
        if judged.denial is not None:
            return judged.denial
        async with slots:
            return await execute(self._agent, judged)

    async def _finish(self, judged: Judged, output: ToolOutput) -> None:
        self._log_result(judged.call.id, output)
        self.ends_turn = self.ends_turn or (output.ends_turn and not output.is_error)
        await self._agent.hooks.notify(
            hookspecs.tools_result, agent=self._agent, call=judged.call, result=output
        )

    async def _abandon(self, judged: list[Judged], tasks: list[asyncio.Task[ToolOutput]]) -> None:
        """Cancel what runs, wait a grace period, and log what each call came to."""
        done_before = self._answered_in(tasks)
        for task in tasks:
            task.cancel()
        await _settled(tasks, GRACE_SECONDS)
        for one, task in list(zip(judged, tasks, strict=True))[done_before:]:
            self._log_result(one.call.id, _outcome(one.call, task))
            if not task.done():
                self._agent.report_error(
                    PluginError(
                        self._agent.harness.tools.owner_of(one.call.name) or "?",
                        "tools_execute",
                        f"{one.call.name} ignored its cancellation for {GRACE_SECONDS:g} s and "
                        "was abandoned",
                    )
                )

    def _answered_in(self, tasks: list[asyncio.Task[ToolOutput]]) -> int:
        return self._answered - (self._logged - len(tasks))

    def _answer_rest(self) -> None:
        """Give every call that did not start a result, in order."""
        for block in self._blocks[self._answered :]:
            if self._logged <= self._answered:
                self._log_call(block, "deny")
            self._log_result(block.id, cancelled_output(started=False))

    def _log_call_of(self, judged: Judged) -> None:
        call = judged.call
        self._append_call(
            call.id, call.name, call.raw, "deny" if judged.denial is not None else "allow"
        )

    def _log_call(self, block: ToolCall, verdict: str) -> None:
        self._append_call(block.id, block.name, block.arguments, verdict)

    def _append_call(self, call_id: str, name: str, arguments: str, verdict: str) -> None:
        self._agent.session.append(
            ToolCallEvent(self._turn, self._step, call_id, name, arguments, verdict)
        )
        self._logged += 1

    def _log_result(self, call_id: str, output: ToolOutput) -> None:
        """Log a result; where a plugin refuses it, log that instead, so that the pair is whole."""
        self._answered += 1
        result = ToolResultEvent(
            self._turn,
            self._step,
            call_id,
            output.content,
            is_error=output.is_error,
            code=output.code,
            meta=output.meta,
        )
        try:
            self._agent.session.append(result)
        except PluginError as error:
            refused = ToolOutput.error("RESULT_REFUSED", str(error))
            self._agent.session.append(
                replace(
                    result,
                    content=refused.content,
                    is_error=True,
                    code=refused.code,
                    meta=None,
                )
            )
            raise


async def _settled(tasks: Sequence[asyncio.Task[ToolOutput]], seconds: float) -> None:
    """Wait for tasks, also when cancelled again meanwhile."""
    deadline = asyncio.get_running_loop().time() + seconds
    pending = {task for task in tasks if not task.done()}
    while pending:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return
        try:
            _, pending = await asyncio.wait(pending, timeout=left)
        except asyncio.CancelledError:
            log.debug("cancelled again while calls end; the first cancellation is under way")


def _outcome(call: Call, task: asyncio.Task[ToolOutput]) -> ToolOutput:
    if task.done() and not task.cancelled():
        error = task.exception()
        if error is None:
            return task.result()
        return failure(call.name, error)
    return cancelled_output(started=True)
