"""Repairing a session in a database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from dsh_core import Event, SessionHeader, SummaryFold
from dsh_persistence.failures import DamageError
from dsh_persistence.lines import LineError, event_of, parse
from dsh_persistence.mending import Repair, mend
from dsh_persistence.redaction import Scrub
from dsh_persistence.repair import once
from dsh_persistence.sql.rows import Rows, event_rows, session_row
from dsh_persistence.sql.tables import events as event_table
from dsh_persistence.sql.tables import sessions


def repair_rows(connection: Connection, session_id: str, rows: Rows, scrub: Scrub) -> Repair:
    """Repair a session that is locked, inside a transaction. Raises `NewerFormatError`."""
    mine = event_table.c.session == session_id
    row = connection.execute(select(sessions).where(sessions.c.id == session_id)).one()
    lines = connection.execute(select(event_table).where(mine).order_by(event_table.c.seq)).all()
    with suppress(DamageError):
        rows.fold(row)
        return Repair(None, len(rows.session(row, lines).events), ())
    header, events, lost = _salvage(row, lines, rows)
    mended = mend(events)
    kept = f"{session_id}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    connection.execute(insert(sessions).values({**row._mapping, "id": kept}))
    connection.execute(update(event_table).where(mine).values(session=kept))
    fold = SummaryFold()
    for event in mended:
        fold.feed(event)
    connection.execute(delete(sessions).where(sessions.c.id == session_id))
    values = session_row(header, len(mended), fold, scrub)
    connection.execute(insert(sessions).values(**values))
    if mended:
        connection.execute(insert(event_table), event_rows(session_id, mended, scrub))
    return Repair(kept, len(mended), tuple(lost))


def _salvage(
    row: Row[Any], lines: Sequence[Row[Any]], rows: Rows
) -> tuple[SessionHeader, list[Event], list[str]]:
    lost: list[str] = []
    try:
        header, version = rows.header(row)
    except DamageError as error:
        lost.append(f"header: {error.message}")
        header, version = SessionHeader(row.id, row.created_at), rows.migrations.current
    events: list[Event] = []
    for each in lines:
        try:
            value = rows.migrations.line(parse(each.line.encode()), version)
            events.append(event_of(value, value.get("seq", -1)))
        except LineError as error:
            lost.append(f"event {each.seq}: {error}")
    return header, once(events, lost), lost
