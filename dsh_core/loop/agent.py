"""`LoopAgent`: the handle of `dsh_core.agents`, and the driver that takes it from turn to turn."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.agents import (
    AgentOptions,
    AgentStatus,
    Receipt,
    Stash,
    TurnResult,
)
from dsh_core.content import Content, as_blocks
from dsh_core.errors import AgentDisposedError, AgentError
from dsh_core.events import (
    Aborted,
    ContextMessage,
    Disposed,
    Event,
    InjectionTrigger,
    MaintenanceTrigger,
    TurnEndReason,
)
from dsh_core.hooks import Hooks
from dsh_core.loop.inbox import Inbox, Queued
from dsh_core.loop.requests import RequestLog
from dsh_core.loop.result import turn_result
from dsh_core.loop.turn import Turn
from dsh_core.messages import USER, Source
from dsh_core.session import Session, SessionLock

if TYPE_CHECKING:
    from dsh_core.harness import Harness

_inside: contextvars.ContextVar[tuple[Turn, ...]] = contextvars.ContextVar(
    "dsh_inside_turns", default=()
)
"""The turns the running code is part of, tools and hooks included."""


class LoopAgent:
    """One agent and its loop. See `dsh_core.agents.Agent` for the contract of each method."""

    def __init__(
        self,
        harness: Harness,
        session: Session,
        *,
        name: str,
        options: AgentOptions,
        hooks: Hooks,
        cwd: Path,
        lock: SessionLock | None,
    ):
        self.harness = harness
        self.session = session
        self.name = name
        self.options = options
        self.hooks = hooks
        self.cwd = cwd
        self.stash = Stash()
        self.inbox = Inbox()
        self.requests = RequestLog(self)
        self._lock = lock
        self._status: AgentStatus = "idle"
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._turn: Turn | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._driver: asyncio.Task[None] | None = None
        self._teardown: asyncio.Task[None] | None = None
        self._is_exclusive = False

    def __repr__(self) -> str:
        return f"<agent {self.name!r} {self.id} {self.status}>"

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def status(self) -> AgentStatus:
        """idle, running or disposed."""
        return self._status

    # ------------------------------------------------------------------------- input

    def send(self, content: Content, *, source: Source = USER) -> Receipt:
        """Queue a message for the next turn; starts one when idle."""
        message = self._accept(content, source)
        self.inbox.queued.append(message)
        return self._announce(message, steering=False)

    def steer(self, content: Content, *, source: Source = USER) -> Receipt:
        """Join the running turn between two steps; like `send` when idle."""
        if self._turn is None or self._turn.is_closed:
            return self.send(content, source=source)
        message = self._accept(content, source)
        self.inbox.steering.append(message)
        return self._announce(message, steering=True)

    def inject(self, content: Content, *, source: Source = USER) -> None:
        """Give context to the next request. Does not run the model."""
        message = self._accept(content, source)
        event = ContextMessage(message.content, source, message.id)
        if self.session.open_turn is not None:
            self.session.append(event)
            return
        with self.session.one_shot(InjectionTrigger(source)):
            self.session.append(event)

    def _accept(self, content: Content, source: Source) -> Queued:
        self._check_live()
        if not isinstance(source, Source):
            raise TypeError(f"source must be a Source, not {type(source).__name__}")
        return Queued(as_blocks(content), source)

    def _announce(self, message: Queued, *, steering: bool) -> Receipt:
        self._quiet.clear()
        self._wake.set()
        self.hooks.emit(
            hookspecs.agent_queued,
            agent=self,
            content=message.content,
            source=message.source,
            steering=steering,
        )
        return Receipt(message.id)

    def abort(self, reason: str | TurnEndReason | None = None) -> None:
        """End the running turn; queued messages stay. Does nothing when idle."""
        self._check_live()
        self._abort(reason if isinstance(reason, TurnEndReason) else Aborted(reason))

    def _abort(self, reason: TurnEndReason) -> None:
        if self._turn is not None and self._turn_task is not None:
            self._turn.abort(reason, self._turn_task)

    # ----------------------------------------------------------------------- waiting

    async def when_idle(self) -> None:
        """Wait until the whole agent is quiet; once disposed, until its loop ended."""
        self._check_outside("when_idle")
        if self._status == "disposed" or self._teardown is not None:
            await self._ended()
            return
        await self._quiet.wait()

    async def run(self, content: Content, *, source: Source = USER) -> TurnResult:
        """Send, and wait until the whole agent is idle."""
        self._check_outside("run")
        first = len(self.session.events)
        receipt = self.send(content, source=source)
        try:
            await self.when_idle()
        except asyncio.CancelledError:
            await self._take_back(receipt)
            raise
        return turn_result(self.session.events, first, receipt.message_id)

    async def stream(self, content: Content, *, source: Source = USER) -> AsyncIterator[Event]:
        """Send, and yield every event of the session until the whole agent is idle."""
        self._check_outside("stream")
        arrived: asyncio.Queue[Event | None] = asyncio.Queue()
        unsubscribe = self.session.subscribe(arrived.put_nowait)
        receipt = self.send(content, source=source)
        waiter = asyncio.create_task(self.when_idle())
        waiter.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            while (event := await arrived.get()) is not None:
                yield event
        finally:
            unsubscribe()
            if not waiter.done():
                waiter.cancel()
                await self._take_back(receipt)

    async def _take_back(self, receipt: Receipt) -> None:
        """Withdraw a waiting message, or abort the turn that holds it and see it closed."""
        if self.inbox.withdraw(receipt.message_id):
            self._settle_quiet()
            return
        task = self._turn_task
        if task is None:
            return
        self._abort(Aborted("the caller was cancelled"))
        await asyncio.wait({task})

    # --------------------------------------------------------------------- exclusive

    @asynccontextmanager
    async def exclusive(self, label: str) -> AsyncIterator[None]:
        """Work on the log of the idle agent inside a one-shot turn; sends wait."""
        self._check_live()
        if self._is_exclusive or not self._quiet.is_set():
            raise AgentError(f"{label}: agent {self.id} is busy; wait until it is idle")
        self._is_exclusive = True
        self._quiet.clear()
        try:
            with self.session.one_shot(MaintenanceTrigger(label)):
                yield
        finally:
            self._is_exclusive = False
            self._settle_quiet()
            self._wake.set()

    # ----------------------------------------------------------------------- driving

    def start(self) -> None:
        """Begin to take messages."""
        context = contextvars.copy_context()
        context.run(_inside.set, _inside.get())
        self._driver = asyncio.get_running_loop().create_task(
            self._drive(), name=f"dsh-agent-{self.id}", context=context
        )

    async def _drive(self) -> None:
        while self._teardown is None:
            self._wake.clear()
            if self._is_exclusive or not self.inbox.queued:
                self._rest()
                await self._wake.wait()
                continue
            self._set_status("running")
            await self._take_turn()

    async def _take_turn(self) -> None:
        self._turn = turn = Turn(self, self.inbox.drain_queued())
        context = contextvars.copy_context()
        context.run(_inside.set, (*_inside.get(), turn))
        self._turn_task = task = asyncio.get_running_loop().create_task(
            turn.run(), name=f"dsh-turn-{self.id}-{turn.number}", context=context
        )
        try:
            await task
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            raise
        finally:
            self._turn = self._turn_task = None
            self.inbox.requeue_steering()
        await self.harness.sessions.flush(self.session)

    def _rest(self) -> None:
        if not self._is_exclusive:
            self._set_status("idle")
            self._settle_quiet()

    def _settle_quiet(self) -> None:
        if not self._is_exclusive and self._turn is None and not self.inbox.queued:
            self._quiet.set()

    def _set_status(self, status: AgentStatus) -> None:
        if status != self._status:
            self._status = status
            self.hooks.emit(hookspecs.agent_status, agent=self, status=status)

    async def ready(self) -> None:
        """Wait for override instances of plugins to start; called in each turn."""
        await self.harness.plugins.start_overrides(self.hooks)

    def report_error(self, error: BaseException) -> None:
        """Tell plugins and the log about a failure."""
        step = self._turn.step if self._turn is not None else 0
        turn = self._turn.number if self._turn is not None else 0
        self.harness.report_error(self, turn, step, error)

    # ---------------------------------------------------------------------- disposal

    async def dispose(self) -> None:
        """End the agent. Concurrent callers share one teardown."""
        self._check_outside("dispose")
        if self._teardown is None:
            self._teardown = asyncio.get_running_loop().create_task(self._tear_down())
        await asyncio.shield(self._teardown)

    async def _tear_down(self) -> None:
        self._wake.set()
        self._abort(Disposed())
        if self._driver is not None:
            await asyncio.wait({self._driver})
        await self.harness.sessions.settle()
        self._set_status("disposed")
        self._quiet.set()
        self.hooks.emit(hookspecs.agent_disposed, agent=self)
        self.harness.forget(self)
        if self._lock is not None:
            await self._lock.release()

    async def _ended(self) -> None:
        if self._teardown is not None:
            await asyncio.shield(self._teardown)

    def _check_live(self) -> None:
        if self._teardown is not None:
            raise AgentDisposedError(f"agent {self.id} is disposed")

    def _check_outside(self, what: str) -> None:
        for turn in _inside.get():
            if turn.belongs_to(self) and not turn.is_closed:
                raise AgentError(f"{what} would wait for the turn it is awaited in")
