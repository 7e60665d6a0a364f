"""Every hook of the core, in the order in which a program run meets them.

A plugin implements a hook by defining a function of the same name, marked `@hookimpl`, that takes
any of the arguments below by name. `dsh_core.marks` explains the four modes. Waterfalls may also
take the keyword-only parameter `call_next` and so wrap everything that comes after them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from dsh_core.chunks import Chunk
from dsh_core.content import Block
from dsh_core.errors import LlmFailure
from dsh_core.events import Event, TurnEndReason
from dsh_core.marks import OnError, collect, emit, parallel, waterfall
from dsh_core.messages import Message, Source
from dsh_core.outcome import ToolOutput
from dsh_core.policy import Approval, ApprovalRequest, Call, Effect, Verdict
from dsh_core.request import Assembly, Request, Retry, Section

if TYPE_CHECKING:
    from dsh_core.agents import Agent
    from dsh_core.cli.options import CliOptions
    from dsh_core.commands import SlashCommand
    from dsh_core.execution import Executor
    from dsh_core.harness import Harness
    from dsh_core.llm import AdapterFactory
    from dsh_core.session import Session, Store
    from dsh_core.tools import Tool

# ------------------------------------------------------------------------------- start-up


@emit(OnError.START)
def cli_register(cli: CliOptions) -> None:
    """Add options to `dsh run` and `dsh chat`.

    When: before the command line is parsed in full; core options are parsed already.
    Arguments: `cli.add_option("--plan", help=…)`, as argparse's `add_argument`.
    Return: nothing. Values stand in `harness.cli_options[NAME]` before `harness_start`.

    Example:
        @hookimpl
        def cli_register(cli):
            cli.add_option("--loud", action="store_true", help="Answer in capitals.")

    """


@collect(OnError.START)
def tools_register(harness: Harness) -> Sequence[Tool]:
    """Give tools to every agent.

    When: the plugin is registered, or an agent's override instance of it is built.
    Arguments: `harness`, not started yet.
    Return: a list of `Tool`; unregistering the plugin takes them away.

    Example:
        @hookimpl
        def tools_register(harness):
            return [word_count]

    """


@collect(OnError.START)
def llm_register(harness: Harness) -> Sequence[AdapterFactory]:
    """Offer model adapters, to be named by `providers.NAME.adapter`.

    When: the plugin is registered.
    Arguments: `harness`, not started yet.
    Return: a list of `AdapterFactory`.

    Example:
        @hookimpl
        def llm_register(harness):
            return [AdapterFactory("echo", open_echo)]

    """


@collect(OnError.START)
def commands_register(harness: Harness) -> Sequence[SlashCommand]:
    """Offer slash commands to people; they never reach the model.

    When: the plugin is registered.
    Arguments: `harness`, not started yet.
    Return: a list of `SlashCommand`.

    Example:
        @hookimpl
        def commands_register(harness):
            return [SlashCommand("hello", "Say hello.", say_hello)]

    """


@waterfall(OnError.START)
async def session_store(harness: Harness) -> Store | None:
    """Say where sessions are stored.

    When: once, before `harness_start`.
    Arguments: `harness`.
    Return: a `Store`, or None to pass; nobody answers = sessions live in memory only.

    Example:
        @hookimpl
        async def session_store(harness):
            return JsonlStore(harness.project_dir)

    """


@emit(OnError.START)
async def harness_start(harness: Harness) -> None:
    """Begin: open what the plugin needs.

    When: after all plugins are registered, before the first agent. An override instance gets it
        before its agent's first turn; a failure there ends that turn.
    Arguments: `harness`; `harness.cli_options` is filled.
    Return: nothing.

    Example:
        @hookimpl
        async def harness_start(self, harness):
            self.index = await open_index(harness.project_dir)

    """


# ------------------------------------------------------------------------------ lifecycle


@emit(OnError.REPORT)
def session_created(session: Session) -> None:
    """See a new, resumed or forked session before its first own event.

    When: the session is in `harness.sessions`; its seed events are in its log.
    Arguments: `session`.
    Return: nothing.

    Example:
        @hookimpl
        def session_created(session):
            log.info("session %s", session.id)

    """


@emit(OnError.REFUSE)
def agent_created(agent: Agent) -> None:
    """See an agent before it starts; raise to refuse it.

    When: the agent is registered, its loop not yet started. Raising rolls the creation back.
    Arguments: `agent`.
    Return: nothing.

    Example:
        @hookimpl
        def agent_created(agent):
            agent.stash[COUNTER] = 0

    """


@emit(OnError.REPORT)
def agent_disposed(agent: Agent) -> None:
    """See an agent go, after its loop ended and before its hooks are gone.

    When: once per agent.
    Arguments: `agent`, which takes no more input.
    Return: nothing.

    Example:
        @hookimpl
        def agent_disposed(agent):
            agent.stash[WATCHER].close()

    """


@emit(OnError.REPORT)
def agent_status(agent: Agent, status: str) -> None:
    """See the agent become `idle`, `running` or `disposed`.

    When: on change only.
    Arguments: `agent`; `status`, the new one.
    Return: nothing.

    Example:
        @hookimpl
        def agent_status(agent, status):
            set_title(f"{agent.name}: {status}")

    """


@emit(OnError.REPORT)
def agent_queued(agent: Agent, content: tuple[Block, ...], source: Source, steering: bool) -> None:
    """See a message enter the agent's inbox.

    When: `send` or `steer` accepted it, before it is logged.
    Arguments: `content`, blocks; `source`, resolved; `steering`, whether it joins a running turn.
    Return: nothing.

    Example:
        @hookimpl
        def agent_queued(agent, content, steering):
            show_queue(agent.id, text_of(content), steering)

    """


# ----------------------------------------------------------------------------------- turn


@emit(OnError.END_TURN)
async def agent_turn_start(agent: Agent, turn: int) -> None:
    """A turn began.

    When: `turn/start` and its messages are logged, before the first step. Not in one-shot turns.
    Arguments: `turn` counts from 1 in the session.
    Return: nothing.

    Example:
        @hookimpl
        async def agent_turn_start(agent, turn):
            await lock(agent.session.id)

    """


@emit(OnError.END_TURN)
def agent_steering(agent: Agent, turn: int, content: tuple[Block, ...], source: Source) -> None:
    """A steering message joined the running turn.

    When: it was logged as `steering/message`.
    Arguments: `content`, blocks; `source`.
    Return: nothing.

    Example:
        @hookimpl
        def agent_steering(agent, content):
            note(text_of(content))

    """


@emit(OnError.END_TURN)
async def agent_step_start(agent: Agent, turn: int, step: int) -> None:
    """A step began: one model call and its tools.

    When: `step/start` is logged, before the prompt is assembled.
    Arguments: `step` counts from 1 in the turn.
    Return: nothing.

    Example:
        @hookimpl
        async def agent_step_start(agent, step):
            agent.stash[TIMER] = time.monotonic()

    """


# --------------------------------------------------------------------------------- prompt


@collect(OnError.END_TURN)
async def system_prompt_sections(agent: Agent) -> Sequence[Section]:
    """Give named parts of the system text.

    When: each step. Return equal text each time: what changes breaks the provider's prompt cache.
    Arguments: `agent`.
    Return: a list of `Section`.

    Example:
        @hookimpl
        async def system_prompt_sections(agent):
            return [Section("style", "Answer briefly.", order=50)]

    """


@waterfall(OnError.END_TURN, returns=(Assembly,), replaceable=("assembly",), draft="assembly")
async def system_prompt_assemble(agent: Agent, assembly: Assembly) -> Assembly:
    """Edit system text and tool list as a whole.

    When: each step, after all sections were collected and sorted.
    Arguments: `assembly`, whose attributes may be reassigned.
    Return: None to pass, or an `Assembly` to decide.

    Example:
        @hookimpl
        async def system_prompt_assemble(agent, assembly):
            assembly.tools = tuple(t for t in assembly.tools if t.name != "bash")

    """


@emit(OnError.REPORT)
def system_prompt_change() -> None:
    """The registered sections changed.

    When: `harness.prompt` gained or lost a section at run time.
    Arguments: none.
    Return: nothing.

    Example:
        @hookimpl
        def system_prompt_change():
            refresh_preview()

    """


# ---------------------------------------------------------------------------------- model


@waterfall(OnError.END_TURN, returns=(Request,), replaceable=("request",), draft="request")
async def agent_request(agent: Agent, turn: int, step: int, request: Request) -> Request:
    """Change what is sent to the model: model, messages, system, tools, parameters.

    When: before each attempt, retries too; what comes out is logged, then sent.
    Arguments: `request`, whose attributes may be reassigned.
    Return: None to pass, or a `Request` to decide.

    Example:
        @hookimpl
        async def agent_request(agent, request):
            request.parameters = {**request.parameters, "temperature": 0}

    """


@waterfall(OnError.END_TURN, returns=(Chunk,), streams=True)
async def llm_stream(agent: Agent | None, request: Request) -> AsyncIterator[Chunk]:
    """Answer a request, or wrap the stream that answers it.

    When: for each model call, also outside a step (then `agent` is None).
    Arguments: `request`, frozen.
    Return: an async iterator of chunks; an async generator function wraps, and never passes; an
        `async def` may return None to pass.

    Example:
        @hookimpl
        async def llm_stream(agent, request, *, call_next):
            async for chunk in await call_next():
                yield chunk

    """


@emit(OnError.END_TURN)
def agent_stream_chunk(agent: Agent, turn: int, step: int, chunk: Chunk) -> None:
    """See each chunk as it arrives. The hot path: be quick.

    When: after the chunk is logged.
    Arguments: `chunk`, one of `dsh_core.chunks`.
    Return: nothing.

    Example:
        @hookimpl
        def agent_stream_chunk(agent, chunk):
            if isinstance(chunk, TextDelta):
                print(chunk.text, end="", flush=True)

    """


@waterfall(OnError.END_TURN, returns=(Retry, type(None)))
async def agent_request_error(
    agent: Agent, turn: int, step: int, request: Request, failure: LlmFailure, attempt: int
) -> Retry | None:
    """Decide whether a failed request is tried again.

    When: the stream ended in failure. The loop waits, rebuilds the request from the log and runs
        `agent_request` again in the same step.
    Arguments: `failure.code` to route by; `attempt` counts from 1.
    Return: `Retry(delay_seconds)`, or None to pass; nobody retries = the turn ends.

    Example:
        @hookimpl
        async def agent_request_error(failure, attempt):
            return Retry(2.0) if failure.code == "SERVER" and attempt < 3 else None

    """


@waterfall(OnError.END_TURN, returns=(Message,), replaceable=("message",))
async def agent_step_result(agent: Agent, turn: int, step: int, message: Message) -> Message:
    """Rewrite the model's reply before it is logged and its tools run.

    When: the reply is assembled; also for what an abort left of one, then for a short time only.
    Arguments: `message`, frozen; make another with `dataclasses.replace`.
    Return: None to pass, or the `Message` to use.

    Example:
        @hookimpl
        async def agent_step_result(message, *, call_next):
            return redact(await call_next())

    """


@waterfall(OnError.REPORT, returns=(int,))
async def tokens_measure(agent: Agent | None, messages: tuple[Message, ...]) -> int:
    """Estimate how many tokens messages take.

    When: somebody asks `harness.llm.measure`.
    Arguments: `messages`.
    Return: tokens, or None to pass; the core counts four characters as one.

    Example:
        @hookimpl
        async def tokens_measure(messages):
            return sum(len(encode(m.text)) for m in messages)

    """


@emit(OnError.REPORT)
def llm_adapter_change() -> None:
    """The set of adapters or providers changed.

    When: `harness.llm` gained or lost one.
    Arguments: none.
    Return: nothing.

    Example:
        @hookimpl
        def llm_adapter_change():
            refresh_model_menu()

    """


# ---------------------------------------------------------------------------------- tools


@collect(OnError.DENY, limit_seconds=30)
async def tool_effects(agent: Agent, call: Call) -> Sequence[Effect]:
    """Say what a call would do.

    When: before `tools_authorize`.
    Arguments: `call`, frozen; `call.arguments` are validated JSON.
    Return: effects, an empty list for "none", or None for "I do not know". Raising adds "may
        write".

    Example:
        @hookimpl
        async def tool_effects(call):
            if call.name == "fetch":
                return [Effect("network", call.arguments["url"])]

    """


@collect(OnError.DENY, limit_seconds=30)
async def tools_authorize(agent: Agent, call: Call) -> Verdict:
    """Judge a call. A denial cannot be undone; raising, or taking 30 s, denies.

    When: just before the call's group starts, in the model's order; for unknown tools too.
    Arguments: `call`, frozen, with `call.effects`.
    Return: a `Verdict`, or None for no opinion.

    Example:
        @hookimpl
        async def tools_authorize(call):
            if call.name == "bash":
                return Verdict("ask", "The agent wants to run a command.")

    """


@waterfall(OnError.DENY, returns=(Approval,))
async def approval_request(agent: Agent, request: ApprovalRequest) -> Approval:
    """Answer a question about a call, on behalf of a person.

    When: the strictest verdict is ask. Nobody answers, or the answer is junk = denied.
    Arguments: `request`, frozen.
    Return: an `Approval`, or None to pass to the next answerer.

    Example:
        @hookimpl
        async def approval_request(request):
            return Approval(await confirm(request.message))

    """


@waterfall(OnError.TOOL_ERROR, returns=(ToolOutput,))
async def tools_execute(agent: Agent, call: Call) -> ToolOutput:
    """Wrap the tool's body: time it, cache it, answer in its place.

    When: the call was allowed and logged.
    Arguments: `call`, frozen.
    Return: a `ToolOutput`, or None to pass.

    Example:
        @hookimpl
        async def tools_execute(call, *, call_next):
            async with asyncio.timeout(60):
                return await call_next()

    """


@emit(OnError.REPORT)
async def tools_result(agent: Agent, call: Call, result: ToolOutput) -> None:
    """See the result of a call, denials too.

    When: it was logged.
    Arguments: `result`, as the model sees it.
    Return: nothing.

    Example:
        @hookimpl
        async def tools_result(call, result):
            metrics.count(call.name, result.is_error)

    """


@emit(OnError.REPORT)
def tools_change() -> None:
    """The set of tools changed.

    When: `harness.tools` gained or lost one.
    Arguments: none.
    Return: nothing.

    Example:
        @hookimpl
        def tools_change():
            refresh_tool_list()

    """


@waterfall(OnError.TOOL_ERROR)
async def shell_executor(agent: Agent) -> Executor:
    """Say how commands run.

    When: a tool is about to start a command.
    Arguments: `agent`.
    Return: an `Executor`, or None to pass; the core starts plain local processes.

    Example:
        @hookimpl
        async def shell_executor(agent, *, call_next):
            return Sandbox(await call_next())

    """


# ------------------------------------------------------------------------- ends and errors


@emit(OnError.END_TURN)
async def agent_step_end(agent: Agent, turn: int, step: int) -> None:
    """A step ended, also by error or abort.

    When: `step/end` is logged.
    Arguments: `turn`, `step`.
    Return: nothing.

    Example:
        @hookimpl
        async def agent_step_end(agent, step):
            observe(time.monotonic() - agent.stash[TIMER])

    """


@waterfall(OnError.END_TURN, returns=(bool, TurnEndReason), replaceable=("default",))
async def agent_turn_continuation(agent: Agent, turn: int, default: bool) -> bool | TurnEndReason:
    """Decide whether the turn takes another step.

    When: after each step that ended well.
    Arguments: `default`, True when tools ran.
    Return: True continues, False ends `completed`, a `TurnEndReason` ends with it; None passes.
        Pending steering forces True except after a reason.

    Example:
        @hookimpl
        async def agent_turn_continuation(agent, default, *, call_next):
            return LimitReached("cost", "spent") if spent(agent) else await call_next()

    """


@emit(OnError.REPORT, limit_seconds=30)
async def agent_turn_end(agent: Agent, turn: int, reason: TurnEndReason) -> None:
    """A turn ended.

    When: `turn/end` is logged; what fails from here on is reported, not logged.
    Arguments: `reason`, one of `dsh_core.events`.
    Return: nothing.

    Example:
        @hookimpl
        async def agent_turn_end(agent, reason):
            await notify_desktop(agent.name, reason.type)

    """


@emit(OnError.REPORT)
def agent_error(agent: Agent, turn: int, step: int, error: BaseException) -> None:
    """See every failure of a request, a tool pipeline or a plugin.

    When: it happened; `turn` and `step` are 0 outside one. Raising here goes to the log only.
    Arguments: `error`, with its cause.
    Return: nothing.

    Example:
        @hookimpl
        def agent_error(agent, error):
            log.warning("%s: %s", agent.id, error_chain(error))

    """


# -------------------------------------------------------------------------------- session


@emit(OnError.REFUSE)
def session_validate(session: Session, event: Event) -> None:
    """Check an event before it is appended; raise to refuse it.

    When: every append. A refused `step/end`, `turn/end` or `error` of a turn is reported and
        appended anyway; where `usage` is refused, the reply stands.
    Arguments: `event`, with the `seq` it is to have.
    Return: nothing.

    Example:
        @hookimpl
        def session_validate(session, event):
            if event.type == "tool/result" and is_secret(event.data):
                raise ValueError("a result holds a secret")

    """


@emit(OnError.REPORT)
def session_event(session: Session, event: Event) -> None:
    """See every event, after it was appended. Appending from here is refused.

    When: every append, chunks too: be quick.
    Arguments: `event`.
    Return: nothing.

    Example:
        @hookimpl
        def session_event(session, event):
            queue.put_nowait(event)

    """


@parallel(OnError.REPORT, limit_seconds=30)
async def session_flush(session: Session) -> None:
    """Make the log durable.

    When: after each turn, one-shot turns too.
    Arguments: `session`.
    Return: nothing; 30 s at most.

    Example:
        @hookimpl
        async def session_flush(session):
            await writer.drain(session.id)

    """


@parallel(OnError.REPORT, limit_seconds=30)
async def harness_stop(harness: Harness) -> None:
    """End: close what the plugin opened.

    When: all agents are disposed.
    Arguments: `harness`.
    Return: nothing; 30 s at most.

    Example:
        @hookimpl
        async def harness_stop(self, harness):
            await self.index.close()

    """
