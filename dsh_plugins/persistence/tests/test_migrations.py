"""Older formats, with a real one: in format 0 times were milliseconds and turns were rounds."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress

import pytest

from dsh_persistence.failures import DamageError, StoreError
from dsh_persistence.jsonl import JsonlStore
from dsh_persistence.migrations import Migrations, Step
from dsh_persistence.sql.store import SqlStore


def seconds(value):
    return {**value, "time": value["time"] / 1000} if "time" in value else value


def header_from_0(header):
    return {**header, "created_at": header["created_at"] / 1000}


def line_from_0(line):
    line = seconds(line)
    return {**line, "type": line["type"].replace("round/", "turn/")}


ZERO = Migrations({0: Step(header_from_0, line_from_0)})


def as_format_0(line):
    value = json.loads(line)
    if value["type"] == "dsh/session":
        return json.dumps({**value, "version": 0, "created_at": value["created_at"] * 1000})
    value = {**value, "time": value["time"] * 1000}
    return json.dumps({**value, "type": value["type"].replace("turn/", "round/")})


@pytest.fixture
async def path(root, kit):
    """A session file as format 0 had it."""
    store = JsonlStore(root)
    await store.append(kit.header(), kit.log(2))
    await store.close()
    (path,) = root.glob("*/*.jsonl")
    path.write_text("".join(as_format_0(line) + "\n" for line in path.read_text().splitlines()))
    return path


async def test_an_old_session_is_read_and_left_as_it_is(path, root, kit):
    before = path.read_bytes()
    store = JsonlStore(root, migrations=ZERO)
    stored = await store.load("one")
    (row,) = (await store.list()).sessions

    assert list(stored.events) == kit.log(2)
    assert stored.header == kit.header()
    assert (row.title, row.usage.total_tokens) == ("Hello.", 30)
    assert path.read_bytes() == before


async def test_what_is_added_is_added_in_the_current_format_and_the_old_file_is_kept(
    path, root, kit
):
    before = path.read_bytes()
    store = JsonlStore(root, migrations=ZERO)
    await store.append(kit.header(), kit.log(3))
    await store.close()

    assert path.with_name("one.jsonl.v0").read_bytes() == before
    assert list((await JsonlStore(root).load("one")).events) == kit.log(3)
    page = await JsonlStore(root).list()
    assert [row.header.id for row in page.sessions] == ["one"]


async def test_a_fault_while_rewriting_leaves_a_session_that_loads(path, root, kit, faulty):
    for position in range(1, 40):
        faulty.calls = 0
        faulty.fail = lambda name, n, p=position: (
            OSError(5, "Input/output error") if n == p else None
        )
        store = JsonlStore(root, migrations=ZERO, disk=faulty)
        with suppress(StoreError):
            await store.append(kit.header(), kit.log(3))
        faulty.fail = lambda name, n: None
        await store.close()
        stored = await JsonlStore(root, migrations=ZERO).load("one")
        assert list(stored.events) == kit.log(3)[: len(stored.events)]
        assert len(stored.events) >= 16
    assert list(stored.events) == kit.log(3)


async def test_a_format_that_nobody_knows_any_more_is_damage(path, root):
    with pytest.raises(DamageError, match="nothing is known of format 0"):
        await JsonlStore(root).load("one")


async def test_a_database_is_brought_up_to_date_in_one_go(tmp_path, kit):
    file = tmp_path / "sessions.db"
    old = SqlStore(f"sqlite:///{file}")
    await old.append(kit.header(), kit.log(2))
    await old.close()
    with sqlite3.connect(file) as connection:
        connection.create_function("old", 1, as_format_0)
        connection.execute("UPDATE dsh_events SET line = old(line)")
        connection.execute("UPDATE dsh_sessions SET header = old(header)")
    connection.close()

    store = SqlStore(f"sqlite:///{file}", migrations=ZERO)
    assert list((await store.load("one")).events) == kit.log(2)
    await store.append(kit.header(), kit.log(3))
    assert list((await store.load("one")).events) == kit.log(3)
    await store.close()
    again = SqlStore(f"sqlite:///{file}")
    assert list((await again.load("one")).events) == kit.log(3)
    await again.close()
