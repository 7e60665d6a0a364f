"""Plain JSON: copied read-only, and refused where it would not survive the way to a file and back.

Plain are None, booleans, finite numbers, text that is Unicode, lists, and mappings with text keys.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any, TypeAlias

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, or a sequence or string-keyed mapping of these."""

MAX_DEPTH = 200
"""Deepest nesting of JSON in an event; the `json` module overflows near 1,000."""

MAX_INT_BITS = 14_000
"""Python reads and writes integers of up to 4,300 decimal digits (`sys.set_int_max_str_digits`)."""


_NOTHING: Mapping[str, Any] = types.MappingProxyType({})


def freeze(value: JsonValue, *, repair: bool = False) -> JsonValue:
    """Copy plain JSON into read-only form: mappings stay mappings, lists become tuples.

    Iterative, so that depth cannot overflow the stack. Raises `ValueError` on what JSON cannot
    carry without loss: NaN, infinities, negative zero, huge integers, cycles, keys that are not
    text, lone surrogates, objects; and beyond `MAX_DEPTH`, where JSON writers give up.

    Args:
        value: What to copy.
        repair: Replace lone surrogates by U+FFFD instead of refusing them, for what is read.

    """
    if not isinstance(value, (Mapping, list, tuple)):
        return check(value, repair=repair)
    if not value:
        return _NOTHING if isinstance(value, Mapping) else ()
    return _freeze_container(value, repair=repair)


def check(value: JsonValue, *, repair: bool = False) -> JsonValue:
    """Return a JSON scalar, or raise `ValueError` saying why it is none."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return clean_text(value) if repair else check_text(value)
    if type(value) is int:
        if value.bit_length() > MAX_INT_BITS:
            raise ValueError(f"an integer of {value.bit_length()} bits is too large for JSON")
        return value
    if type(value) is float:
        if not math.isfinite(value) or (value == 0 and math.copysign(1.0, value) < 0):
            raise ValueError(f"{value!r} is not JSON")
        return value
    raise ValueError(f"{type(value).__name__} is not JSON")


def check_text(text: str) -> str:
    """Return text, of a subclass as plain `str`; raises `ValueError` for lone surrogates."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"a lone surrogate at character {error.start} is not text") from None
    return text if type(text) is str else str.__str__(text)


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD, joining pairs that arrived in two halves."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _freeze_container(root: JsonValue, *, repair: bool) -> JsonValue:
    """Depth-first without recursion: containers are built when their children are done."""
    done: list[Any] = []
    open_ids: set[int] = set()
    stack: list[tuple[str, Any]] = [("visit", root)]
    while stack:
        action, item = stack.pop()
        if action == "build":
            open_ids.discard(id(item))
            done.append(_build(item, done, repair=repair))
        elif isinstance(item, (Mapping, list, tuple)):
            if id(item) in open_ids:
                raise ValueError("a value that contains itself is not JSON")
            open_ids.add(id(item))
            if len(open_ids) > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
            stack.append(("build", item))
            children = list(item.values()) if isinstance(item, Mapping) else list(item)
            stack.extend(("visit", child) for child in reversed(children))
        else:
            done.append(check(item, repair=repair))
    return done[0]


def _build(item: Any, done: list[Any], *, repair: bool) -> Any:
    count = len(item)
    children = done[len(done) - count :]
    del done[len(done) - count :]
    if isinstance(item, Mapping):
        keys = [_key(key, repair=repair) for key in item]
        return types.MappingProxyType(dict(zip(keys, children, strict=True)))
    return tuple(children)


def _key(key: Any, *, repair: bool) -> str:
    if not isinstance(key, str):
        raise ValueError(f"key {key!r} is not text")  # noqa: TRY004 - one kind of error
    return clean_text(key) if repair else check_text(key)
