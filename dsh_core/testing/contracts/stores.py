"""The contract of a session store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dsh_core.chunks import TextDelta, Usage
from dsh_core.content import Text
from dsh_core.errors import UserError
from dsh_core.events import (
    AssistantChunk,
    AssistantMessage,
    Completed,
    Event,
    EventData,
    MessageTrigger,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
    UnknownEvent,
    UsageEvent,
    UserMessage,
)
from dsh_core.session import SessionHeader, Store
from dsh_core.testing.contracts.in_loop import in_loop

BEGAN = 1_796_000_000.0
ODD = 'línea\u2028\u0085 北京 🦊 \x00\x1b[31m "quoted" \\n \r\n\t'


class StoreContract:
    """What every store does with sessions: keep them whole, for one writer at a time.

    Several stores on one place stand for several processes.
    """

    def new_store(self, place: Path) -> Store:
        """Return a new store on a place; all stores on one place share their sessions."""
        raise NotImplementedError

    async def close(self, store: Any) -> None:
        """Close a store, which gives its locks back. Does nothing where it has no `close`."""
        closing = getattr(store, "close", None)
        if closing is not None:
            await closing()

    # ------------------------------------------------------------------------- events

    @in_loop
    async def test_what_is_appended_is_loaded_by_another(self, tmp_path: Path) -> None:
        """Header and events, in pieces or at once."""
        header, log = header_of(parent="mother", agent="coder", seed_length=3), log_of(3)
        async with self._stores(tmp_path, 2) as (writer, reader):
            await writer.append(header, log[:5])
            await writer.append(header, log[5:])
            stored = await reader.load("one")
        assert (stored.header, list(stored.events)) == (header, log)

    @in_loop
    async def test_every_text_survives(self, tmp_path: Path) -> None:
        """Whatever people and models write."""
        log = log_of(1, said=ODD, answer=ODD)
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(cwd='/påth with "all"\nof it'), log)
            stored = await store.load("one")
        assert list(stored.events) == log
        assert stored.header.cwd == '/påth with "all"\nof it'

    @in_loop
    async def test_events_of_a_plugin_that_is_gone_stay_as_they_are(self, tmp_path: Path) -> None:
        """Verbatim, through a second store."""
        strange = UnknownEvent("gone/thing", {"deep": {"er": [1, None, 2.5, "x"]}, "type": "own"})
        data = turn_data(1)
        data.insert(3, strange)
        async with self._stores(tmp_path, 2) as (first, second):
            await first.append(header_of(), numbered(data))
            loaded = await first.load("one")
            await second.append(header_of("two"), loaded.events)
            again = await second.load("two")
        assert again.events == loaded.events
        assert again.events[3].to_json()["data"] == strange.fields

    @in_loop
    async def test_events_that_are_stored_already_are_skipped(self, tmp_path: Path) -> None:
        """A writer that does not know what arrived sends again."""
        log = log_of(2)
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(), log[:6])
            await store.append(header_of(), log[2:])
            await store.append(header_of(), log)
            assert list((await store.load("one")).events) == log

    @in_loop
    async def test_a_gap_is_refused_and_nothing_is_written(self, tmp_path: Path) -> None:
        """A session is whole, or it is refused."""
        log = log_of(2)
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(), log[:4])
            with pytest.raises(UserError):
                await store.append(header_of(), log[6:])
            assert list((await store.load("one")).events) == log[:4]

    @in_loop
    async def test_two_appends_at_once_do_not_mix(self, tmp_path: Path) -> None:
        """Each is whole, in whatever order they come."""
        log = log_of(20)
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(), log[:1])
            await asyncio.gather(*(store.append(header_of(), log[: 8 * n]) for n in range(1, 21)))
            assert list((await store.load("one")).events) == log

    @in_loop
    async def test_a_cancelled_append_leaves_whole_events(self, tmp_path: Path) -> None:
        """What is there is a beginning of the log, and the rest can follow."""
        log = log_of(200)
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(), log[:1])
            task = asyncio.create_task(store.append(header_of(), log))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            there = list((await store.load("one")).events)
            assert there == log[: len(there)]
            await store.append(header_of(), log)
            assert list((await store.load("one")).events) == log

    # -------------------------------------------------------------------------- locks

    @in_loop
    async def test_one_writes_and_others_are_told(self, tmp_path: Path) -> None:
        """Reading is free; writing and deleting are refused with a text for people."""
        async with self._stores(tmp_path, 2) as (first, second):
            await first.append(header_of(), log_of(1))
            await self.close(first)
            held = await first.lock("one")
            for attempt in (
                partial(second.lock, "one"),
                partial(second.append, header_of(), log_of(2)),
                partial(second.delete, "one"),
            ):
                with pytest.raises(UserError) as refused:
                    await attempt()
                assert str(refused.value)
            assert len((await second.load("one")).events) == 8
            await held.release()

    @in_loop
    async def test_a_lock_goes_round(self, tmp_path: Path) -> None:
        """Releasing twice is once, and a late release takes nothing away."""
        async with self._stores(tmp_path, 2) as (first, second):
            await first.append(header_of(), log_of(1))
            await self.close(first)
            held = await second.lock("one")
            with pytest.raises(UserError):
                await first.lock("one")
            await held.release()
            await held.release()
            again = await first.lock("one")
            await held.release()
            with pytest.raises(UserError):
                await second.lock("one")
            await again.release()

    # ------------------------------------------------------------------ list and delete

    @in_loop
    async def test_a_session_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        """In words for people."""
        async with self._stores(tmp_path, 1) as (store,):
            for attempt in (store.load, store.delete, store.lock):
                with pytest.raises(UserError, match="nobody"):
                    await attempt("nobody")

    @in_loop
    async def test_a_deleted_session_is_gone_and_its_id_free(self, tmp_path: Path) -> None:
        """The others stay."""
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(), log_of(1))
            await store.append(header_of("two"), log_of(1))
            await self.close(store)
            await store.delete("one")
            assert await listed(store) == ["two"]
            await store.append(header_of(created_at=5.0), log_of(1))
            assert (await store.load("one")).header.created_at == 5.0

    @in_loop
    async def test_a_list_says_what_one_chooses_by(self, tmp_path: Path) -> None:
        """Title, turns, cost, and whether something is wrong."""
        log = log_of(3, said="\n  Fix the\tfailing test.\nPlease.")
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of(agent="coder"), log)
            (row,) = (await store.list()).sessions
        assert row.header == header_of(agent="coder")
        assert (row.title, row.turns, row.problem) == ("Fix the failing test.", 3, None)
        assert row.usage.total_tokens == 45

    @in_loop
    async def test_pages_hold_every_session_once(self, tmp_path: Path) -> None:
        """A cursor goes on where the page ended."""
        names = [f"s{number:02}" for number in range(23)]
        async with self._stores(tmp_path, 1) as (store,):
            for name in names:
                await store.append(header_of(name), log_of(1))
            seen: list[str] = []
            cursor = None
            while True:
                page = await store.list(cursor=cursor, limit=5)
                assert len(page.sessions) <= 5
                seen += [row.header.id for row in page.sessions]
                cursor = page.cursor
                if cursor is None:
                    break
        assert sorted(seen) == names

    @in_loop
    async def test_a_list_can_be_of_one_folder(self, tmp_path: Path) -> None:
        """And of no other that looks like it."""
        async with self._stores(tmp_path, 1) as (store,):
            await store.append(header_of("a", cwd="/x/y"), log_of(1))
            await store.append(header_of("b", cwd="/x-y"), log_of(1))
            await store.append(header_of("c", cwd=None), log_of(1))
            assert await listed(store, cwd="/x/y") == ["a"]
            assert await listed(store, cwd="/nowhere") == []
            assert sorted(await listed(store)) == ["a", "b", "c"]

    # ----------------------------------------------------------------------- plumbing

    def _stores(self, place: Path, count: int) -> _Opened:
        return _Opened(self, [self.new_store(place / "sessions") for _ in range(count)])


class _Opened:
    """Stores that are closed in the end."""

    def __init__(self, contract: StoreContract, stores: Sequence[Store]):
        self._contract = contract
        self._stores = stores

    async def __aenter__(self) -> Sequence[Store]:
        return self._stores

    async def __aexit__(self, *error: object) -> None:
        for store in self._stores:
            await self._contract.close(store)


def header_of(session_id: str = "one", **fields: Any) -> SessionHeader:
    """Return a header."""
    return SessionHeader(session_id, **{"created_at": BEGAN, "cwd": "/project", **fields})


def turn_data(turn: int, said: str = "Hello.", answer: str = "Hi.") -> list[EventData]:
    """Return what a turn logs."""
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


def numbered(data: Sequence[EventData]) -> list[Event]:
    """Return a log of these."""
    return [Event(seq, BEGAN + seq + 0.25, one) for seq, one in enumerate(data)]


def log_of(turns: int, **said: str) -> list[Event]:
    """Return a log of as many turns."""
    return numbered([data for turn in range(1, turns + 1) for data in turn_data(turn, **said)])


async def listed(store: Store, **options: Any) -> list[str]:
    """Return the ids that a store lists."""
    page = await store.list(**options)
    return [row.header.id for row in page.sessions]
