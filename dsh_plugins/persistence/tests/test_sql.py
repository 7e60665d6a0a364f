"""What only databases do: they are busy, go away, come back, and hold what others wrote."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest

from dsh_core import ConfigError, Secrets
from dsh_persistence import Persistence
from dsh_persistence.failures import DamageError, InUseError, NewerFormatError, StoreError
from dsh_persistence.sql import database as database_module
from dsh_persistence.sql.store import SqlStore
from dsh_persistence.stores import open_store


@pytest.fixture
def file(tmp_path):
    return tmp_path / "deep" / "sessions.db"


@pytest.fixture
async def sqlite(file):
    store = SqlStore(f"sqlite:///{file}")
    yield store
    await store.close()


def changed(file, statement, *values):
    with sqlite3.connect(file) as connection:
        connection.execute(statement, values)
    connection.close()


async def test_a_file_is_for_its_owner_only_and_holds_lines(sqlite, file, kit):
    await sqlite.append(kit.header(), kit.log(1))

    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    with sqlite3.connect(file) as connection:
        (line,) = connection.execute("SELECT line FROM dsh_events WHERE seq = 0").fetchone()
    connection.close()
    assert line.startswith('{"type":"turn/start","seq":0,')


async def test_reading_makes_no_file(sqlite, file):
    assert (await sqlite.list()).sessions == ()
    assert not file.parent.exists()


async def test_a_database_that_is_busy_is_waited_for_then_told(sqlite, file, kit, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.1)
    log = kit.log(2)
    await sqlite.append(kit.header(), log[:8])
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="database is locked"):
        await sqlite.append(kit.header(), log)
    assert len((await sqlite.load("one")).events) == 8
    other.execute("ROLLBACK")
    other.close()
    await sqlite.append(kit.header(), log)

    assert list((await sqlite.load("one")).events) == log


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM dsh_events WHERE seq = 3", "number 4, where 3 is next"),
        ("DELETE FROM dsh_events WHERE seq = 7", "8 events were written, 7 are there"),
        ("UPDATE dsh_events SET line = 'half a l' WHERE seq = 3", "event 3: .*no JSON"),
        ("UPDATE dsh_sessions SET header = '{}'", "no header"),
    ],
)
async def test_damage_is_refused_with_its_place(sqlite, file, kit, statement, words):
    await sqlite.append(kit.header(), kit.log(1))
    changed(file, statement)

    with pytest.raises(DamageError, match=words):
        await sqlite.load("one")


async def test_a_newer_session_is_left_alone(sqlite, file, kit):
    await sqlite.append(kit.header(), kit.log(1))
    changed(
        file, "UPDATE dsh_sessions SET header = replace(header, '\"version\":1', '\"version\":9')"
    )
    with pytest.raises(NewerFormatError, match="format 9"):
        await sqlite.load("one")
    with pytest.raises(NewerFormatError, match="format 9"):
        await sqlite.append(kit.header(), kit.log(2))
    (row,) = (await sqlite.list()).sessions
    assert "format 9" in row.problem


async def test_newer_tables_are_left_alone(sqlite, file, kit):
    await sqlite.append(kit.header(), kit.log(1))
    await sqlite.close()
    changed(file, "UPDATE dsh_layout SET version = 9")
    for use in (sqlite.append(kit.header(), kit.log(2)), sqlite.load("one"), sqlite.list()):
        with pytest.raises(NewerFormatError, match="layout 9"):
            await use


async def test_a_file_that_is_no_database_is_told(sqlite, file, kit):
    file.parent.mkdir()
    file.write_text("These are my notes, long enough to be read as a header of something else.")
    with pytest.raises(StoreError, match="not a database"):
        await sqlite.append(kit.header(), kit.log(1))
    assert file.read_text().startswith("These are my notes")


async def test_a_lost_connection_is_told_and_made_anew(database, kit):
    store, log = SqlStore(database), kit.log(2)
    await store.append(kit.header(), log[:8])
    name = database.partition("@/")[2].partition("?")[0]
    folder = database.partition("host=")[2]
    with psycopg.connect(f"host={folder} user=dsh dbname=postgres", autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
    with pytest.raises(StoreError):
        await store.append(kit.header(), log)
    assert store.owner("one") is None
    count = await store.count(kit.header())
    await store.append(kit.header(), log[count:])

    assert list((await store.load("one")).events) == log
    await store.close()


async def test_the_lock_of_a_lost_connection_is_free(database, kit):
    first, second = SqlStore(database), SqlStore(database)
    await first.append(kit.header(), kit.log(1))
    with pytest.raises(InUseError):
        await second.lock("one")
    folder = database.partition("host=")[2]
    name = database.partition("@/")[2].partition("?")[0]
    with psycopg.connect(f"host={folder} user=dsh dbname=postgres", autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
    held = await SqlStore(database).lock("one")

    assert held is not None
    with pytest.raises(StoreError):
        await first.append(kit.header(), kit.log(2))
    with pytest.raises(InUseError):
        await first.append(kit.header(), kit.log(2))
    await held.store.close()
    await first.close()
    await second.close()


async def test_a_server_that_is_not_there_is_told_without_the_password(kit):
    store = SqlStore("postgresql://me:hunter2hunter2@127.0.0.1:9/none")
    with pytest.raises(StoreError) as told:
        await store.append(kit.header(), kit.log(1))

    assert "postgresql+psycopg://me:***@127.0.0.1:9/none" in str(told.value)
    assert "hunter2" not in str(told.value)
    await store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "no address of a database"),
        ("oddbase://x/y", "no address of a database"),
        ("mysql://x/y", "database that SQLAlchemy knows|not stored in mysql"),
        ("sqlite://", "names no file"),
    ],
)
def test_addresses_that_cannot_be_meant_are_refused(url, words):
    with pytest.raises(ConfigError, match=words):
        open_store(Persistence.Settings(backend="sql", url=url), Secrets())


async def test_secrets_are_not_written(file, kit):
    store = SqlStore(f"sqlite:///{file}", scrub=Secrets(["sk-verysecret"]).scrub)
    await store.append(kit.header(), kit.log(1, said="My key is sk-verysecret."))
    stored = await store.load("one")
    await store.close()

    assert b"verysecret" not in b"".join(
        path.read_bytes() for path in file.parent.glob("*.db*") if path.is_file()
    )
    assert stored.events[1].data.content[0].text == "My key is ***."
