"""The model's part of a step: attempts, the stream into the log, retries, and the reply."""

from __future__ import annotations

import asyncio
import math
from dataclasses import field
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.chunks import BlockAssembler, Finish
from dsh_core.codec import clean_text
from dsh_core.content import Block, Reasoning, Text
from dsh_core.errors import HarnessError, LlmFailure, PluginError
from dsh_core.events import AssistantMessage, LlmRetry, UsageEvent
from dsh_core.messages import Message
from dsh_core.record import record
from dsh_core.request import Request, Retry

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.loop.agent import LoopAgent
    from dsh_core.loop.turn import Turn


@record(frozen=False)
class _Attempt:
    """One request and what has come of it so far."""

    request: Request
    assembler: BlockAssembler = field(default_factory=BlockAssembler)


class Reply:
    """Asks the model in one step until a reply came. A failed attempt never becomes a message."""

    def __init__(self, agent: LoopAgent, turn: Turn):
        self._agent = agent
        self._turn = turn
        self._attempt: _Attempt | None = None

    @property
    def model(self) -> str | None:
        """The route of the request that is under way."""
        return self._attempt.request.model if self._attempt is not None else None

    async def ask(self) -> AssistantMessage:
        """Return the logged reply.

        Ask as often as `agent_request_error` says. Raises the failure that nobody wants to retry.
        """
        number = 1
        while True:
            self._turn.heed_abort()
            request = await self._agent.requests.build(self._turn.number, self._turn.step)
            attempt = self._attempt = _Attempt(request)
            finish = await self._stream(attempt)
            blocks, failure = _outcome(finish, attempt.assembler)
            if failure is None:
                return await self._log(attempt, blocks, finish)
            self._attempt = None
            self._log_usage(attempt)
            try:
                retry = await self._ask_for_retry(request, failure, number)
            except BaseException:
                self._agent.report_error(failure)  # what is raised here would hide it
                raise
            if retry is None:
                raise failure
            self._log_retry(failure, retry, number)
            self._agent.report_error(failure)
            await asyncio.sleep(retry.delay_seconds)
            number += 1

    async def keep_interrupted(self) -> None:
        """Log text and reasoning of a reply that an abort cut off; plugins review it first."""
        attempt = self._attempt
        kept = attempt.assembler.interrupted_blocks() if attempt is not None else ()
        if attempt is None or not kept:
            return
        self._attempt = None
        message = await self._review(Message("assistant", kept, model=attempt.request.model))
        content = tuple(b for b in message.content if isinstance(b, (Text, Reasoning)))
        self._append(content, message.model, "aborted", interrupted=True)
        self._log_usage(attempt)

    async def _stream(self, attempt: _Attempt) -> Finish:
        """Stream one attempt into the log."""
        agent, turn, hooks = self._agent, self._turn, self._agent.hooks
        number, step = turn.number, turn.step
        feed, append = attempt.assembler.feed, agent.session.append_chunk
        seen = hookspecs.agent_stream_chunk
        name = seen.__name__
        is_first = True
        async with agent.harness.llm.stream(agent, attempt.request) as chunks:
            async for chunk in chunks:
                if turn.abort_reason is not None:
                    turn.heed_abort()
                if is_first:
                    agent.requests.answered(number, step)
                    is_first = False
                logged = append(number, step, chunk)
                feed(chunk)
                if name in hooks.implemented:
                    hooks.emit(seen, agent=agent, turn=number, step=step, chunk=logged)
                if type(chunk) is Finish:
                    return chunk
        return Finish("stop")

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

        retry = await self._agent.hooks.waterfall(
            hookspecs.agent_request_error,
            no_retry,
            agent=self._agent,
            turn=self._turn.number,
            step=self._turn.step,
            request=request,
            failure=failure,
            attempt=attempt,
        )
        if retry is not None and not 0 <= retry.delay_seconds < math.inf:
            hook = hookspecs.agent_request_error.__name__
            raise PluginError("?", hook, f"a delay of {retry.delay_seconds!r} seconds is none")
        return retry

    async def _log(
        self, attempt: _Attempt, blocks: tuple[Block, ...], finish: Finish
    ) -> AssistantMessage:
        message = await self._review(Message("assistant", blocks, model=attempt.request.model))
        reply = self._append(message.content, message.model, finish.reason)
        self._attempt = None
        self._log_usage(attempt)
        return reply

    async def _review(self, message: Message) -> Message:
        async def as_assembled(agent: Agent, turn: int, step: int, message: Message) -> Message:
            return message

        return await self._agent.hooks.waterfall(
            hookspecs.agent_step_result,
            as_assembled,
            agent=self._agent,
            turn=self._turn.number,
            step=self._turn.step,
            message=message,
        )

    def _append(
        self,
        content: tuple[Block, ...],
        model: str | None,
        finish: str,
        *,
        interrupted: bool = False,
    ) -> AssistantMessage:
        turn, step = self._turn.number, self._turn.step
        message = AssistantMessage(turn, step, content, model, finish, interrupted)
        logged = self._agent.session.append(message).data
        assert isinstance(logged, AssistantMessage)
        return logged

    def _log_retry(self, failure: LlmFailure, retry: Retry, attempt: int) -> None:
        self._agent.session.append(
            LlmRetry(
                self._turn.number,
                self._turn.step,
                attempt,
                retry.delay_seconds,
                clean_text(failure.code),
                clean_text(failure.message),
            )
        )

    def _log_usage(self, attempt: _Attempt) -> None:
        """Log what an attempt cost, also where it failed. The reply stands if that is refused."""
        usage = attempt.assembler.usage
        if usage is None:
            return
        turn, step = self._turn.number, self._turn.step
        try:
            self._agent.session.append(UsageEvent(turn, step, usage, attempt.request.model))
        except HarnessError as error:
            self._agent.report_error(error)


def _outcome(
    finish: Finish, assembler: BlockAssembler
) -> tuple[tuple[Block, ...], LlmFailure | None]:
    """Return the blocks of a reply, or why it is none."""
    if finish.reason in ("error", "aborted"):
        code = "UNKNOWN" if finish.reason == "error" else "ABORTED"
        return (), finish.failure or LlmFailure(code, "the model failed without a reason")
    try:
        blocks = assembler.blocks()
    except ValueError as error:
        return (), LlmFailure("MALFORMED_RESPONSE", str(error))
    if not blocks and finish.reason != "max-tokens":
        return (), LlmFailure("EMPTY_RESPONSE", "the model sent an empty reply")
    return blocks, None
