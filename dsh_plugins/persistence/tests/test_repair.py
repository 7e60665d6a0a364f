"""Repairing what is damaged: all that can be read is saved, and the damaged one is kept."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace

import pytest

from dsh_core import Event, Harness, HarnessConfig, Text, ToolCall
from dsh_core.events import (
    AssistantMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.testing import assert_balanced
from dsh_persistence.failures import DamageError, InUseError, NewerFormatError
from dsh_persistence.jsonl import JsonlStore
from dsh_persistence.mending import mend
from dsh_persistence.sql.store import SqlStore


def tool_turn(kit, turn):
    """A turn with a call, between two steps."""
    start, message, *rest = kit.turn(turn)
    called = ToolCall(f"c{turn}", "bash", "{}")
    return [
        start,
        message,
        StepStart(turn, 1),
        AssistantMessage(turn, 1, (called,)),
        ToolCallEvent(turn, 1, f"c{turn}", "bash", "{}"),
        ToolResultEvent(turn, 1, f"c{turn}", (Text("done"),)),
        StepEnd(turn, 1),
        *[replace(one, step=2) for one in rest[:-1]],
        rest[-1],
    ]


def long_log(kit):
    return kit.numbered([one for turn in (1, 2, 3) for one in tool_turn(kit, turn)])


async def loads(events):
    """Raise where a session could not begin with these events."""
    async with Harness(HarnessConfig(autoload=False)) as harness:
        assert_balanced(harness.sessions.create("check", seed=events).events)


async def test_a_whole_log_is_left_as_it_is(kit):
    assert mend(long_log(kit)) == long_log(kit)


async def test_whatever_is_lost_the_rest_fits_together(kit):
    log, chance = long_log(kit), random.Random(7)
    for _ in range(150):
        some = [event for event in log if chance.random() > 0.25]
        mended = mend(some)
        await loads(mended)
        said = [e.data.content for e in some if isinstance(e.data, UserMessage)]
        assert [e.data.content for e in mended if isinstance(e.data, UserMessage)] == said


async def test_a_call_whose_result_is_lost_gets_one_that_says_so(kit):
    log = [e for e in long_log(kit) if not isinstance(e.data, ToolResultEvent)]
    mended = mend(log)

    codes = [e.data.code for e in mended if isinstance(e.data, ToolResultEvent)]
    assert codes == ["TOOL_OUTCOME_UNKNOWN"] * 3
    assert [type(e.data) for e in mended if isinstance(e.data, TurnEnd)] == [TurnEnd] * 3


async def test_a_replacement_points_where_its_messages_went(kit):
    log = kit.log(2)
    summary = UserMessage((Text("summary"),), replaces=(1, 4))
    log.insert(15, Event(15, 9.0, summary))
    log[16:] = [Event(16, 9.0, log[16].data)]
    mended = mend([event for event in log if event.seq not in (3,)])

    (found,) = [e.data for e in mended if getattr(e.data, "replaces", None)]
    assert found.replaces == (1, 3)
    await loads(mended)


@pytest.fixture
async def path(root, kit):
    store = JsonlStore(root)
    await store.append(kit.header(agent="coder"), long_log(kit))
    await store.close()
    (path,) = root.glob("*/*.jsonl")
    return path


async def test_a_damaged_file_is_mended_and_kept(path, root, kit):
    lines = path.read_bytes().splitlines()
    lines[6] = b"\0" * 300
    lines[9] = lines[9][:20]
    damaged = b"\n".join(lines) + b"\n"
    path.write_bytes(damaged)
    store = JsonlStore(root)
    done = await store.repair("one")

    assert done.lost == (
        "line 7: it is 301 bytes of NUL",
        *[line for line in done.lost if line.startswith("line 10: it is no JSON")],
        "events 5 to 5: missing",
        "events 8 to 8: missing",
    )
    (kept,) = path.parent.glob("one.jsonl.damaged-*")
    assert kept.read_bytes() == damaged
    assert done.kept_as == str(kept)
    stored = await store.load("one")
    assert (stored.header, len(stored.events)) == (kit.header(agent="coder"), done.events)
    await loads(stored.events)
    assert [row.header.id for row in (await store.list()).sessions] == ["one"]
    await store.append(stored.header, stored.events)
    await store.close()


async def test_a_lost_header_is_made_up_for(path, root, kit):
    path.write_bytes(b"\0" * 40 + path.read_bytes()[40:])
    store = JsonlStore(root)
    done = await store.repair("one")

    assert done.events == len(long_log(kit))
    assert (await store.load("one")).header.id == "one"
    await store.close()


async def test_what_needs_no_repair_is_not_touched(path, root):
    before = path.stat().st_mtime_ns, path.read_bytes()
    done = await JsonlStore(root).repair("one")

    assert done.kept_as is None
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


async def test_what_somebody_writes_is_not_repaired(path, root, kit):
    writer = JsonlStore(root)
    await writer.append(kit.header(), long_log(kit))
    with pytest.raises(InUseError):
        await JsonlStore(root).repair("one")
    await writer.close()


async def test_a_newer_format_is_not_damage(path, root):
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2', 1))
    with pytest.raises(NewerFormatError):
        await JsonlStore(root).repair("one")


async def test_a_deleted_session_takes_its_remains_along(path, root):
    path.write_bytes(path.read_bytes().replace(b'"seq":5', b'"seq":6'))
    store = JsonlStore(root)
    await store.repair("one")
    await store.delete("one")

    assert list(path.parent.iterdir()) == []


async def test_a_damaged_session_in_a_database_is_mended_and_kept(tmp_path, kit):
    file = tmp_path / "sessions.db"
    store = SqlStore(f"sqlite:///{file}")
    await store.append(kit.header(), long_log(kit))
    await store.close()
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM dsh_events WHERE seq = 5")
        connection.execute("UPDATE dsh_events SET line = 'torn' WHERE seq = 9")
    connection.close()
    with pytest.raises(DamageError):
        await store.load("one")
    done = await store.repair("one")

    assert done.kept_as.startswith("one.damaged-")
    assert done.lost[0].startswith("event 9: it is no JSON")
    stored = await store.load("one")
    assert len(stored.events) == done.events
    await loads(stored.events)
    with pytest.raises(DamageError):
        await store.load(done.kept_as)
    assert (await store.repair("one")).kept_as is None
    assert isinstance(stored.events[0].data, TurnStart)
    await store.close()
