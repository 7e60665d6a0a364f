"""One turn of an agent, from its messages to `turn/end`: the algorithm, readable in one sitting.

::

    TURN  turn/start → user/message…
      STEP  steering → step/start → prompt → agent_request → stream → agent_step_result
            → assistant/message → tool calls → steering → step/end → agent_turn_continuation
    turn/end → agent_turn_end

Whatever raises ends the turn, never the loop, and the log stays balanced. The steps run in a task
of their own: an abort cancels that task, and nothing of what ends the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias

from dsh_core import hookspecs
from dsh_core.codec import clean_text, seal
from dsh_core.content import ToolCall
from dsh_core.errors import (
    HarnessError,
    LlmFailure,
    PluginError,
    UserError,
    error_chain,
    error_text,
)
from dsh_core.events import (
    Aborted,
    AssistantMessage,
    Completed,
    Errored,
    ErrorEvent,
    MaxTokens,
    MessageTrigger,
    SteeringMessage,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnEndReason,
    TurnStart,
    UserMessage,
)
from dsh_core.hooks import within
from dsh_core.hooks.blame import is_stop
from dsh_core.hooks.stuck import stuck_in
from dsh_core.hooks.waiting import CLEANUP_SECONDS
from dsh_core.loop.calls import StepCalls
from dsh_core.loop.inbox import Queued
from dsh_core.loop.reply import Reply
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.loop.agent import LoopAgent

MAX_TRUNCATED_STEPS = 2
"""How often in a row a reply may be cut in the middle of a tool call before the turn ends."""

STEP_END_SECONDS = 30.0
"""How long `agent_step_end` may take in a turn that is over; as long as `agent_turn_end`."""

Outcome: TypeAlias = TurnEndReason | BaseException
"""What the steps came to: the reason they ended with, or what was raised."""


@record()
class StepOutcome:
    """What a step came to: whether the model is owed another one, and a reason to stop."""

    ran_tools: bool
    ends_turn: bool
    was_steered: bool
    was_cut: bool


class Turn:
    """One turn. `run` raises only what stops the whole program."""

    def __init__(self, agent: LoopAgent, messages: list[Queued]):
        self._agent = agent
        self._session = agent.session
        self._messages = messages
        self._held = {message.id for message in messages}
        self.number = agent.session.last_turn + 1
        self.step = 0
        self.is_closed = False
        self.ended = asyncio.Event()
        self.abort_reason: TurnEndReason | None = None
        self._steps_task: asyncio.Task[Outcome] | None = None
        self._steps_over: asyncio.Future[None] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._reply: Reply | None = None
        self._is_ending = False
        self._was_cut = False
        self._truncated_steps = 0

    def holds(self, message_id: str) -> bool:
        """Whether the turn took a message."""
        return message_id in self._held

    def abort(self, reason: TurnEndReason) -> None:
        """End the turn with a reason; the first one counts, and none once the turn is ending."""
        if self.abort_reason is not None or self._is_ending:
            return
        self.abort_reason = reason
        self._cancel_steps()

    def heed_abort(self) -> None:
        """Stop here if the turn was aborted, also where somebody swallowed the cancellation."""
        if self.abort_reason is not None:
            raise asyncio.CancelledError

    async def run(self) -> bool:
        """Take the turn through its steps and close it, whatever happens.

        Return whether a flush is owed; False = the turn was refused, and its messages are parked.
        """
        try:
            self._session.append(TurnStart(self.number, MessageTrigger(self._messages[0].source)))
        except HarnessError as error:
            self._is_ending = self.is_closed = True
            self._agent.inbox.park(self._messages)
            self._agent.report_error(error)
            self.ended.set()
            return False
        outcome = self._log_messages() or await self._run_steps()
        await self._end(outcome)
        return True

    def _log_messages(self) -> Outcome | None:
        """Log what the turn begins with; what comes after a refused message waits for the next."""
        for index, message in enumerate(self._messages):
            try:
                self._session.append(UserMessage(message.content, message.source, message.id))
            except HarnessError as error:
                self._agent.inbox.requeue(self._messages[index + 1 :])
                return error
        return None

    async def _run_steps(self) -> Outcome:
        loop = asyncio.get_running_loop()
        self._steps_over = over = loop.create_future()
        self._steps_task = task = loop.create_task(
            self._contained(), name=f"dsh-turn-{self._agent.id}-{self.number}"
        )
        task.add_done_callback(self._steps_ended)
        if self.abort_reason is not None:  # by a hook, while the messages were logged
            loop.call_soon(self._cancel_steps)
        try:
            await over
        except asyncio.CancelledError:  # not an abort: the program ends, and the driver with it
            self.abort(Aborted("cancelled"))
            task.cancel()
            try:
                await asyncio.wait({task}, timeout=self._agent.grace_seconds)
            finally:
                if not task.done():
                    self._session.bar(task)
                self._close(self.abort_reason or Aborted("cancelled"))
            raise
        if not task.done():
            return asyncio.CancelledError("abandoned")
        if task.cancelled():
            return asyncio.CancelledError("a plugin cancelled the task of the turn")
        error = task.exception()
        if not isinstance(error, KeyboardInterrupt):
            return error or task.result()
        self._close(Aborted("interrupted"))
        raise error

    def _cancel_steps(self) -> None:
        """Cancel the steps; whoever swallows that is waited for no longer than tools are."""
        task = self._steps_task
        if task is None or task.done():
            return
        task.cancel()
        seconds = self._agent.grace_seconds + CLEANUP_SECONDS
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(seconds, self._abandon, task, seconds)

    def _steps_ended(self, task: asyncio.Task[Outcome] | None = None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        if self._steps_over is not None and not self._steps_over.done():
            self._steps_over.set_result(None)

    def _abandon(self, task: asyncio.Task[Outcome], seconds: float) -> None:
        """Go on without the steps: what they still do is not part of the log."""
        self._session.bar(task)
        plugin, hook = self._culprit(task)
        said = f"ignored its cancellation for {seconds:g} s and was abandoned"
        self._agent.report_error(PluginError(plugin, hook, said))
        self._steps_ended()

    def _culprit(self, task: asyncio.Task[Outcome]) -> tuple[str, str]:
        """Return plugin and hook the steps wait for; where that is the core, the model's."""
        found = stuck_in(task)
        if found is not None:
            return found.plugin, found.hook
        route = self._reply.model if self._reply is not None else None
        owner = self._agent.harness.llm.owner_of(route) if route is not None else None
        return owner or "?", hookspecs.llm_stream.__name__

    async def _contained(self) -> Outcome:
        try:
            await self._agent.ready()
            await self._agent.hooks.notify(
                hookspecs.agent_turn_start, agent=self._agent, turn=self.number
            )
            return await self._take_steps()
        except BaseException as error:
            if is_stop(error):
                raise
            return error

    async def _take_steps(self) -> TurnEndReason:
        while True:
            self.heed_abort()
            self.step += 1
            reason = await self._next(await self._one_step())
            if reason is not None:
                return reason

    async def _next(self, outcome: StepOutcome) -> TurnEndReason | None:
        """Ask whether the turn takes another step; None = it does."""
        self._was_cut = self._was_cut or outcome.was_cut
        if self._truncated_steps >= MAX_TRUNCATED_STEPS:
            return MaxTokens()
        default = (outcome.ran_tools and not outcome.ends_turn) or outcome.was_steered

        async def as_before(agent: Agent, turn: int, default: bool) -> bool | TurnEndReason:
            return default

        decision = await self._agent.hooks.waterfall(
            hookspecs.agent_turn_continuation,
            as_before,
            agent=self._agent,
            turn=self.number,
            default=default,
        )
        if isinstance(decision, TurnEndReason):
            reason: TurnEndReason = seal(TurnEnd(self.number, decision)).reason
            return reason
        if decision or outcome.was_steered or self._agent.inbox.steering:
            return None
        return MaxTokens() if self._was_cut else Completed()

    async def _one_step(self) -> StepOutcome:
        turn, step, hooks = self.number, self.step, self._agent.hooks
        self._take_steering()
        self._session.append(StepStart(turn, step))
        await hooks.notify(hookspecs.agent_step_start, agent=self._agent, turn=turn, step=step)
        self._reply = Reply(self._agent, self)
        outcome = await self._run_calls(await self._reply.ask())
        self._session.append(StepEnd(turn, step))
        await hooks.notify(hookspecs.agent_step_end, agent=self._agent, turn=turn, step=step)
        return outcome

    async def _run_calls(self, reply: AssistantMessage) -> StepOutcome:
        blocks = [block for block in reply.content if isinstance(block, ToolCall)]
        is_cut = reply.finish == "max-tokens"
        calls = StepCalls(self._agent, self.number, self.step, blocks)
        if is_cut and blocks:
            self._truncated_steps += 1
            await calls.refuse(
                "TRUNCATED",
                "the reply was cut at the output limit, so this call did not run; "
                "ask for less at once",
            )
        else:
            self._truncated_steps = 0
            await calls.run()
        self.heed_abort()
        return StepOutcome(
            ran_tools=bool(blocks),
            ends_turn=calls.ends_turn,
            was_steered=self._take_steering(),
            was_cut=is_cut and not blocks,
        )

    def _take_steering(self) -> bool:
        """Log what was steered; a message whose turn fails here waits for the next one."""
        waiting = self._agent.inbox.steering
        is_any = bool(waiting)
        while waiting:
            message = waiting[0]
            self._session.append(
                SteeringMessage(self.number, message.content, message.source, message.id)
            )
            waiting.popleft()
            self._held.add(message.id)
            self._agent.hooks.emit(
                hookspecs.agent_steering,
                agent=self._agent,
                turn=self.number,
                content=message.content,
                source=message.source,
            )
        return is_any

    # ------------------------------------------------------------------------ endings

    async def _end(self, outcome: Outcome) -> None:
        """Close step and turn and tell everyone. Nothing here is part of what an abort cancels."""
        self._is_ending = True
        reason = self._reason(outcome)
        try:
            if self._session.open_step is not None:
                await self._end_step()
        finally:
            self._close(reason)
        await self._agent.hooks.notify(
            hookspecs.agent_turn_end, agent=self._agent, turn=self.number, reason=reason
        )

    def _reason(self, outcome: Outcome) -> TurnEndReason:
        """Return why the turn ends. An abort counts for more than what it made others raise."""
        if self.abort_reason is not None:
            if not isinstance(outcome, (TurnEndReason, asyncio.CancelledError)):
                self._agent.report_error(outcome)
            return self.abort_reason
        if isinstance(outcome, TurnEndReason):
            return outcome
        return self._failed(outcome)

    def _failed(self, error: BaseException) -> TurnEndReason:
        """Log the one `error` event of the turn and tell everyone."""
        code, plugin, text = "UNKNOWN", None, error_chain(error)
        if isinstance(error, LlmFailure):
            code, text = error.code, error.message
        elif isinstance(error, PluginError):
            code, plugin, text = "PLUGIN", error.plugin, error_text(error)
        elif isinstance(error, UserError):
            code, text = "CONFIG", error_text(error)
        reason = Errored(clean_text(text), clean_text(code))
        event = ErrorEvent(self.number, self.step, reason.message, reason.code, plugin)
        try:
            self._session.append_owed(event)
        except HarnessError as refusal:  # somebody else closed the turn
            self._agent.report_error(refusal)
        self._agent.report_error(error)
        return reason

    async def _end_step(self) -> None:
        if self.abort_reason is not None and self._reply is not None:
            await self._quietly(self._reply.keep_interrupted(), self._agent.grace_seconds)
        self._session.close_step()
        await self._quietly(
            self._agent.hooks.notify(
                hookspecs.agent_step_end, agent=self._agent, turn=self.number, step=self.step
            ),
            STEP_END_SECONDS,
        )

    async def _quietly(self, awaitable: Awaitable[None], seconds: float) -> None:
        """Await for a limited time; a failure is reported, since the turn is over anyway."""
        try:
            await within(seconds, awaitable)
        except Exception as error:  # noqa: BLE001 - only reported
            self._agent.report_error(error)

    def _close(self, reason: TurnEndReason) -> None:
        """Close the log. A refusing plugin cannot keep it open."""
        self._is_ending = self.is_closed = True
        self._session.close_turn(self.number, reason)
        self.ended.set()
