"""Sessions are found by id, and forked at the end of a turn; the parent is not touched."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from memory_store import MemoryStore
from waterfalls import unplaced

from dsh_core import Event, Session, SessionError, SessionHeader, UserError, hookimpl
from dsh_core.content import Text
from dsh_core.events import (
    Completed,
    EventData,
    Interrupted,
    MessageTrigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.session import FORMAT_VERSION, Sessions
from dsh_core.testing.hooks import HookLab
from dsh_core.testing.log import assert_balanced


def turn(number: int, *, ends: bool = True) -> list[EventData]:
    events: list[EventData] = [
        TurnStart(number, MessageTrigger()),
        UserMessage((Text(f"message {number}"),)),
    ]
    return [*events, TurnEnd(number, Completed())] if ends else events


def events_of(*turns: list[EventData]) -> list[Event]:
    data = [one for each in turns for one in each]
    return [Event(index, float(index), one) for index, one in enumerate(data)]


def registry(store: MemoryStore | None = None, lab: HookLab | None = None) -> Sessions:
    return Sessions((lab or HookLab()).hooks, lambda: store)


# ----------------------------------------------------------------------------------- creating


def test_a_session_is_live_until_it_is_forgotten() -> None:
    sessions = registry()
    first, second = sessions.create("a"), sessions.create("b")

    assert sessions.get("a") is first
    assert sessions.list() == [first, second]
    sessions.forget(first)
    assert (sessions.get("a"), sessions.list()) == (None, [second])


def test_a_new_session_is_announced_when_it_is_live() -> None:
    class Sees:
        @hookimpl
        def session_created(self, session: Session) -> None:
            assert sessions.get(session.id) is session
            seen.append(session.id)

    seen: list[str] = []
    sessions = registry(lab=HookLab(sees=Sees()))
    quiet = sessions.create("b", is_announced=False)
    sessions.create("a")
    sessions.announce(quiet)

    assert seen == ["a", "b"]


def test_forgetting_late_leaves_a_successor_alone() -> None:
    sessions = registry()
    first = sessions.create("a")
    sessions.forget(first)
    second = sessions.create("a")

    sessions.forget(first)

    assert sessions.get("a") is second


def test_a_live_id_is_refused() -> None:
    sessions = registry()
    sessions.create("a")

    with pytest.raises(SessionError, match="session 'a' is live already"):
        sessions.create("a")


@pytest.mark.parametrize("wrong", ["a/b", "../a", ".a", "a b", "ä", "a" * 129, "-a", "a\n"])
def test_an_id_that_no_file_could_have_is_refused(wrong: str) -> None:
    with pytest.raises(UserError, match="cannot be a session id"):
        registry().create(wrong)


def test_ids_of_their_own_differ() -> None:
    sessions = registry()

    assert len({sessions.create().id for _ in range(50)}) == 50


def test_the_header_says_what_is_known(tmp_path: Path) -> None:
    seed = events_of(turn(1))
    session = registry().create("a", seed=seed, cwd=tmp_path, agent="coder", parent="p")

    header = session.header
    assert (header.id, header.cwd, header.agent, header.parent) == (
        "a",
        str(tmp_path),
        "coder",
        "p",
    )
    assert (header.seed_length, header.version) == (3, FORMAT_VERSION)


def test_a_seed_that_does_not_fit_leaves_no_session() -> None:
    sessions = registry()

    with pytest.raises(SessionError):
        sessions.create("a", seed=[Event(0, 0.0, UserMessage((Text("x"),)))])

    assert sessions.get("a") is None


def test_a_seed_that_ends_in_a_turn_is_closed() -> None:
    session = registry().create("a", seed=events_of(turn(1, ends=False)))

    assert session.events[-1].data == TurnEnd(1, Interrupted())


# ------------------------------------------------------------------------------------ forking


async def test_a_fork_starts_with_the_turns_of_its_parent() -> None:
    created: list[Session] = []

    class Sees:
        @hookimpl
        def session_created(self, session: Session) -> None:
            created.append(session)
            assert len(session.events) == 6

    sessions = registry(lab=HookLab(sees=Sees()))
    parent = sessions.create("a", seed=events_of(turn(1), turn(2)), cwd=Path("/w"), agent="coder")
    before = list(parent.events)

    child = await sessions.fork("a", new_id="b")

    assert list(child.events) == before
    assert (child.header.parent, child.header.seed_length) == ("a", 6)
    assert (child.header.cwd, child.header.agent) == ("/w", "coder")
    assert created == [parent, child]
    assert sessions.get("b") is child
    child.record(UserMessage((Text("only here"),)))
    parent.record(UserMessage((Text("only there"),)))
    assert list(parent.events)[:6] == before
    assert "only here" not in str(parent.events)
    assert "only there" not in str(child.events)


@pytest.mark.parametrize(("at_turn", "length"), [(1, 3), (2, 6), (None, 6)])
async def test_a_fork_ends_with_a_whole_turn(at_turn: int | None, length: int) -> None:
    sessions = registry()
    parent = sessions.create("a", seed=events_of(turn(1), turn(2)))
    parent.append(TurnStart(3, MessageTrigger()))

    child = await sessions.fork("a", at_turn=at_turn)

    assert list(child.events) == list(parent.events)[:length]
    assert_balanced(child.events)
    assert parent.open_turn == 3


async def test_a_fork_of_a_session_without_a_whole_turn_is_empty() -> None:
    sessions = registry()
    parent = sessions.create("a")
    parent.append(TurnStart(1, MessageTrigger()))

    child = await sessions.fork("a")

    assert (list(child.events), child.header.seed_length) == ([], 0)


@pytest.mark.parametrize("wrong", [0, 3, 4, -1, 1.5, "1"])
async def test_a_turn_that_has_not_ended_is_refused(wrong: Any) -> None:
    sessions = registry()
    parent = sessions.create("a", seed=events_of(turn(1), turn(2)))
    parent.append(TurnStart(3, MessageTrigger()))

    with pytest.raises(UserError, match=f"no completed turn {wrong}"):
        await sessions.fork("a", at_turn=wrong)
    assert sessions.list() == [parent]


async def test_a_stored_session_is_forked_without_being_touched() -> None:
    store = MemoryStore()
    header = SessionHeader("a", 1.0, cwd="/w", agent="coder", version=FORMAT_VERSION - 1)
    await store.append(header, events_of(turn(1), turn(2), turn(3, ends=False)))
    sessions = registry(store)

    child = await sessions.fork("a")

    assert [event.type for event in child.events] == [e.type for e in store.events["a"]][:6]
    assert (child.header.parent, child.header.cwd) == ("a", "/w")
    assert (child.header.version, child.header.created_at > 1.0) == (FORMAT_VERSION, True)
    assert store.headers == {"a": header}
    assert store.locked == set()
    assert sessions.get("a") is None


async def test_a_live_session_counts_for_more_than_a_stored_one() -> None:
    store = MemoryStore()
    await store.append(SessionHeader("a", 1.0), events_of(turn(1)))
    sessions = registry(store)
    sessions.create("a", seed=events_of(turn(1), turn(2)))

    assert len((await sessions.fork("a")).events) == 6


async def test_a_session_nobody_knows_cannot_be_forked() -> None:
    with pytest.raises(UserError, match="there is no session 'a'") as refused:
        await registry().fork("a")
    assert "dsh-persistence" in str(refused.value)
    with pytest.raises(UserError, match="there is no session 'a'"):
        await registry(MemoryStore()).fork("a")


async def test_a_fork_cannot_take_a_live_id() -> None:
    sessions = registry()
    sessions.create("a", seed=events_of(turn(1)))

    with pytest.raises(SessionError, match="live already"):
        await sessions.fork("a", new_id="a")


# ------------------------------------------------------------------------------------ flushing


class Flushes:
    """A plugin that flushes when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.done: list[str] = []

    @hookimpl
    async def session_flush(self, session: Session) -> None:
        await self.go.wait()
        self.done.append(session.id)


async def test_the_flush_of_a_one_shot_turn_is_waited_for() -> None:
    flushes = Flushes()
    sessions = registry(lab=HookLab(flushes=flushes))
    first, second = sessions.create("a"), sessions.create("b")
    first.record(UserMessage((Text("x"),)))

    await sessions.settle(second)
    assert flushes.done == []

    settling = asyncio.ensure_future(sessions.settle())
    await asyncio.sleep(0)
    assert not settling.done()
    flushes.go.set()
    await settling
    assert flushes.done == ["a"]
    await sessions.settle(first)


async def test_a_flush_that_fails_is_reported_and_settles() -> None:
    class Breaks:
        @hookimpl
        async def session_flush(self, session: Session) -> None:
            raise OSError("the disk is full")

    lab = HookLab(breaks=Breaks())
    sessions = registry(lab=lab)
    sessions.create("a").record(UserMessage((Text("x"),)))

    await sessions.settle()

    assert unplaced(lab.reports()) == [
        "plugin 'breaks' in session_flush: OSError: the disk is full"
    ]


def test_without_anyone_to_flush_a_session_needs_no_event_loop() -> None:
    session = registry().create("a")

    session.record(UserMessage((Text("x"),)))

    assert len(session.events) == 3
