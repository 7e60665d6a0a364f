"""Between rows and sessions: the texts in the rows are the lines of a session file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row

from dsh_core import Event, SessionHeader, SessionSummary, StoredSession, SummaryFold
from dsh_persistence.failures import DamageError, NewerFormatError
from dsh_persistence.lines import (
    LineError,
    event_line,
    event_of,
    header_line,
    header_of,
    mark_line,
    parse,
    summary_of_mark,
)
from dsh_persistence.migrations import Migrations
from dsh_persistence.redaction import Scrub


def folder_key(cwd: str | None) -> str | None:
    """Return a working directory as it is compared; a path need not be Unicode."""
    return None if cwd is None else json.dumps(cwd)


def session_row(
    header: SessionHeader, count: int, fold: SummaryFold, scrub: Scrub
) -> dict[str, Any]:
    """Return the row of a session with so many events."""
    now = time.time()
    return {
        "id": header.id,
        "created_at": header.created_at,
        "updated_at": now,
        "folder": folder_key(header.cwd),
        "header": scrub(header_line(header)).strip(),
        "events": count,
        "mark": scrub(mark_line(count, fold, now)).strip(),
    }


def event_rows(session_id: str, events: Sequence[Event], scrub: Scrub) -> list[dict[str, Any]]:
    """Return the rows of events."""
    lines = scrub("".join(map(event_line, events))).split("\n")
    return [
        {"session": session_id, "seq": event.seq, "line": line}
        for event, line in zip(events, lines, strict=False)  # the last line is empty
    ]


class Rows:
    """Reads rows of any version.

    Args:
        database: What messages call the database.
        migrations: How older formats are read.
    """

    def __init__(self, database: str, migrations: Migrations):
        self._database = database
        self.migrations = migrations

    def header(self, row: Row[Any]) -> tuple[SessionHeader, int]:
        """Return a session's header, and the version in which it is stored."""
        where = f"{self._database}, session {row.id}"
        try:
            value = parse(row.header.encode())
            version = self.migrations.version_of(value, where)
            return header_of(self.migrations.header(value, version)), version
        except LineError as error:
            raise self._damage(row.id, where, error) from None

    def fold(self, row: Row[Any]) -> SummaryFold:
        """Return what the events of a session come to."""
        try:
            return summary_of_mark(parse(row.mark.encode()))
        except LineError as error:
            where = f"{self._database}, session {row.id}"
            raise self._damage(row.id, where, error) from None

    def session(self, row: Row[Any], events: Iterable[Row[Any]]) -> StoredSession:
        """Return a whole session."""
        header, version = self.header(row)
        found: list[Event] = []
        for each in events:
            try:
                value = parse(each.line.encode())
                found.append(event_of(self.migrations.line(value, version), len(found)))
            except LineError as error:
                where = f"{self._database}, session {row.id}, event {len(found)}"
                raise self._damage(row.id, where, error) from None
        if len(found) != row.events:
            where = f"{self._database}, session {row.id}"
            lost = LineError(f"{row.events} events were written, {len(found)} are there")
            raise self._damage(row.id, where, lost)
        return StoredSession(header, tuple(found))

    def summary(self, row: Row[Any]) -> SessionSummary:
        """Return what a list shows of a session."""
        try:
            return self.fold(row).summary(self.header(row)[0], row.updated_at)
        except (DamageError, NewerFormatError) as error:
            header = SessionHeader(row.id, row.created_at)
            return SessionSummary(header, row.updated_at, problem=error.message)

    @staticmethod
    def _damage(session_id: str, where: str, error: LineError) -> DamageError:
        return DamageError(
            f"the session is damaged: {error}",
            where=where,
            remedy=f"`dsh sessions repair {session_id}` saves what can be read.",
        )
