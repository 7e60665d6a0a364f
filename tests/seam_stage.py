"""One path through a harness, played with one plugin in it, and what came of that.

A path is a subclass of `Stage`, see `seam_paths.py`; the plugins are in `seam_actors.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from offline import HANGS_SECONDS, calling

from dsh_core import (
    Agent,
    AgentDefinition,
    Call,
    Chunk,
    Event,
    Executor,
    Harness,
    HarnessConfig,
    HarnessError,
    Layer,
    LocalExecutor,
    ModelConfig,
    ProviderConfig,
    Request,
    Session,
    ToolContext,
    ToolOutput,
    ToolResult,
    TurnResult,
    hookimpl,
    hookspecs,
    tool,
)
from dsh_core.testing.model_server import SERVER_TASK
from dsh_core.testing.offline import Brings
from dsh_invariants import Invariants

if TYPE_CHECKING:
    from seam_actors import Actor, Moment

GO, AGAIN = "go", "again"


class Eye:
    """A plugin that sees what others do, asked after all of them, and changes nothing.

    Attributes:
        sessions: How many events each session began with.
        agents: Every agent that was announced.
        errors: What was reported.
        judged: The calls that have a result.
        requests: What the model was asked.

    """

    def __init__(self) -> None:
        self.sessions: dict[Session, int] = {}
        self.agents: list[Agent] = []
        self.errors: list[BaseException] = []
        self.judged: list[Call] = []
        self.requests: list[Request] = []

    @hookimpl
    def session_created(self, session: Session) -> None:
        self.sessions[session] = len(session.events)

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        self.agents.append(agent)

    @hookimpl
    def agent_error(self, error: BaseException) -> None:
        self.errors.append(error)

    @hookimpl
    async def llm_stream(self, request: Request) -> None:
        self.requests.append(request)

    @hookimpl
    async def tools_result(self, call: Call, result: ToolOutput) -> None:
        self.judged.append(call)


class Stage:
    """One play of one path; subclasses say what is special about it.

    Attributes:
        agent: The agent of the path, once there is one.
        sessions: The sessions of the path, oldest first.
        log: The events of its session when the path was over; what follows is about `AGAIN`.
        raised: What the path, or the start of the harness, raised.
        moment: When the actor raised; None = it did not.
        calls: How often each hook of the actor was called, from start to end.
        called_in_act: The hooks that were called between the beginning and the end of the path.
        agents_after: The agents that lived then.
        again: What came of one more turn, in which the actor does nothing.
        is_paused: Whether the actor does nothing.
        is_ending: Whether the path has ended its own turn.
        executors: By what the tool ran its commands.
        chunks: What the model said beside any turn.
        tokens: What was measured.
        refused: The event that the actor refused.
        lines: What was said in the log file.
        stray: What nobody caught.

    """

    settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Plugin name → its settings."""
    definition = AgentDefinition()
    opening: ClassVar[Any] = {"text": "Looking.", **calling("look")}
    """The model's first reply."""
    name: ClassVar = "it"
    """What the actor is called."""
    is_alone: ClassVar = False
    """Nothing comes after the path: its harness is gone."""

    def __init__(self, actor: type[Actor]):
        self.actor = type("It", (actor,), {"stage": self})
        self.eye = Eye()
        self.agent: Agent | None = None
        self.sessions: list[Session] = []
        self.log: list[Event] = []
        self.raised: HarnessError | None = None
        self.moment: Moment | None = None
        self.calls: dict[str, int] = {}
        self.called_in_act: set[str] = set()
        self.agents_after: list[Agent] = []
        self.again: TurnResult | None = None
        self.is_paused = False
        self.is_ending = False
        self.executors: list[str] = []
        self.chunks: list[Chunk] = []
        self.tokens = 0
        self.refused: Any = None
        self.lines: list[str] = []
        self.stray: list[str] = []
        self.reached = asyncio.Event()
        self.never = asyncio.Event()
        self.harness: Harness

    # ----------------------------------------------------------- what a path may change

    async def begin(self) -> None:
        """Come to where the path begins."""
        await self.enter()

    async def act(self) -> None:
        """Take the path. An agent that is not disposed is idle in the end."""
        await (await self.enter()).run(GO)

    async def enter(self) -> Agent:
        """Return the agent of the path, made when there is none."""
        if self.live_agent is None:
            self.agent = self.harness.agents.create(self.definition)
        assert self.agent is not None
        return self.agent

    def plugins(self) -> dict[str, object]:
        """The plugins beside the actor and those that watch."""
        return {}

    def answer(self, request: Request) -> Any:
        """The model: it calls a tool first."""
        said, has_result = last_said(request)
        if said == AGAIN:
            return "Fine."
        return "Done." if has_result else self.opening

    async def in_tool(self, ctx: ToolContext) -> None:
        """What happens while the tool runs."""

    @tool
    async def look(self, ctx: ToolContext) -> str:
        """Look around, with a command as it were."""
        executor = await ctx.agent.hooks.waterfall(
            hookspecs.shell_executor, local_executor, agent=ctx.agent
        )
        self.executors.append(executor.name)
        await self.in_tool(ctx)
        return "trees"

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """What has to run before the harness is built."""
        yield

    def provider(self) -> ProviderConfig:
        """Where the model is."""
        options = {"replies": [self.answer], "loop": True}
        return ProviderConfig(
            "offline", "scripted", models={"script": ModelConfig()}, options=options
        )

    def config(self) -> HarnessConfig:
        """What is configured."""
        layers = {name: (Layer("test", values),) for name, values in self.settings.items()}
        agents = {self.definition.name: self.definition}
        return HarnessConfig(autoload=False, plugins=layers, agents=agents)

    def build(self, **plugins: object) -> Harness:
        """The harness; the actor is asked first."""
        given = {"it": self.actor, "tools": Brings(self.look), **self.plugins(), **plugins}
        given |= {"eye": self.eye, "invariants": Invariants()}
        return Harness(self.config(), plugins=given, providers=[self.provider()])

    # ------------------------------------------------------------------------ the play

    def play(self) -> Self:
        """Take the path from the start of the harness to its end."""
        with lines_of("dsh", self.lines):
            asyncio.run(self._play())
        return self

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.stray.append(context["message"]))
        async with asyncio.timeout(HANGS_SECONDS), self.around():
            self.harness = self.build()
            try:
                await self.harness.start()
            except HarnessError as error:
                self.raised = error
                return
            try:
                await self._take_path()
                await self._go_on()
            finally:
                await self.harness.stop()
            loop.set_exception_handler(lambda _, context: None)  # the rest is not the harness's
        left_over = asyncio.all_tasks() - {asyncio.current_task()}
        names = [task.get_name() for task in left_over]  # the server's end with their connections
        self.stray += [f"{name} still runs" for name in names if name != SERVER_TASK]

    async def _take_path(self) -> None:
        try:
            await self.begin()
            before = {**self.calls}
            await self.act()
            await self.harness.sessions.settle()
            self.called_in_act = {hook for hook, n in self.calls.items() if n != before.get(hook)}
        except HarnessError as error:
            self.raised = error
            await self.harness.sessions.settle()
        self.keep_log()
        self.agents_after = self.harness.agents.list()

    async def _go_on(self) -> None:
        """Take one more turn while the actor does nothing, with a new agent where there is none."""
        self.is_paused = True
        before, agent = self.agent, await self.enter()
        self.again = await agent.run(AGAIN)
        if agent is not before:
            await agent.dispose()
        self.is_paused = False

    def keep_log(self) -> None:
        """Keep what the path itself has logged."""
        self.sessions = [*self.eye.sessions]
        session = self.session
        if session is not None:
            self.log = [*session.events][self.eye.sessions[session] :]

    # ------------------------------------------------------------------------- looking

    @property
    def session(self) -> Session | None:
        """The session of the path; of an agent that was refused, too."""
        if self.agent is not None:
            return self.agent.session
        return next(reversed(self.eye.sessions), None)

    @property
    def live_agent(self) -> Agent | None:
        """The agent of the path while it lives."""
        is_live = self.agent is not None and self.agent.status != "disposed"
        return self.agent if is_live else None

    def logged(self, kind: type[Any]) -> list[Any]:
        """The data of the path's events of one type."""
        return [event.data for event in self.log if isinstance(event.data, kind)]

    def types(self) -> list[str]:
        return [event.type for event in self.log]

    async def until_reached(self) -> None:
        """Wait for `reached`, or for an agent that will never get there."""
        assert self.agent is not None
        waiting = [
            asyncio.ensure_future(self.reached.wait()),
            asyncio.ensure_future(self.agent.when_idle()),
        ]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def last_said(request: Request) -> tuple[str, bool]:
    """What the person said last, and whether a tool has answered since."""
    has_result = False
    for message in reversed(request.messages):
        if message.text in (GO, AGAIN):
            return message.text, has_result
        has_result = has_result or any(isinstance(b, ToolResult) for b in message.content)
    return GO, has_result


async def local_executor(agent: Agent) -> Executor:
    return LocalExecutor()


@contextmanager
def lines_of(name: str, lines: list[str]) -> Iterator[None]:
    """Collect what a logger says from level WARNING on."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
