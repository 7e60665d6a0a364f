"""Who did what in one waterfall: attribution of changes, and the record of a trace."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from dsh_core.request import Draft

Record: TypeAlias = dict[str, Any]
"""`plugin`, `seconds` (inner implementations included), `changed` (names), `decided`."""

Place: TypeAlias = tuple[str | None, Record | None]
"""Who was writing, and the record of it."""

CORE: Place = (None, None)


class Ledger:
    """Tells every draft of a waterfall whose code is running, so that changes name their author.

    Args:
        draft: The mutable argument the waterfall starts with, if it has one.
        records: Where the trace is kept; None keeps none.

    """

    __slots__ = ("_drafts", "_here", "_seen", "records")

    def __init__(self, draft: Draft | None, records: list[Record] | None):
        self._drafts: list[Draft] = [] if draft is None else [draft]
        self._here = CORE
        self.records = records
        self._seen = self._values()

    def begin(self, plugin: str) -> Place:
        """Open the entry of an implementation that is about to run."""
        if self.records is None:
            return plugin, None
        record = {"plugin": plugin, "seconds": 0.0, "changed": (), "decided": False}
        self.records.append(record)
        return plugin, record

    def switch(self, place: Place) -> Place:
        """Attribute what is written from here on; return the place to switch back to."""
        self._settle()
        before, self._here = self._here, place
        for draft in self._drafts:
            draft.written_by(place[0])
        return before

    def adopt(self, draft: Draft, model: Draft) -> None:
        """Take in a draft that the running implementation put in `model`'s place."""
        if any(known is draft for known in self._drafts):
            return
        self._settle()
        writer, record = self._here
        draft.adopt(model, writer)
        draft.written_by(writer)
        if record is not None:
            self._note(record, _differing(model.values(), draft.values()))
        self._drafts.append(draft)
        self._seen = self._values()

    def note_replaced(self, name: str) -> None:
        """Record that the running implementation replaced an argument."""
        if self._here[1] is not None:
            self._note(self._here[1], (name,))

    def end(self, place: Place, started: float, *, decided: bool) -> None:
        """Close an entry."""
        record = place[1]
        if record is not None:
            record["seconds"] = round(time.perf_counter() - started, 6)
            record["decided"] = decided

    def _settle(self) -> None:
        """Put what changed since the last switch down to who was running; only while tracing."""
        if self.records is None:
            return
        now = self._values()
        record = self._here[1]
        if record is not None:
            for before, after in zip(self._seen, now, strict=True):
                self._note(record, _differing(before, after))
        self._seen = now

    def _values(self) -> list[dict[str, Any]]:
        return [] if self.records is None else [draft.values() for draft in self._drafts]

    @staticmethod
    def _note(record: Record, names: tuple[str, ...]) -> None:
        record["changed"] = tuple(dict.fromkeys((*record["changed"], *names)))


def _differing(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in before if before[name] is not after[name])
