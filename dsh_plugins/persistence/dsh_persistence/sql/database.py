"""Connections to the database, and its errors in the user's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dsh_core import ConfigError
from dsh_persistence.failures import NewerFormatError, StoreError
from dsh_persistence.sql.tables import LAYOUT, layout, metadata

BUSY_SECONDS = 10.0
"""How long a write waits for another process's; less than a flush may take."""


class Database:
    """One database. Each thread of the store has a connection of its own.

    Args:
        url: As SQLAlchemy takes it; only `sqlite` and `postgresql` are known to work.
        is_synced: Whether a commit is forced to the disk.

    Raises:
        ConfigError: The URL cannot be used.
    """

    def __init__(self, url: str, *, is_synced: bool):
        self.url = _checked(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.name = self.url.render_as_string(hide_password=True)
        self._is_synced = is_synced
        self._engine: Engine | None = None

    @property
    def file(self) -> Path:
        """The file of an SQLite database."""
        return Path(self.url.database or "")

    def connect(self) -> Connection:
        """Open a connection to write; makes the tables. Raises `StoreError`, `NewerFormatError`."""
        with self.saying():
            if self.is_sqlite:
                self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.file.touch(mode=0o600)
            connection = self._open().connect()
        try:
            with self.saying():
                if not self._is_known(connection):
                    self._create(connection)
                if not self.is_sqlite and not self._is_synced:
                    connection.exec_driver_sql("SET synchronous_commit TO off")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def reader(self) -> Iterator[Connection | None]:
        """Open a connection that sees one moment; None = nothing was stored yet."""
        if self.is_sqlite and not self.file.exists():
            yield None
            return
        with self.saying(), self._open().connect() as connection:
            if not self._is_known(connection):
                yield None
                return
            repeatable = "" if self.is_sqlite else " ISOLATION LEVEL REPEATABLE READ READ ONLY"
            connection.exec_driver_sql(f"BEGIN{repeatable}")
            try:
                yield connection
            finally:
                _roll_back(connection)

    @contextmanager
    def transaction(self, connection: Connection) -> Iterator[None]:
        """Commit what is done inside, or nothing of it. Raises `StoreError`."""
        with self.saying():
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")
            try:
                yield
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def saying(self) -> Iterator[None]:
        """Turn what the database says into `StoreError`."""
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            raise StoreError(
                f"sessions cannot be stored there: {_said(error)}",
                where=self.name,
                remedy="Check the database; writing is tried again.",
            ) from error

    def dispose(self) -> None:
        """Close what is left open."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _open(self) -> Engine:
        if self._engine is None:
            options = {"timeout": BUSY_SECONDS} if self.is_sqlite else {"connect_timeout": 10}
            self._engine = create_engine(
                self.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=options
            )
            if self.is_sqlite:
                event.listen(self._engine, "connect", self._set_up_sqlite)
        return self._engine

    def _set_up_sqlite(self, connection: object, record: object) -> None:
        """Readers and the writer do not wait for each other; a commit is as safe as is wanted."""
        execute = connection.execute  # type: ignore[attr-defined]
        execute("PRAGMA journal_mode=WAL")
        execute(f"PRAGMA synchronous={'FULL' if self._is_synced else 'OFF'}")
        execute("PRAGMA foreign_keys=ON")
        execute("PRAGMA trusted_schema=OFF")

    def _is_known(self, connection: Connection) -> bool:
        """Whether there are tables. Raises `NewerFormatError` for those of a newer dsh."""
        if not connection.dialect.has_table(connection, layout.name):
            return False
        version = connection.execute(select(layout.c.version)).scalar()
        if version is not None and version > LAYOUT:
            raise NewerFormatError(
                f"the tables have layout {version}; this dsh knows {LAYOUT}",
                where=self.name,
                remedy="Update dsh: pip install --upgrade dsh-core dsh-persistence.",
            )
        return True

    def _create(self, connection: Connection) -> None:
        with self.transaction(connection):
            if not self.is_sqlite:  # two processes that begin at once
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7239486123)")
            metadata.create_all(connection)
            if connection.execute(select(layout.c.version)).first() is None:
                connection.execute(insert(layout).values(version=LAYOUT))


def _checked(text: str) -> URL:
    try:
        url = make_url(text)
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError):
        raise ConfigError(
            "it is no address of a database that SQLAlchemy knows",
            where="plugins.persistence.url",
            remedy=(
                "Write postgresql+psycopg://USER@HOST/NAME, or sqlite:////FILE; for PostgreSQL "
                "pip install 'dsh-persistence[postgresql]'."
            ),
        ) from None
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ConfigError(
            f"sessions are not stored in {url.get_backend_name()}",
            where="plugins.persistence.url",
            remedy="Use SQLite or PostgreSQL.",
        )
    if url.get_backend_name() == "sqlite" and not url.database:
        raise ConfigError(
            "it names no file",
            where="plugins.persistence.url",
            remedy="Write sqlite:////FILE, or leave it out for a file in the folder of sessions.",
        )
    return url


def _said(error: Exception) -> str:
    if isinstance(error, DBAPIError) and error.orig is not None:
        return str(error.orig).strip().partition("\n")[0] or type(error.orig).__name__
    return str(error).partition("\n")[0]


def _roll_back(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:
        connection.invalidate()  # it is broken: the server rolls back
