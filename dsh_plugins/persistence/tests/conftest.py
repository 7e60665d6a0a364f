"""Stores of every kind behind one fixture, and sessions to put into them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from dsh_core import (
    Event,
    EventData,
    SessionHeader,
    Text,
    TextDelta,
    Usage,
    error_chain,
    hookimpl,
)
from dsh_core.events import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    MessageTrigger,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UsageEvent,
    UserMessage,
)
from dsh_persistence import Persistence
from dsh_persistence.contract import SessionStore
from dsh_persistence.disk import Disk
from dsh_persistence.jsonl import JsonlStore

START = 1_796_000_000.0


def header_of(session_id: str = "one", **fields: Any) -> SessionHeader:
    return SessionHeader(session_id, **{"created_at": START, "cwd": "/project", **fields})


def turn_data(turn: int, said: str = "Hello.", answer: str = "Hi.") -> list[EventData]:
    return [
        TurnStart(turn, MessageTrigger()),
        UserMessage((Text(said),)),
        StepStart(turn, 1),
        AssistantChunk(turn, 1, TextDelta(0, answer)),
        AssistantMessage(turn, 1, (Text(answer),), "m/model"),
        UsageEvent(turn, 1, Usage(10, 5), "m/model"),
        StepEnd(turn, 1),
        TurnEnd(turn, Completed()),
    ]


def numbered(data: Sequence[EventData], first: int = 0) -> list[Event]:
    return [Event(first + i, START + first + i + 0.25, one) for i, one in enumerate(data)]


def log_of(turns: int, **said: str) -> list[Event]:
    return numbered([data for turn in range(1, turns + 1) for data in turn_data(turn, **said)])


class Kit:
    """What tests build sessions with."""

    header = staticmethod(header_of)
    turn = staticmethod(turn_data)
    numbered = staticmethod(numbered)
    log = staticmethod(log_of)


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


NewStore = Callable[[], SessionStore]


@pytest.fixture(params=["jsonl"])
async def new_store(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[NewStore]:
    """Makes stores of one kind on one place, as several processes would."""
    async with AsyncExitStack() as stack:

        def new() -> SessionStore:
            store = JsonlStore(root)
            stack.push_async_callback(store.close)
            return store

        yield new


@pytest.fixture
def store(new_store: NewStore) -> SessionStore:
    return new_store()


class FaultyDisk(Disk):
    """A real disk, whose calls can be made to fail.

    Args:
        fail: Asked before each call with its name and number; an `OSError` it returns is raised,
            a number makes a write write only as many bytes.
    """

    def __init__(self, fail: Callable[[str, int], OSError | int | None] = lambda name, n: None):
        self.fail = fail
        self.calls = 0

    def _ask(self, name: str) -> int | None:
        self.calls += 1
        answer = self.fail(name, self.calls)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def write(self, file: int, data: bytes) -> int:
        short = self._ask("write")
        return super().write(file, data if short is None else data[:short])


def _failing(name: str) -> Callable[..., Any]:
    def call(self: FaultyDisk, *arguments: Any) -> Any:
        self._ask(name)
        return getattr(Disk, name)(self, *arguments)

    return call


for _name in (
    *("create", "open", "truncate", "sync", "close", "publish", "keep", "replace", "remove"),
    *("make_folder", "sync_folder"),
):
    setattr(FaultyDisk, _name, _failing(_name))


class Answers:
    """A plugin that answers `session_store` with a store of the test's."""

    def __init__(self, store: SessionStore):
        self.store = store

    @hookimpl
    async def session_store(self) -> SessionStore:
        return self.store


class Errors:
    """A plugin that keeps what is reported."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @hookimpl
    def agent_error(self, error: BaseException) -> None:
        self.said.append(error_chain(error))


@pytest.fixture
def faulty() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def answers() -> type[Answers]:
    return Answers


@pytest.fixture
def persistence(root: Path) -> Callable[..., Persistence]:
    """Makes the plugin, on the test's folder."""
    return lambda **settings: Persistence(Persistence.Settings(folder=str(root), **settings))
