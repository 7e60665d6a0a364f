"""A summary by the model, asked for at the end of the very conversation it is about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dsh_compaction.errors import CompactionError, TooLargeError
from dsh_compaction.events import CompactionProgress, CompactionRequest
from dsh_compaction.settings import NAME, Settings
from dsh_compaction.span import Span
from dsh_core import (
    Agent,
    BlockAssembler,
    Finish,
    HarnessError,
    LlmFailure,
    Message,
    PluginSource,
    Request,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    text_of,
)
from dsh_core.events import UsageEvent

INSTRUCTION = """\
Room is running out: the conversation up to here, except for the user's first request, is about to
be replaced by a summary that you write now. Whoever continues will see only that summary and what
comes after it. Write what they need in order to go on as if nothing had been cut.

Do not call tools and do not continue the work. Answer with the summary alone, in these sections;
write "(none)" under one that has nothing to say:

## Request
What the user wants, with every constraint and later correction, in the user's own words where
wording matters.
## State
What is done, what is under way, and what is left to do, in order.
## Files and code
Paths that were read, changed or made, with what matters about each; signatures and short excerpts
that will be needed again.
## Findings
Facts, decisions and their reasons; commands that work; errors with their causes and fixes.
## Next step
The one thing to do next.

Be brief: notes, not prose. Quote names, paths, numbers, commands and error messages exactly. Take
over what an earlier summary says and still holds. Write nothing about summarising."""

FOCUS = "\n\nThe user asks to keep above all: {focus}"
AGAIN = "\n\nAn answer to this was not usable: {problem}."

TRANSIENT = ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT")
MAX_WAIT_SECONDS = 20.0
PROGRESS_SECONDS = 3.0


@dataclass(slots=True)
class Spent:
    """What the requests of a compaction cost."""

    usage: Usage | None = None

    def add(self, usage: Usage | None) -> None:
        """Count one more request."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


@dataclass(slots=True)
class Summariser:
    """Asks until a summary can be used, a few times at most.

    Raises `CompactionError` when none came, `TooLargeError` when the request did not fit.
    """

    agent: Agent
    settings: Settings
    spent: Spent = field(default_factory=Spent)

    async def write(self, span: Span) -> str:
        """Return the summary of a span."""
        problem, delay = "", 0.0
        for attempt in range(1, self.settings.attempts + 1):
            await asyncio.sleep(delay)
            try:
                text = await self._attempt(span, attempt, problem)
                problem = await self._too_long(span, text)
                if not problem:
                    return text
            except LlmFailure as failure:
                if failure.code == "CONTEXT_WINDOW_EXCEEDED":
                    raise TooLargeError("the provider refuses the request") from failure
                if failure.code not in TRANSIENT:
                    raise CompactionError(f"{failure.code}: {failure.message}") from failure
                problem, delay = f"{failure.code}: {failure.message}", _wait(failure, attempt)
            except UnusableError as error:
                problem = str(error)
        raise CompactionError(f"no usable summary: {problem}")

    async def _attempt(self, span: Span, attempt: int, problem: str) -> str:
        request = await self._request(span, problem)
        self.agent.session.append(_asked(attempt, request, span.prefix))
        finish, assembler = await self._stream(request)
        if finish.failure is not None:
            raise finish.failure
        blocks = assembler.blocks()
        if finish.reason == "tool-calls" or any(isinstance(b, ToolCall) for b in blocks):
            raise UnusableError("it called tools instead of answering")
        if finish.reason != "stop":
            raise UnusableError(f"it is not complete: {finish.reason}")
        text = text_of(blocks).strip()
        if not text:
            raise UnusableError("it is empty")
        return text

    async def _request(self, span: Span, problem: str) -> Request:
        """Build the request of a step on the span's prefix, with the instruction at its end."""
        session, prompt = self.agent.session, self.agent.harness.prompt
        request = await prompt.request(
            self.agent,
            await prompt.assemble(self.agent),
            span.prefix,
            turn=session.open_turn or 0,
            step=session.open_step or 0,
        )
        text = INSTRUCTION
        text += FOCUS.format(focus=span.focus) if span.focus else ""
        text += AGAIN.format(problem=problem) if problem else ""
        question = Message("user", (Text(text),), PluginSource(NAME, "instruction"))
        request.messages = (*request.messages, question)
        request.model = self.settings.model or request.model
        request.parameters = {**request.parameters, **self.settings.parameters}
        return request

    async def _stream(self, request: Request) -> tuple[Finish, BlockAssembler]:
        agent, assembler = self.agent, BlockAssembler()
        characters, shown_at = 0, time.monotonic()
        try:
            async with agent.harness.llm.stream(agent, request) as chunks:
                async for chunk in chunks:
                    assembler.feed(chunk)
                    if isinstance(chunk, TextDelta):
                        characters += len(chunk.text)
                        if time.monotonic() - shown_at > PROGRESS_SECONDS:
                            shown_at = time.monotonic()
                            agent.session.append(CompactionProgress(characters))
        finally:
            self._log_usage(request.model, assembler.usage)
        return assembler.finish or Finish("stop"), assembler

    def _log_usage(self, model: str, usage: Usage | None) -> None:
        """Count what it cost; inside a step as the step's, so that budgets know of it."""
        self.spent.add(usage)
        session = self.agent.session
        turn, step = session.open_turn, session.open_step
        if usage is not None and turn is not None and step is not None:
            session.append_owed(UsageEvent(turn, step, usage, model))

    async def _too_long(self, span: Span, text: str) -> str:
        message = Message("user", (Text(text),))
        tokens = await self.agent.harness.llm.measure(self.agent, (message,))
        if tokens < span.tokens:
            return ""
        return f"it takes {tokens:,} tokens, what it replaces {span.tokens:,}"


class UnusableError(HarnessError):
    """A reply that is no summary."""


def _asked(attempt: int, request: Request, prefix: tuple[Message, ...]) -> CompactionRequest:
    """Return what the log says of a request: how it differs from the history it is about."""
    *sent, question = request.messages
    head = _shared(sent, prefix)
    tail = _shared(sent[head:][::-1], prefix[head:][::-1])
    changed = tuple(sent[head : len(sent) - tail])
    return CompactionRequest(attempt, request.model, len(prefix), question, head, tail, changed)


def _shared(sent: Sequence[Message], history: Sequence[Message]) -> int:
    """Return how many messages two lists have in common, from the first on."""
    pairs = enumerate(zip(sent, history, strict=False))
    shortest = min(len(sent), len(history))
    return next((index for index, (one, other) in pairs if one is not other), shortest)


def _wait(failure: LlmFailure, attempt: int) -> float:
    wished = failure.retry_after_seconds
    return min(max(wished if wished is not None else float(attempt), 0.0), MAX_WAIT_SECONDS)
