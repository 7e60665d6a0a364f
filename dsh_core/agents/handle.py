"""The agent handle: what every plugin and front end programs against, whatever loop drives it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from dsh_core.chunks import Usage
from dsh_core.content import Content
from dsh_core.events import Event, Trigger, TurnEndReason
from dsh_core.hooks import Hooks
from dsh_core.messages import USER, Source
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents.stash import Stash
    from dsh_core.harness import Harness
    from dsh_core.session import Session

AgentStatus: TypeAlias = Literal["idle", "running", "disposed"]
Disposer: TypeAlias = Callable[[], None]
"""Undoes a registration. Never raises, and does nothing the second time."""


@record()
class AgentOptions:
    """What an agent was created with.

    Args:
        model: The route, `provider/model`; None = nothing is configured, and a turn fails saying so
            unless a plugin sets `request.model`.
        system_prompt: The agent's own part of the system text.
        tools: Names of the tools it may use; None = all.
        parameters: Wire parameters of its requests, as in `temperature`.
        stream: Whether requests ask for a stream.

    """

    model: str | None = None
    system_prompt: str = ""
    tools: tuple[str, ...] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True


@record()
class Receipt:
    """Proof that a message is in the inbox; `message_id` stands in the event that logs it."""

    message_id: str


@record()
class TurnResult:
    """What came of `run`: from its own message to the whole agent idle.

    Args:
        text: The last answer's text, "" where there was none.
        reason: Why the last turn ended.
        usage: Tokens of all its requests.
        turns: The turns it took, first to last.

    """

    text: str
    reason: TurnEndReason
    usage: Usage
    turns: tuple[int, ...]

    @property
    def is_success(self) -> bool:
        """Whether the last turn ended `completed`."""
        return self.reason.type == "completed"


class Agent(Protocol):
    """One conversation with a model, driven by a loop.

    All methods belong to the thread of the event loop. Every mutator raises `AgentDisposedError`
    after `dispose`; invalid content raises before anything is appended. `when_idle`, `run` and
    `dispose` raise `AgentError` when awaited from inside the agent's own turn.
    """

    @property
    def id(self) -> str:
        """The session's id."""

    @property
    def name(self) -> str:
        """The definition's name."""

    @property
    def options(self) -> AgentOptions:
        """What it was created with."""

    @property
    def session(self) -> Session:
        """Its log."""

    @property
    def status(self) -> AgentStatus:
        """idle, running or disposed."""

    tool_timeout_seconds: float | None
    """How long a tool call may run whose tool sets no timeout of its own; `limits` sets it."""

    @property
    def cwd(self) -> Path:
        """The folder its tools work in; absolute."""

    @property
    def stash(self) -> Stash:
        """Typed per-agent state of plugins."""

    @property
    def hooks(self) -> Hooks:
        """The hooks of the plugins that are on for this agent."""

    @property
    def harness(self) -> Harness:
        """What it belongs to."""

    def send(self, content: Content, *, source: Source = USER) -> Receipt:
        """Queue a message for the next turn; starts one when idle."""

    def steer(self, content: Content, *, source: Source = USER) -> Receipt:
        """Join the running turn between two steps; like `send` when idle."""

    def inject(self, content: Content, *, source: Source = USER) -> None:
        """Give context to the next request. Does not run the model."""

    def abort(self, reason: str | TurnEndReason | None = None) -> None:
        """End the running turn, or the work in `exclusive`; queued messages stay.

        Does nothing when idle. A text ends it `aborted`; a `TurnEndReason` ends it with that. The
        first reason counts.
        """

    async def when_idle(self) -> None:
        """Wait until the whole agent is quiet; once disposed, until its loop ended."""

    async def dispose(self) -> None:
        """End the agent. Concurrent callers share one teardown."""

    def report_error(self, error: BaseException) -> None:
        """Tell plugins (`agent_error`) and the log about a failure."""

    def exclusive(self, trigger: str | Trigger) -> AbstractAsyncContextManager[None]:
        """Work on the log of the idle agent inside a one-shot turn; sends wait.

        A text is the label of a `MaintenanceTrigger`. Raises `AgentError` unless the agent is
        idle, and where `abort` or `dispose` ended the work: they cancel the task that does it.
        Waiting for the agent inside raises, as in its turns.
        """

    async def run(self, content: Content, *, source: Source = USER) -> TurnResult:
        """Send, and wait until the whole agent is idle.

        Cancelling it aborts the turn that holds its message, or takes the message back.
        """

    def stream(self, content: Content, *, source: Source = USER) -> AsyncIterator[Event]:
        """Send, and yield every event of the session until the whole agent is idle."""
