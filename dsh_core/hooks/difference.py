"""What a plugin changed, in a few lines a person can read; made only while tracing."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dsh_core.tagged import Tagged

MAX_LINES = 6
"""Of what went and of what came, each; the rest is counted."""
LINE_CHARS = 160
KEPT_CHARS = 30
"""As much of what two changed lines have in common is shown before they part."""
SCALARS = (str, int, float, type(None))


def difference(before: Any, after: Any) -> tuple[str, ...]:
    """Return lines that begin with `- ` for what went and `+ ` for what came.

    The time is linear in the size of both; what they have in common at both ends is passed over.
    """
    old, new = _trimmed(_items(before), _items(after))
    gone, come = _trimmed(_all_lines(old), _all_lines(new))
    shown = [_parting(pair) for pair in itertools.zip_longest(gone[:MAX_LINES], come[:MAX_LINES])]
    removed = [pair[0] for pair in shown if pair[0] is not None]
    added = [pair[1] for pair in shown if pair[1] is not None]
    return (
        *(f"- {line}" for line in removed),
        *_rest("-", len(gone)),
        *(f"+ {line}" for line in added),
        *_rest("+", len(come)),
    )


def outline(value: Any) -> tuple[str, ...]:
    """Return the first lines of a value."""
    lines = list(itertools.islice(_lines(value), MAX_LINES + 1))
    cut = ["…"] if len(lines) > MAX_LINES else []
    return (*(_cut(line) for line in lines[:MAX_LINES]), *cut)


def _items(value: Any) -> Sequence[Any]:
    """Return the parts that two versions of a value may have in common."""
    if isinstance(value, (tuple, list)):
        return value
    return list(_lines(value))


def _all_lines(items: Iterable[Any]) -> list[str]:
    return [line for item in items for line in _lines(item)]


def _trimmed(old: Sequence[Any], new: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Take away what both begin with, then what both end with."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and _same(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and _same(old[-1 - end], new[-1 - end]):
        end += 1
    return old[start : len(old) - end], new[start : len(new) - end]


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _parting(pair: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """Cut two lines so that the place where they part is seen."""
    old, new = pair
    if old is None or new is None:
        return old and _cut(old), new and _cut(new)
    pairs = enumerate(zip(old, new, strict=False))
    common = next((index for index, (a, b) in pairs if a != b), min(len(old), len(new)))
    if common <= KEPT_CHARS:
        return _cut(old), _cut(new)
    start = common - KEPT_CHARS
    return _cut(f"…{old[start:]}"), _cut(f"…{new[start:]}")


def _rest(sign: str, count: int) -> list[str]:
    return [f"{sign} … {count - MAX_LINES} more lines"] if count > MAX_LINES else []


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"


def _lines(value: Any) -> Iterator[str]:
    """Yield text as it is, and data as `field: text`, without fields that are empty."""
    if isinstance(value, str):
        yield from value.splitlines() or [""]
    elif isinstance(value, SCALARS):
        yield str(value)
    elif isinstance(value, Mapping):
        yield from _fields(value)
    elif isinstance(value, (tuple, list, set, frozenset)):
        for item in value:
            yield from _lines(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _record(value)
    else:
        yield type(value).__name__


def _record(value: Any) -> Iterator[str]:
    fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    fields = {name: item for name, item in fields.items() if item is not False}
    named = value.type if isinstance(value, Tagged) else ""
    if named and list(fields) == [named]:  # a text block is its text
        yield from _lines(fields[named])
        return
    if named:
        yield named
    yield from _fields(fields)


def _fields(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if value is not None and value not in ("", (), []) and not str(key).startswith("_"):
            for line in _lines(value):
                yield f"{key}: {line}"
