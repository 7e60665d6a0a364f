"""One turn of an agent, from its messages to `turn/end`: the algorithm, readable in one sitting.

::

    TURN  turn/start → user/message…
      STEP  steering → step/start → prompt → agent_request → stream → agent_step_result
            → assistant/message → tool calls → steering → step/end → agent_turn_continuation
    turn/end → agent_turn_end

Whatever raises ends the turn, never the loop, and the log stays balanced.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.chunks import BlockAssembler, Finish
from dsh_core.content import ToolCall
from dsh_core.errors import HarnessError, LlmFailure, PluginError, UserError, error_chain
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
    UsageEvent,
    UserMessage,
)
from dsh_core.hooks.blame import cancel_requested
from dsh_core.loop.calls import StepCalls
from dsh_core.loop.inbox import Queued
from dsh_core.messages import Message
from dsh_core.request import Request, Retry

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.loop.agent import LoopAgent

MAX_TRUNCATED_STEPS = 2
"""How often in a row a reply may be cut in the middle of a tool call before the turn ends."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step came to: whether the model is owed another one, and a reason to stop."""

    ran_tools: bool
    ends_turn: bool = False
    was_steered: bool = False
    cut: bool = False


class Turn:
    """One turn. `run` never raises, except on Ctrl-C."""

    def __init__(self, agent: LoopAgent, messages: list[Queued]):
        self._agent = agent
        self._session = agent.session
        self._messages = messages
        self.number = agent.session.last_turn + 1
        self.step = 0
        self.is_open = False
        self.is_closed = False
        self.abort_reason: TurnEndReason | None = None
        self._was_cut = False
        self._truncated_steps = 0

    async def run(self) -> None:
        """Take the turn through its steps and close it, whatever happens."""
        try:
            self._session.append(TurnStart(self.number, MessageTrigger(self._messages[0].source)))
        except HarnessError as error:
            self.is_closed = True
            self._agent.inbox.park(self._messages)
            self._agent.report_error(error)
            return
        self.is_open = True
        reason = await self._contained()
        self._close(reason)
        await self._agent.hooks.notify(
            hookspecs.agent_turn_end, agent=self._agent, turn=self.number, reason=reason
        )

    async def _contained(self) -> TurnEndReason:
        try:
            await self._begin()
            return await self._steps()
        except asyncio.CancelledError as error:
            if self.abort_reason is None and not cancel_requested():
                return self._failed(error)  # nobody cancelled: a part of the turn raised it
            if self.abort_reason is None:
                self._close(Aborted("cancelled"))
                raise
            _forget_cancellation()
            return self.abort_reason
        except (KeyboardInterrupt, GeneratorExit):
            self._close(Aborted("interrupted"))
            raise
        except BaseException as error:  # noqa: BLE001 - a throwing plugin ends the turn, not the loop
            return self._failed(error)

    async def _begin(self) -> None:
        for message in self._messages:
            self._session.append(UserMessage(message.content, message.source, message.id))
        if self.abort_reason is not None:
            raise asyncio.CancelledError
        await self._agent.ready()
        await self._agent.hooks.notify(
            hookspecs.agent_turn_start, agent=self._agent, turn=self.number
        )

    async def _steps(self) -> TurnEndReason:
        while True:
            self.step += 1
            outcome = await self._one_step()
            self._was_cut = self._was_cut or outcome.cut
            reason = await self._next(outcome)
            if reason is not None:
                return reason

    async def _next(self, outcome: StepOutcome) -> TurnEndReason | None:
        """Ask whether the turn takes another step; None = it does."""
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
            return decision
        if decision or outcome.was_steered or self._agent.inbox.steering:
            return None
        return MaxTokens() if self._was_cut else Completed()

    async def _one_step(self) -> StepOutcome:
        turn, step, hooks = self.number, self.step, self._agent.hooks
        self._take_steering()
        self._session.append(StepStart(turn, step))
        await hooks.notify(hookspecs.agent_step_start, agent=self._agent, turn=turn, step=step)
        reply = await self._ask_model()
        outcome = await self._run_calls(reply)
        self._session.append(StepEnd(turn, step))
        await hooks.notify(hookspecs.agent_step_end, agent=self._agent, turn=turn, step=step)
        return outcome

    async def _run_calls(self, reply: AssistantMessage) -> StepOutcome:
        blocks = [block for block in reply.content if isinstance(block, ToolCall)]
        is_cut = reply.finish == "max-tokens"
        calls = StepCalls(self._agent, self.number, self.step, blocks)
        if is_cut and blocks:
            self._truncated_steps += 1
            calls.refuse(
                "TRUNCATED",
                "the reply was cut at the output limit, so this call did not run; "
                "ask for less at once",
            )
        else:
            self._truncated_steps = 0
            await calls.run()
        was_steered = self._take_steering()
        return StepOutcome(bool(blocks), calls.ends_turn, was_steered, cut=is_cut and not blocks)

    def _take_steering(self) -> bool:
        taken = self._agent.inbox.drain_steering()
        for message in taken:
            self._session.append(
                SteeringMessage(self.number, message.content, message.source, message.id)
            )
            self._agent.hooks.emit(
                hookspecs.agent_steering,
                agent=self._agent,
                turn=self.number,
                content=message.content,
                source=message.source,
            )
        return bool(taken)

    # ------------------------------------------------------------------------- model

    async def _ask_model(self) -> AssistantMessage:
        """Ask until a reply came, as often as `agent_request_error` says; log the reply."""
        attempt = 1
        while True:
            request = await self._agent.requests.build(self.number, self.step)
            assembler, finish = await self._stream(request)
            failure = self._failure_of(finish, assembler)
            if failure is None:
                return await self._log_reply(request, assembler, finish)
            retry = await self._ask_for_retry(request, failure, attempt)
            if retry is None:
                raise failure
            self._agent.report_error(failure)
            await asyncio.sleep(max(0.0, retry.delay_seconds))
            attempt += 1

    async def _stream(self, request: Request) -> tuple[BlockAssembler, Finish]:
        """Stream one attempt into the log; on abort, keep what may be kept."""
        agent, session, hooks = self._agent, self._session, self._agent.hooks
        turn, step = self.number, self.step
        assembler = BlockAssembler()
        feed, append = assembler.feed, session.append_chunk
        try:
            async with agent.harness.llm.stream(agent, request) as chunks:
                async for chunk in chunks:
                    append(turn, step, chunk)
                    if hooks.has(hookspecs.agent_stream_chunk):
                        hooks.emit(
                            hookspecs.agent_stream_chunk,
                            agent=agent,
                            turn=turn,
                            step=step,
                            chunk=chunk,
                        )
                    feed(chunk)
                    if type(chunk) is Finish:
                        break
        except asyncio.CancelledError:
            self._keep_interrupted(request, assembler)
            raise
        return assembler, assembler.finish or Finish("stop")

    def _keep_interrupted(self, request: Request, assembler: BlockAssembler) -> None:
        kept = assembler.interrupted_blocks()
        if kept:
            self._session.append(
                AssistantMessage(
                    self.number, self.step, kept, request.model, "aborted", interrupted=True
                )
            )

    def _failure_of(self, finish: Finish, assembler: BlockAssembler) -> LlmFailure | None:
        if finish.reason == "error":
            return finish.failure or LlmFailure("UNKNOWN", "the model failed without a reason")
        if finish.reason == "aborted":
            return finish.failure or LlmFailure("ABORTED", "the provider aborted the reply")
        if finish.reason != "max-tokens" and not assembler.blocks():
            return LlmFailure("EMPTY_RESPONSE", "the model sent an empty reply")
        return None

    async def _ask_for_retry(
        self, request: Request, failure: LlmFailure, attempt: int
    ) -> Retry | None:
        async def no_retry(
            agent: Agent,
            turn: int,
            step: int,
            request: Request,
            failure: LlmFailure,
            attempt: int,
        ) -> Retry | None:
            return None

        return await self._agent.hooks.waterfall(
            hookspecs.agent_request_error,
            no_retry,
            agent=self._agent,
            turn=self.number,
            step=self.step,
            request=request,
            failure=failure,
            attempt=attempt,
        )

    async def _log_reply(
        self, request: Request, assembler: BlockAssembler, finish: Finish
    ) -> AssistantMessage:
        turn, step = self.number, self.step

        async def as_assembled(agent: Agent, turn: int, step: int, message: Message) -> Message:
            return message

        message = await self._agent.hooks.waterfall(
            hookspecs.agent_step_result,
            as_assembled,
            agent=self._agent,
            turn=turn,
            step=step,
            message=Message("assistant", assembler.blocks(), model=request.model),
        )
        reply = AssistantMessage(turn, step, message.content, message.model, finish.reason)
        self._session.append(reply)
        if assembler.usage is not None:
            self._session.append(UsageEvent(turn, step, assembler.usage, request.model))
        return reply

    # ------------------------------------------------------------------------ endings

    def _failed(self, error: BaseException) -> TurnEndReason:
        """Log the one `error` event of the turn and tell everyone."""
        code, plugin = "UNKNOWN", None
        if isinstance(error, LlmFailure):
            code, text = error.code, error.message
        elif isinstance(error, PluginError):
            code, plugin, text = "PLUGIN", error.plugin, str(error)
        elif isinstance(error, UserError):
            code, text = "CONFIG", str(error)
        else:
            text = error_chain(error)
        self._safely_append(ErrorEvent(self.number, self.step, text, code, plugin))
        self._agent.report_error(error)
        return Errored(text, code)

    def _close(self, reason: TurnEndReason) -> None:
        """Close step and turn. Idempotent; a refusing plugin cannot keep them open."""
        if not self.is_open:
            return
        self.is_open = False
        self.is_closed = True
        if self._session.open_step is not None:
            self._session.append(StepEnd(self.number, self.step))
        self._session.append(TurnEnd(self.number, reason))

    def belongs_to(self, agent: object) -> bool:
        """Whether this is a turn of `agent`."""
        return self._agent is agent

    def abort(self, reason: TurnEndReason, task: asyncio.Task[None]) -> None:
        """End the turn with a reason; the first one counts, and none after the end."""
        if self.abort_reason is not None or self.is_closed:
            return
        self.abort_reason = reason
        if self.is_open:
            task.cancel()

    def _safely_append(self, event: ErrorEvent) -> None:
        try:
            self._session.append(event)
        except HarnessError as error:
            self._agent.report_error(error)


def _forget_cancellation() -> None:
    """The abort is dealt with: what the turn still awaits is not cancelled."""
    task = asyncio.current_task()
    while task is not None and task.cancelling() > 0:
        task.uncancel()
