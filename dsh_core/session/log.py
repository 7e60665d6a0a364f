"""The session: an append-only log, the only truth about a conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dsh_core import hookspecs
from dsh_core.chunks import Chunk
from dsh_core.codec import seal
from dsh_core.errors import PluginError, SessionError
from dsh_core.events import (
    AssistantChunk,
    Completed,
    Event,
    EventData,
    RecordTrigger,
    StepEnd,
    StepStart,
    Trigger,
    TurnEnd,
    TurnStart,
)
from dsh_core.hooks import Hooks
from dsh_core.messages import Message
from dsh_core.session.header import SessionHeader
from dsh_core.session.history import History
from dsh_core.session.repair import closers


class Session:
    """An append-only log of events and the views folded from it.

    Every event lies inside a turn. `hooks` are those of its agent, or the harness's.

    Args:
        header: What is known beside the events.
        hooks: Whose hooks its appends call.
        seed: Inherited events, oldest first; an open turn at their end is closed as interrupted.
        flush_soon: Starts a tracked `session_flush`; called when a one-shot turn ends.
        clock: Unix seconds.

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
        self._history = History()
        self._listeners: list[Callable[[Event], None]] = []
        self._is_publishing = False
        self._turn: int | None = None
        self._step: int | None = None
        self._last_turn = 0
        for event in seed:
            self._commit(Event(len(self._events), event.time, seal(event.data)))
        for data in closers(self._events):
            self._commit(Event(len(self._events), self._events[-1].time, data))

    @property
    def id(self) -> str:
        """The session's name, unique in its store."""
        return self.header.id

    @property
    def events(self) -> Sequence[Event]:
        """The log. Read only; grows in place."""
        return self._events

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
        self._listeners.append(listener)

        def dispose() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return dispose

    def append(self, data: EventData) -> Event:
        """Append one event inside the open turn and publish it.

        Raises `SessionError` when the event does not fit here or is not plain data, and
        `PluginError` when a plugin refuses it; the log is then unchanged. A refused `step/end`
        or `turn/end` is reported and appended anyway.
        """
        self._check_place(data)
        try:
            data = seal(data)
        except ValueError as error:
            raise SessionError(f"{data.type}: {error}") from None
        self._history.check(data)
        event = Event(len(self._events), self._clock(), data)
        self._validate(event)
        self._commit(event)
        self._publish(event)
        return event

    def append_chunk(self, turn: int, step: int, chunk: Chunk) -> None:
        """Append a chunk of the model service: `append` without the checks it cannot fail."""
        hooks = self.hooks
        event = Event(len(self._events), self._clock(), AssistantChunk(turn, step, chunk))
        if hooks.has(hookspecs.session_validate):
            self._validate(event)
        self._events.append(event)
        if self._listeners or hooks.has(hookspecs.session_event):
            self._publish(event)

    def record(self, data: EventData) -> None:
        """Append into the open turn, or wrap the event in a one-shot turn of its own."""
        if self._turn is not None:
            self.append(data)
            return
        with self.one_shot(RecordTrigger(data.type)):
            self.append(data)

    @contextmanager
    def one_shot(self, trigger: Trigger) -> Iterator[int]:
        """Wrap what is appended inside in a turn without steps; flushed when it ends.

        Of the hooks only those of the session fire. Raises `SessionError` inside an open turn.
        """
        turn = self._last_turn + 1
        self.append(TurnStart(turn, trigger))
        try:
            yield turn
        finally:
            if self._step is not None:
                self.append(StepEnd(turn, self._step))
            self.append(TurnEnd(turn, Completed()))
            if self._flush_soon is not None:
                self._flush_soon(self)

    def _check_place(self, data: EventData) -> None:
        if self._is_publishing:
            raise SessionError(f"{data.type}: an append from inside a session hook is refused")
        match data:
            case TurnStart():
                if self._turn is not None:
                    raise SessionError(f"turn {self._turn} is open; a turn cannot start in it")
            case _ if self._turn is None:
                raise SessionError(
                    f"{data.type}: no turn is open; `session.record` wraps an event in one"
                )
            case StepStart():
                if self._step is not None:
                    raise SessionError(f"step {self._step} is open; a step cannot start in it")
            case StepEnd():
                if self._step is None:
                    raise SessionError("step/end: no step is open")

    def _validate(self, event: Event) -> None:
        self._is_publishing = True
        try:
            self.hooks.emit(hookspecs.session_validate, session=self, event=event)
        except PluginError as error:
            if not isinstance(event.data, (StepEnd, TurnEnd)):
                raise
            self.hooks.report(error, {"session": self})
        finally:
            self._is_publishing = False

    def _commit(self, event: Event) -> None:
        self._events.append(event)
        match event.data:
            case TurnStart(turn=turn):
                self._turn = self._last_turn = turn
            case TurnEnd():
                self._turn = self._step = None
            case StepStart(step=step):
                self._step = step
            case StepEnd():
                self._step = None
        self._history.feed(event)

    def _publish(self, event: Event) -> None:
        self._is_publishing = True
        try:
            for listener in self._listeners:
                listener(event)
            self.hooks.emit(hookspecs.session_event, session=self, event=event)
        finally:
            self._is_publishing = False
