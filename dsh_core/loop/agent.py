"""`LoopAgent`: the handle of `dsh_core.agents`, and the driver that takes it from turn to turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.agents import AgentOptions, AgentStatus, Receipt, Stash, TurnResult
from dsh_core.agents.inside import enter, leave, refuse_inside
from dsh_core.codec import seal
from dsh_core.content import Content, as_blocks
from dsh_core.errors import AgentDisposedError, AgentError, PluginError
from dsh_core.events import (
    Aborted,
    ContextMessage,
    Disposed,
    Event,
    InjectionTrigger,
    MaintenanceTrigger,
    Trigger,
    TurnEnd,
    TurnEndReason,
)
from dsh_core.hooks import Hooks, within
from dsh_core.hooks.blame import CANCELLED_ITSELF, cancel_requests, is_stop, undo_cancellation
from dsh_core.hooks.waiting import CLEANUP_SECONDS
from dsh_core.loop.inbox import Inbox, Queued
from dsh_core.loop.maintenance import Maintenance
from dsh_core.loop.requests import RequestLog
from dsh_core.loop.result import turn_result
from dsh_core.loop.turn import Turn
from dsh_core.messages import USER, Source
from dsh_core.session import Session, SessionLock

if TYPE_CHECKING:
    from dsh_core.harness import Harness

RELEASE_SECONDS = 30.0
"""How long a store may take to release the lock of a session; as long as a flush."""


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
        grace_seconds: float,
    ):
        self.harness = harness
        self.session = session
        self.name = name
        self.options = options
        self.hooks = hooks
        self.cwd = cwd
        self.tool_timeout_seconds: float | None = None
        self.grace_seconds = grace_seconds
        self.stash = Stash()
        self.inbox = Inbox()
        self.requests = RequestLog(self)
        self._lock = lock
        self._status: AgentStatus = "idle"
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._turn: Turn | None = None
        self._is_active = False
        self._maintenance: Maintenance | None = None
        self._is_flush_owed = False
        self._driver: asyncio.Task[None] | None = None
        self._teardown: asyncio.Task[None] | None = None

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
        event = ContextMessage(message.content, message.source, message.id)
        if self.session.open_turn is not None:
            self.session.append(event)
            return
        with self.session.one_shot(InjectionTrigger(message.source)):
            self.session.append(event)

    def _accept(self, content: Content, source: Source) -> Queued:
        """Refuse what could not be logged, before anything is."""
        self._check_live()
        if not isinstance(source, Source):
            raise TypeError(f"source must be a Source, not {type(source).__name__}")
        return Queued(as_blocks(content), seal(InjectionTrigger(source)).source)

    def _announce(self, message: Queued, *, steering: bool) -> Receipt:
        self._revive()
        self._settle()
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
        """End the running turn or maintenance; queued messages stay. Does nothing when idle."""
        self._check_live()
        ending = reason if isinstance(reason, TurnEndReason) else Aborted(reason)
        ending = seal(TurnEnd(0, ending)).reason  # before it ends anything, it must fit the log
        if self._turn is not None:
            self._turn.abort(ending)
        elif self._maintenance is not None:
            self._maintenance.abort(ending)

    # ----------------------------------------------------------------------- waiting

    async def when_idle(self) -> None:
        """Wait until the whole agent is quiet; once disposed, until its loop ended."""
        refuse_inside(self, "when_idle")
        while self._teardown is None and not self._is_quiet:
            self._revive()
            await self._quiet.wait()
        if self._teardown is not None:
            await asyncio.shield(self._teardown)

    async def run(self, content: Content, *, source: Source = USER) -> TurnResult:
        """Send, and wait until the whole agent is idle."""
        refuse_inside(self, "run")
        first = len(self.session.events)
        receipt = self.send(content, source=source)
        try:
            await self.when_idle()
        except asyncio.CancelledError:
            await self._take_back(receipt)
            raise
        if self.inbox.withdraw(receipt.message_id):
            if self._teardown is not None:
                raise AgentDisposedError(f"agent {self.id} was disposed before the message's turn")
            raise AgentError("no turn could start for the message; see agent_error for the reason")
        return turn_result(self.session.events, first, receipt.message_id)

    async def stream(self, content: Content, *, source: Source = USER) -> AsyncIterator[Event]:
        """Send, and yield every event of the session until the whole agent is idle."""
        refuse_inside(self, "stream")
        arrived: asyncio.Queue[Event | None] = asyncio.Queue()
        unsubscribe = self.session.subscribe(arrived.put_nowait)
        try:
            receipt = self.send(content, source=source)
            waiter = asyncio.create_task(self.when_idle())
            waiter.add_done_callback(lambda _: arrived.put_nowait(None))
            try:
                while (event := await arrived.get()) is not None:
                    yield event
            finally:
                if not waiter.done():
                    waiter.cancel()
                    await self._take_back(receipt)
        finally:
            unsubscribe()

    async def _take_back(self, receipt: Receipt) -> None:
        """Withdraw a waiting message, or abort the turn that holds it and see it closed."""
        if self.inbox.withdraw(receipt.message_id):
            self._settle()
            return
        turn = self._turn
        if turn is not None and turn.holds(receipt.message_id):
            turn.abort(Aborted("the caller was cancelled"))
            await turn.ended.wait()

    # --------------------------------------------------------------------- exclusive

    @asynccontextmanager
    async def exclusive(self, trigger: str | Trigger) -> AsyncIterator[None]:
        """Work on the log of the idle agent inside a one-shot turn; sends wait."""
        self._check_live()
        if isinstance(trigger, str):
            trigger = MaintenanceTrigger(trigger)
        if not self._is_quiet:
            raise AgentError(f"{trigger.type}: agent {self.id} is busy; wait until it is idle")
        self._maintenance = maintenance = Maintenance(self.session, trigger)
        self._settle()
        span = enter(self)
        try:
            async with maintenance.turn():
                yield
        finally:
            leave(span)
            self._maintenance = None
            self._settle()
            self._wake.set()

    # ----------------------------------------------------------------------- driving

    def start(self) -> None:
        """Begin to take messages."""
        self._driver = asyncio.get_running_loop().create_task(
            self._drive(), name=f"dsh-agent-{self.id}"
        )
        self._driver.add_done_callback(self._driver_ended)

    def _driver_ended(self, driver: asyncio.Task[None]) -> None:
        """Take note of a driver that ended before its agent: somebody cancelled its task.

        It may be the end of the program, so no new one is started before it is wanted: by a
        message, or by somebody who waits.
        """
        if self._teardown is not None:
            return
        error = None if driver.cancelled() else driver.exception()
        self.report_error(error or AgentError(f"the loop of agent {self.id} was cancelled"))
        if self._is_flush_owed:
            self._is_flush_owed = False
            self.harness.sessions.flush_soon(self.session)
        self._set_status("idle")
        self._quiet.set()

    def _revive(self) -> None:
        """Start the driver again where it has ended."""
        if self._driver is not None and self._driver.done():
            self.start()
            self._settle()

    async def _drive(self) -> None:
        while self._teardown is None:
            if self.inbox.queued and self._maintenance is None:
                await self._take_turn()
                continue
            self._wake.clear()
            await self._tell_status("idle")  # a plugin may send from here
            self._settle()
            await self._wake.wait()

    async def _take_turn(self) -> None:
        self._is_active = True
        span = enter(self)
        try:
            await self._tell_status("running")
            self._turn = Turn(self, self.inbox.drain_queued())
            self._is_flush_owed = True
            self._is_flush_owed = await self._turn.run()
            self._turn = None
            if self._is_flush_owed:
                await self.harness.sessions.flush(self.session)
            self._is_flush_owed = False
        except BaseException as error:
            if is_stop(error):
                raise
            self.report_error(error)  # a bug in a turn must not end the loop
        finally:
            self._turn = None
            self.inbox.requeue_steering()
            leave(span)
            self._is_active = False

    @property
    def _is_quiet(self) -> bool:
        return not (self._is_active or self._maintenance or self.inbox.queued)

    def _settle(self) -> None:
        """Let `when_idle` return, or wait, as the agent is."""
        if self._is_quiet:
            self._quiet.set()
        else:
            self._quiet.clear()

    def _set_status(self, status: AgentStatus) -> None:
        if status != self._status:
            self._status = status
            self.hooks.emit(hookspecs.agent_status, agent=self, status=status)

    async def _tell_status(self, status: AgentStatus) -> None:
        requests = cancel_requests()
        self._set_status(status)
        await self._stay(requests, hookspecs.agent_status.__name__)

    async def _stay(self, requests: int, hook: str) -> None:
        """Go on in spite of a plugin that cancelled our task in a sync hook, and report it."""
        if cancel_requests() > requests:
            await undo_cancellation(requests)
            self.report_error(PluginError("?", hook, f"a plugin {CANCELLED_ITSELF}"))

    async def ready(self) -> None:
        """Wait for override instances of plugins to start; called in each turn."""
        await self.harness.plugins.start_overrides(self.hooks)

    def report_error(self, error: BaseException) -> None:
        """Tell plugins and the log about a failure."""
        turn = self._turn
        number, step = (turn.number, turn.step) if turn is not None else (0, 0)
        self.harness.report_error(self, number, step, error)

    # ---------------------------------------------------------------------- disposal

    async def dispose(self) -> None:
        """End the agent. Concurrent callers share one teardown."""
        refuse_inside(self, "dispose")
        if self._teardown is None:
            self._teardown = asyncio.get_running_loop().create_task(self._tear_down())
        await asyncio.shield(self._teardown)

    async def _tear_down(self) -> None:
        self._wake.set()
        if self._turn is not None:
            self._turn.abort(Disposed())
        if self._driver is not None:
            await asyncio.wait({self._driver})
        await self._end_maintenance()
        await self.harness.sessions.settle(self.session)
        await self._tell_status("disposed")
        self._quiet.set()
        requests = cancel_requests()
        self.hooks.emit(hookspecs.agent_disposed, agent=self)
        await self._stay(requests, hookspecs.agent_disposed.__name__)
        if self._lock is not None:
            try:
                await within(RELEASE_SECONDS, self._lock.release())
            except Exception as error:  # noqa: BLE001 - dispose never raises
                self.report_error(error)
        self.harness.forget(self)

    async def _end_maintenance(self) -> None:
        """End an exclusive section; one that ignores it is abandoned as a turn would be."""
        seconds = self.grace_seconds + CLEANUP_SECONDS
        while (maintenance := self._maintenance) is not None:
            maintenance.abort(Disposed())
            self._wake.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                self._maintenance = None
                maintenance.abandon()
                said = f"{maintenance} ignored its cancellation for {seconds:g} s and was abandoned"
                self.report_error(AgentError(said))

    def _check_live(self) -> None:
        if self._teardown is not None:
            raise AgentDisposedError(f"agent {self.id} is disposed")
