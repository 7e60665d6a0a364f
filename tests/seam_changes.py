"""How a plugin changes the outcome through each hook that can change one, and where one sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from seam_actors import MODES, Actor, implementing
from seam_stage import Stage

from dsh_core import (
    AdapterFactory,
    Agent,
    Approval,
    Assembly,
    Chunk,
    Effect,
    Event,
    Executor,
    LocalExecutor,
    Message,
    Request,
    Retry,
    Section,
    SlashCommand,
    Store,
    Text,
    TextDelta,
    Tool,
    ToolOutput,
    UserError,
    Verdict,
    hookimpl,
    text_of,
    tool,
)
from dsh_core.events import (
    ApprovalDecided,
    AssistantChunk,
    AssistantMessage,
    ContextMessage,
    LimitReached,
    LlmRetry,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
)
from dsh_core.marks import OnError
from dsh_core.messages import PluginSource

MARK = "seam"
MARKED = Text(MARK)
NOTE = ContextMessage((MARKED,), PluginSource("it"))
REMARK = TextDelta(77, MARK)
DELAY_SECONDS = 1 / 1024
TOKENS = 4242


def changes_something(hook: str) -> bool:
    """Whether a hook is there to change the outcome; the others only tell."""
    mode = MODES[hook]
    return mode.kind in ("waterfall", "collect") or mode.on_error in (
        OnError.REFUSE,
        OnError.END_TURN,
    )


class Change(Actor):
    """A plugin that changes the outcome through one hook; its docstring says how."""

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        """Look at the world: the log, the requests, the registries."""
        raise NotImplementedError


# ------------------------------------------------------------------------------- start-up


@tool
def seam() -> str:
    """Sew."""
    return MARK


class ToolsRegister(Change):
    """Gives a tool; the model is shown it."""

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return [seam] if self.is_on else []

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return MARK in {tool.name for tool in stage.eye.requests[-1].tools}


class LlmRegister(Change):
    """Offers an adapter; its name is taken."""

    @hookimpl
    def llm_register(self) -> list[AdapterFactory]:
        return [AdapterFactory(MARK, _cannot_open)]

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        with pytest.raises(UserError, match="exists already"):
            stage.harness.llm.register(AdapterFactory(MARK, _cannot_open), owner="tests")
        return True


def _cannot_open(provider: object) -> Any:
    raise NotImplementedError


class CommandsRegister(Change):
    """Offers a slash command; it is listed."""

    @hookimpl
    def commands_register(self) -> list[SlashCommand]:
        return [SlashCommand(MARK, "Sew.", _cannot_open)]

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return MARK in {one.name for one in stage.harness.commands.list(stage.eye.agents[-1])}


class Wrapped:
    """Does what another object does."""

    def __init__(self, inner: object):
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class SessionStore(Change):
    """Wraps whatever store there is; the harness has the wrapper."""

    @hookimpl
    async def session_store(self, *, call_next: Callable[[], Awaitable[Store | None]]) -> Any:
        return Wrapped(await call_next())

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return isinstance(stage.harness.store, Wrapped)


# ------------------------------------------------- notifications that may end what they tell


def _note(actor: Actor, hook: str, values: Mapping[str, Any]) -> None:
    values["agent"].session.record(NOTE)


def _has_note(stage: Stage) -> bool:
    return NOTE in stage.logged(ContextMessage)


def noting(hook: str) -> type[Change]:
    """Make a plugin that records a message; it is in the log."""
    members = {hook: implementing(hook, _note), "is_seen": staticmethod(_has_note)}
    return type("Noting", (Change,), {"__doc__": "Records a message; it is in the log.", **members})


class SessionValidate(Change):
    """Refuses the first event that is no boundary; it is not in the log."""

    refused: Any = None

    @hookimpl
    def session_validate(self, event: Event) -> None:
        is_boundary = isinstance(event.data, (TurnStart, TurnEnd, StepStart, StepEnd))
        if self.is_on and self.refused is None and not is_boundary:
            self.refused = self.stage.refused = event.data
            raise ValueError(MARK)

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return stage.refused is not None and stage.refused not in [e.data for e in stage.log]


# ------------------------------------------------------------------------ prompt and model


class SystemPromptSections(Change):
    """Gives a section; it is in the system text."""

    @hookimpl
    async def system_prompt_sections(self) -> list[Section] | None:
        return [Section(MARK, MARK)] if self.is_on else None

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return any(MARK in request.system for request in stage.eye.requests)


class SystemPromptAssemble(Change):
    """Adds a section to the assembly; it is in the system text."""

    @hookimpl
    async def system_prompt_assemble(self, assembly: Assembly) -> None:
        if self.is_on:
            assembly.sections = (*assembly.sections, Section(MARK, MARK))

    is_seen = SystemPromptSections.is_seen


class AgentRequest(Change):
    """Sets a parameter of the request; the model gets it."""

    @hookimpl
    async def agent_request(self, request: Request) -> None:
        if self.is_on:
            request.parameters = {**request.parameters, "temperature": 0.5}

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return any(request.parameters.get("temperature") == 0.5 for request in stage.eye.requests)


class LlmStream(Change):
    """Says something before the model does; it is in the log, or in what the caller gets."""

    @hookimpl
    async def llm_stream(
        self, *, call_next: Callable[[], Awaitable[AsyncIterator[Chunk]]]
    ) -> AsyncIterator[Chunk]:
        if self.is_on:
            yield REMARK
        async for chunk in await call_next():
            yield chunk

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return REMARK in [*stage.chunks, *(event.chunk for event in stage.logged(AssistantChunk))]


class AgentRequestError(Change):
    """Tries once more after a delay of its own; the retry is in the log."""

    @hookimpl
    async def agent_request_error(self, attempt: int) -> Retry | None:
        return Retry(DELAY_SECONDS) if self.is_on and attempt == 1 else None

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return stage.logged(LlmRetry)[0].delay_seconds == DELAY_SECONDS


class AgentStepResult(Change):
    """Adds a block to the reply, also to one that was cut off; it is in the log."""

    @hookimpl
    async def agent_step_result(self, message: Message) -> Message | None:
        return replace(message, content=(*message.content, MARKED)) if self.is_on else None

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return any(MARKED in reply.content for reply in stage.logged(AssistantMessage))


class TokensMeasure(Change):
    """Measures; whoever asked gets the number."""

    @hookimpl
    async def tokens_measure(self) -> int:
        return TOKENS

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return stage.tokens == TOKENS


# ---------------------------------------------------------------------------------- tools


class ToolEffects(Change):
    """Says what the call does; whoever sees the call sees it."""

    @hookimpl
    async def tool_effects(self) -> list[Effect]:
        return [Effect("other", MARK)]

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return [Effect("other", MARK) in call.effects for call in stage.eye.judged] == [True]


class ToolsAuthorize(Change):
    """Denies the call; the model reads why, and the tool does not run."""

    @hookimpl
    async def tools_authorize(self) -> Verdict | None:
        return Verdict("deny", MARK) if self.is_on else None

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return (
            {call.verdict for call in stage.logged(ToolCallEvent)} == {"deny"}
            and "denied: seam" in results_of(stage)
            and stage.executors == []
        )


def results_of(stage: Stage) -> str:
    """What the model reads of its calls."""
    return " ".join(text_of(result.content) for result in stage.logged(ToolResultEvent))


class ApprovalRequest(Change):
    """Says no where another says yes; the tool does not run."""

    @hookimpl
    async def approval_request(self) -> Approval:
        return Approval(False, MARK)

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        (decided,) = stage.logged(ApprovalDecided)
        return (decided.allowed, decided.message, stage.executors) == (False, MARK, [])


class ToolsExecute(Change):
    """Answers in place of the tool; the model reads that."""

    @hookimpl
    async def tools_execute(self) -> ToolOutput:
        return ToolOutput.of(MARK)

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return results_of(stage) == MARK


class NamedExecutor(LocalExecutor):
    name = MARK


class ShellExecutor(Change):
    """Gives an executor; the command runs with it."""

    @hookimpl
    async def shell_executor(
        self, agent: Agent, *, call_next: Callable[[], Awaitable[Executor]]
    ) -> Executor:
        assert (await call_next()).name == "local"
        return NamedExecutor()

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return stage.executors == [MARK]


class AgentTurnContinuation(Change):
    """Ends the turn with a reason of its own; it is in the log."""

    @hookimpl
    async def agent_turn_continuation(self) -> LimitReached | None:
        return LimitReached(MARK, "a plugin says so") if self.is_on else None

    @staticmethod
    def is_seen(stage: Stage) -> bool:
        return stage.logged(TurnEnd)[-1].reason == LimitReached(MARK, "a plugin says so")


NOTED = (
    "agent_created",
    "agent_turn_start",
    "agent_steering",
    "agent_step_start",
    "agent_stream_chunk",
    "agent_step_end",
)


def _hook_of(change: type[Change]) -> str:
    (hook,) = vars(change).keys() & MODES.keys()
    return hook


CHANGES: dict[str, type[Change]] = {
    **{_hook_of(change): change for change in Change.__subclasses__()},
    **{hook: noting(hook) for hook in NOTED},
}
