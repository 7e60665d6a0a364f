"""Who did what in one waterfall: attribution of changes, and the record of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dsh_core.errors import error_text
from dsh_core.hooks.difference import difference, outline
from dsh_core.request import Draft

Record: TypeAlias = dict[str, Any]
"""`plugin`, `seconds` (inner implementations included), `changed` (names), `decided`, and where
there is something to show `diff` (name → lines) and `decision` (lines)."""

Place: TypeAlias = tuple[str | None, Record | None]
"""Who was writing, and the record of it."""

CORE: Place = (None, None)

MOST_LINES = 40
"""Of one plugin and one field, which it may change several times around `call_next`."""


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
            self._note_changes(record, model.values(), draft.values())
        self._drafts.append(draft)
        self._seen = self._values()

    def note_replaced(self, name: str, old: Any, new: Any) -> None:
        """Record that the running implementation replaced an argument."""
        if self._here[1] is not None:
            self._note_changes(self._here[1], {name: old}, {name: new})

    def end(
        self,
        place: Place,
        seconds: float,
        *,
        decided: bool,
        result: Any = None,
        inner: Any = None,
    ) -> None:
        """Close an entry; `result` is what it decided, in the place of `inner`."""
        record = place[1]
        if record is None:
            return
        record["seconds"] = round(seconds, 6)
        record["decided"] = decided
        if decided and result is not None and not isinstance(result, Draft):
            lines = _said(outline, result) if inner is None else _said(difference, inner, result)
            record["decision"] = lines

    def _settle(self) -> None:
        """Put what changed since the last switch down to who was running; only while tracing."""
        if self.records is None:
            return
        now = self._values()
        record = self._here[1]
        if record is not None:
            for before, after in zip(self._seen, now, strict=True):
                self._note_changes(record, before, after)
        self._seen = now

    def _values(self) -> list[dict[str, Any]]:
        """Return what every draft holds; a mapping is copied, as it may be changed in place."""
        if self.records is None:
            return []
        return [
            {k: dict(v) if isinstance(v, Mapping) else v for k, v in draft.values().items()}
            for draft in self._drafts
        ]

    @staticmethod
    def _note_changes(record: Record, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        names = [name for name in before if not _is_equal(before[name], after[name])]
        if not names:
            return
        record["changed"] = tuple(dict.fromkeys((*record["changed"], *names)))
        told = record.setdefault("diff", {})
        for name in names:
            lines = (*told.get(name, ()), *_said(difference, before[name], after[name]))
            told[name] = lines[:MOST_LINES]


def _is_equal(before: Any, after: Any) -> bool:
    if before is after:
        return True
    return isinstance(before, Mapping) and isinstance(after, Mapping) and before == after


def _said(tell: Callable[..., tuple[str, ...]], *values: Any) -> tuple[str, ...]:
    """Return what there is to show; watching must not change what is watched."""
    try:
        return tell(*values)
    except Exception as error:  # noqa: BLE001 - a plugin's own class may fail at `==`
        return (f"? cannot be shown: {error_text(error)}",)
