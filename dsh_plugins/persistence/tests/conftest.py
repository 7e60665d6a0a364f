"""Stores of every kind behind one fixture, and sessions to put into them."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dsh_core import (
    Secrets,
    error_chain,
    hookimpl,
)
from dsh_core.testing.contracts.stores import header_of, log_of, numbered, turn_data
from dsh_persistence import Persistence
from dsh_persistence.contract import SessionStore
from dsh_persistence.disk import Disk
from dsh_persistence.stores import open_store


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


def _postgresql_programs() -> Path | None:
    """Debian keeps the programs of the server off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a server of our own, without a database: it is filled in with `%s`."""
    programs = _postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="dsh-pg-"))
    options: dict[str, Any] = {"cwd": folder, "stdin": subprocess.DEVNULL}
    if os.geteuid() == 0:  # it refuses to run as root
        shutil.chown(folder, "nobody")
        options |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
    data = folder / "data"
    try:
        initdb = [programs / "initdb", "-D", data, "-U", "dsh", "-A", "trust", "-E", "UTF8", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, **options)
        quick = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", str(folder)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *quick], stdout=log, stderr=log, **options
            )
            try:
                _await_server(folder, server)
                yield f"postgresql+psycopg://dsh@/%s?host={folder}"
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_server(folder: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert server.poll() is None, (folder / "log").read_text()
        try:
            psycopg.connect(f"host={folder} user=dsh dbname=postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
            continue
        return
    raise AssertionError((folder / "log").read_text())


_databases = itertools.count()


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The address of an empty PostgreSQL database of the test's own."""
    address = str(request.getfixturevalue("postgresql"))
    name = f"test_{next(_databases)}"
    folder = address.partition("host=")[2]
    with psycopg.connect(f"host={folder} user=dsh dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return address % name


NewStore = Callable[[], SessionStore]


@pytest.fixture(params=["jsonl", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, root: Path) -> dict[str, str]:
    """Settings that name a place of each kind."""
    match request.param:
        case "sqlite":
            return {"backend": "sql", "folder": str(root)}
        case "postgresql":
            return {"backend": "sql", "url": str(request.getfixturevalue("database"))}
        case _:
            return {"backend": "jsonl", "folder": str(root)}


@pytest.fixture
async def new_store(place: dict[str, str]) -> AsyncIterator[NewStore]:
    """Makes stores on one place, as several processes would."""
    async with AsyncExitStack() as stack:

        def new() -> SessionStore:
            store = open_store(Persistence.Settings(**place), Secrets())
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
