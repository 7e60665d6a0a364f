"""The session: an append-only log, the only truth about a conversation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from dsh_core import hookspecs
from dsh_core.chunks import Chunk, ReasoningDelta, TextDelta, clean_chunk
from dsh_core.codec import Tagged, seal
from dsh_core.errors import HarnessError, PluginError, SessionError, error_chain, error_text
from dsh_core.events import (
    Aborted,
    AssistantChunk,
    Completed,
    Errored,
    ErrorEvent,
    Event,
    EventData,
    RecordTrigger,
    StepEnd,
    StepStart,
    ToolResultEvent,
    Trigger,
    TurnEnd,
    TurnEndReason,
    TurnStart,
)
from dsh_core.hooks import Hooks
from dsh_core.messages import Message
from dsh_core.session.header import SessionHeader
from dsh_core.session.history import History
from dsh_core.session.repair import closers
from dsh_core.session.view import Events
from dsh_core.tagged import is_case

D = TypeVar("D", bound=Tagged)

_VALIDATE = hookspecs.session_validate.__name__
_EVENT = hookspecs.session_event.__name__
_MARKERS = frozenset({TurnStart, TurnEnd, StepStart, StepEnd})


class Session:
    """An append-only log of events and the views folded from it.

    Every event lies inside a turn. `hooks` are those of its agent, or the harness's.

    Args:
        header: What is known beside the events.
        hooks: Whose hooks its appends call.
        seed: Inherited events, oldest first; an open turn at their end is closed as interrupted.
        flush_soon: Starts a tracked `session_flush`; called when a one-shot turn ends.
        clock: Unix seconds.

    Raises:
        SessionError: A seed event does not fit where it stands.

    """

    def __init__(
        self,
        header: SessionHeader,
        hooks: Hooks,
        *,
        seed: Sequence[Event] = (),
        flush_soon: Callable[[Session], None] | None = None,
        clock: Callable[[], float] = time.time,
    ):
        self.header = header
        self.hooks = hooks
        self._flush_soon = flush_soon
        self._clock = clock
        self._events: list[Event] = []
        self._view = Events(self._events)
        self._history = History()
        self._listeners: dict[object, Callable[[Event], None]] = {}
        self._barred: set[asyncio.Task[Any]] = set()
        self._is_publishing = False
        self._turn: int | None = None
        self._step: int | None = None
        self._last_turn = 0
        for event in seed:
            self._inherit(event)
        for data in closers(self._events):
            self._commit(Event(len(self._events), self._events[-1].time, data))

    @property
    def id(self) -> str:
        """The session's name, unique in its store."""
        return self.header.id

    @property
    def events(self) -> Sequence[Event]:
        """The log. Read only; grows in place."""
        return self._view

    @property
    def open_turn(self) -> int | None:
        """The turn the log is in."""
        return self._turn

    @property
    def open_step(self) -> int | None:
        """The step the log is in."""
        return self._step

    @property
    def last_turn(self) -> int:
        """The newest turn's number, 0 before the first."""
        return self._last_turn

    @property
    def is_publishing(self) -> bool:
        """Whether a session hook is running; appends are refused meanwhile."""
        return self._is_publishing

    @property
    def is_barred(self) -> bool:
        """Whether the running task was barred."""
        return bool(self._barred) and asyncio.current_task() in self._barred

    @property
    def generation(self) -> int:
        """How often history was replaced."""
        return self._history.generation

    def messages(self) -> tuple[Message, ...]:
        """Return the model's history. The same tuple until something is added to it."""
        return self._history.messages()

    def message_sources(self) -> tuple[tuple[int, Message], ...]:
        """Return the history as `(seq, message)`, for choosing what to replace."""
        return self._history.sources()

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event after it is appended, until the disposer is called."""
        key = object()
        self._listeners[key] = listener

        def dispose() -> None:
            self._listeners.pop(key, None)

        return dispose

    # --------------------------------------------------------------------- appending

    def append(self, data: EventData) -> Event:
        """Append one event inside the open turn and publish it.

        Raises `SessionError` when the event does not fit here or is not plain data, and
        `PluginError` when a plugin refuses it; the log is then unchanged. A refused `step/end`
        or `turn/end` is reported and appended anyway.
        """
        return self._append(data, is_owed=isinstance(data, (StepEnd, TurnEnd)))

    def bar(self, task: asyncio.Task[Any]) -> None:
        """Refuse what a task still appends that nobody waits for any more."""
        self._barred.add(task)
        task.add_done_callback(self._barred.discard)

    def append_owed(self, data: EventData) -> Event:
        """Append what the log owes, as the result of a call: a refusal is only reported."""
        return self._append(data, is_owed=True)

    def append_chunk(self, turn: int, step: int, chunk: Chunk) -> Chunk:
        """Append a chunk of a reply and return it as it was logged. The hot path.

        Does what `append` does; the checks that a delta of plain text cannot fail are left out.
        """
        if self._is_publishing or self._turn is None or self._barred:
            self._check_place(AssistantChunk(turn, step, chunk))
        kind = type(chunk)
        if not (
            (kind is TextDelta or kind is ReasoningDelta)
            and type(text := chunk.text) is str  # type: ignore[attr-defined]
            and text.isascii()
        ):
            chunk = self._plain(clean_chunk(chunk), Chunk)
        hooks = self.hooks
        event = Event(len(self._events), self._clock(), AssistantChunk(turn, step, chunk))
        if _VALIDATE in hooks.implemented:
            self._validate(event, is_owed=False)
        self._events.append(event)
        if self._listeners or _EVENT in hooks.implemented:
            self._publish(event)
        return chunk

    def record(self, data: EventData) -> None:
        """Append into the open turn, or wrap the event in a one-shot turn of its own."""
        if self._turn is not None:
            self.append(data)
            return
        data = self._plain(data, EventData)
        self._history.check(data)
        with self.one_shot(RecordTrigger(data.type)):
            self.append(data)

    @contextmanager
    def one_shot(
        self, trigger: Trigger, *, aborted: Callable[[], TurnEndReason | None] = lambda: None
    ) -> Iterator[int]:
        """Wrap what is appended inside in a turn without steps; flushed when it ends.

        Of the hooks only those of the session fire. What is raised inside is the turn's reason;
        `aborted` says why it was cancelled. Raises `SessionError` inside an open turn.
        """
        turn = self._last_turn + 1
        self.append(TurnStart(turn, trigger))
        reason: TurnEndReason = Completed()
        try:
            yield turn
        except asyncio.CancelledError:
            reason = aborted() or Aborted("cancelled")
            raise
        except BaseException as error:
            reason = Errored(error_chain(error))
            if self._turn == turn:
                self.append_owed(ErrorEvent(turn, 0, reason.message))
            raise
        finally:
            self.close_turn(turn, reason)
            if self._flush_soon is not None:
                self._flush_soon(self)

    def close_turn(self, turn: int, reason: TurnEndReason) -> None:
        """Close a turn, the step in it first, unless it is closed."""
        if self._turn == turn:
            self.close_step()
            self.append(TurnEnd(turn, reason))

    def close_step(self) -> None:
        """Close the open step; a call in it that has no result gets one that says so."""
        if self._turn is None or self._step is None:
            return
        for data in closers(self._events):
            if isinstance(data, ToolResultEvent):
                self.append_owed(data)
        self.append(StepEnd(self._turn, self._step))

    # ---------------------------------------------------------------------- plumbing

    def _append(self, data: EventData, *, is_owed: bool) -> Event:
        data = self._plain(data, EventData)
        self._check_place(data)
        self._history.check(data)
        event = Event(len(self._events), self._clock(), data)
        if _VALIDATE in self.hooks.implemented:
            self._validate(event, is_owed=is_owed)
        self._commit(event)
        if self._listeners or _EVENT in self.hooks.implemented:
            self._publish(event)
        return event

    def _inherit(self, event: Event) -> None:
        try:
            data = self._plain(event.data, EventData)
            self._check_place(data)
            self._history.check(data)
        except SessionError as error:
            raise SessionError(f"seed event {len(self._events)}: {error}") from None
        self._commit(Event(len(self._events), event.time, data))

    @staticmethod
    def _plain(data: D, base: type[D]) -> D:
        """Return data as it may be logged. Raises `SessionError` for what is none."""
        if not isinstance(data, base) or not is_case(data):
            name = type(data).__qualname__
            raise SessionError(f"{name} is no {base.__name__} registered with @case")
        try:
            sealed: D = seal(data)
        except ValueError as error:
            raise SessionError(f"{data.type}: {error}") from None
        return sealed

    def _check_place(self, data: EventData) -> None:
        """Refuse what lies in no turn, and turns and steps that do not count on."""
        if self._is_publishing:
            raise SessionError(f"{data.type}: an append from inside a session hook is refused")
        if self._barred and self.is_barred:
            raise SessionError(f"{data.type}: the task that appends it was aborted and abandoned")
        if self._turn is None and not isinstance(data, TurnStart):
            raise SessionError(
                f"{data.type}: no turn is open; `session.record` wraps an event in one"
            )
        if type(data) in _MARKERS:
            self._check_marker(data)

    def _check_marker(self, data: EventData) -> None:
        match data:
            case TurnStart(turn):
                if self._turn is not None:
                    raise SessionError(f"turn {self._turn} is open; a turn cannot start in it")
                _count(data, turn, self._last_turn + 1)
            case TurnEnd(turn):
                _count(data, turn, self._turn)
                if self._step is not None:
                    raise SessionError(f"step {self._step} is open; its turn cannot end")
            case StepStart(turn):
                _count(data, turn, self._turn)
                if self._step is not None:
                    raise SessionError(f"step {self._step} is open; a step cannot start in it")
            case StepEnd(turn, step):
                if self._step is None:
                    raise SessionError("step/end: no step is open")
                _count(data, (turn, step), (self._turn, self._step))

    def _validate(self, event: Event, *, is_owed: bool) -> None:
        self._is_publishing = True
        try:
            self.hooks.emit(hookspecs.session_validate, session=self, event=event)
        except HarnessError as error:
            if not is_owed:
                raise
            if not isinstance(error, PluginError):
                error = PluginError("?", hookspecs.session_validate.__name__, error_text(error))
            self.hooks.report(error, {"session": self})
        finally:
            self._is_publishing = False

    def _commit(self, event: Event) -> None:
        self._events.append(event)
        self._history.feed(event)
        if type(event.data) not in _MARKERS:
            return
        match event.data:
            case TurnStart(turn=turn):
                self._turn = self._last_turn = turn
            case TurnEnd():
                self._turn = self._step = None
            case StepStart(step=step):
                self._step = step
            case StepEnd():
                self._step = None

    def _publish(self, event: Event) -> None:
        self._is_publishing = True
        try:
            for listener in tuple(self._listeners.values()):
                self._tell(listener, event)
            self.hooks.emit(hookspecs.session_event, session=self, event=event)
        finally:
            self._is_publishing = False

    def _tell(self, listener: Callable[[Event], None], event: Event) -> None:
        try:
            listener(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the append stands, and others want to know of it
            name = getattr(listener, "__qualname__", type(listener).__qualname__)
            failure = PluginError("?", "session.subscribe", f"{name}: {error_chain(error)}")
            self.hooks.report(failure, {"session": self})


def _count(data: EventData, found: object, expected: object) -> None:
    if found != expected:
        raise SessionError(f"{data.type}: bears {found}, where {expected} is next")
