"""The JSON type of a value, what text and numbers clearly mean as another, and words for both.

Models send `"2"` for 2, `"true"` for true, `'["a"]'` for `["a"]`. Where the schema wants no text,
such text has one meaning. A number where text is wanted has not: `007` would be lost as 7.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dsh_core.codec import JsonValue

MISFIT: Final[Any] = object()
"""The answer of `fitted` for a value that is not, and does not clearly mean, a wanted type."""

DEPTH_LIMIT = 128
"""Nesting that is accepted: what serde_json takes, and far below what Python's own json can do."""

EXACT_FLOAT_LIMIT = 2**53
"""Beyond this a float is no exact integer (IEEE 754 binary64)."""

SHOWN_CHARACTERS = 60

_NAMES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}
_WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_SPELLINGS = {"true": "true", "false": "false", "null": "null", "none": "null"}

TYPES = frozenset(_WORDS)
"""The types JSON Schema knows."""


def type_of(value: object) -> str:
    """Return the most special JSON Schema type of a value; "" for what is not JSON."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, (list, tuple)) else ""


def fitted(value: JsonValue, types: frozenset[str], *, lenient: bool) -> JsonValue:
    """Return the value as one of `types`, or `MISFIT`.

    A number without fraction is an integer, as JSON Schema has it. Only where `lenient`, text that
    is JSON of a wanted type counts as that, unless text is wanted itself.
    """
    kind = type_of(value)
    if kind == "number":
        if "number" in types:
            return value + 0.0  # -0.0 becomes 0.0: the session log takes no negative zero
        exact = value.is_integer() and abs(value) <= EXACT_FLOAT_LIMIT
        return int(value) if exact and "integer" in types else MISFIT
    if kind in types or (kind == "integer" and "number" in types):
        return value
    return _from_text(value, types) if lenient and kind == "string" else MISFIT


def is_deep(value: JsonValue) -> bool:
    """Whether lists and objects are nested more than `DEPTH_LIMIT` deep."""
    if value is None or isinstance(value, (str, int, float)):
        return False
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [item for container in level for item in _containers_in(container)]
        if not level:
            return False
    return True


def expected(types: Iterable[str]) -> str:
    """Say types in words, as in `an integer or null`."""
    wanted = frozenset(types)
    if "number" in wanted:
        wanted -= {"integer"}
    words = [word for name, word in _WORDS.items() if name in wanted]
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def shown(value: JsonValue) -> str:
    """Say a value in few words, whatever its size; containers by their type only."""
    if isinstance(value, str):
        cut = value[:SHOWN_CHARACTERS]
        return repr(cut) if len(cut) == len(value) else f"{cut!r}…"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        huge = abs(value) >= 10**SHOWN_CHARACTERS
        return f"an integer of more than {SHOWN_CHARACTERS} digits" if huge else str(value)
    if isinstance(value, float):
        return repr(value)
    return _WORDS.get(type_of(value), f"a {type(value).__name__}")


def _from_text(text: str, types: frozenset[str]) -> JsonValue:
    try:
        spelling = _SPELLINGS.get(text.strip().lower(), text)
        value = json.loads(spelling, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return MISFIT
    return MISFIT if is_deep(value) else fitted(value, types, lenient=False)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _containers_in(container: JsonValue) -> list[JsonValue]:
    if isinstance(container, Mapping):
        container = container.values()
    elif not isinstance(container, (list, tuple)):
        return []
    return [item for item in container if isinstance(item, (dict, list, tuple, Mapping))]
