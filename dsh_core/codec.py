"""From the objects of this package to JSON and back.

JSON of a dataclass is its fields; a case of a sum type has its name beside them, as `type`. Fields
that are None, or begin with an underscore, are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from dsh_core.errors import HarnessError, LlmFailure
from dsh_core.forms import FormError, form_of, seal_object
from dsh_core.plain import MAX_DEPTH, JsonValue, check, clean_text, freeze
from dsh_core.tagged import Tagged, case, sum_type


class DecodeError(HarnessError):
    """JSON that does not fit the class it is to become; says where."""


def to_json(value: Any) -> JsonValue:
    """Turn a dataclass of this package, or plain JSON, into plain dicts and lists."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object_to_json(value)
    if isinstance(value, Iterable):
        return [to_json(item) for item in value]
    if isinstance(value, LlmFailure):
        return value.to_json()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _object_to_json(value: Any) -> dict[str, JsonValue]:
    cls: Any = type(value)
    out: dict[str, JsonValue] = {}
    if cls is getattr(cls, "unknown", None):
        return {"type": value.name, **to_json(value.fields)}
    if isinstance(value, Tagged):
        out["type"] = value.type
    for name, none_is_default in _written(cls):
        item = getattr(value, name)
        if item is not None or not none_is_default:
            out[name] = to_json(item)
    return out


@cache
def _written(cls: Any) -> tuple[tuple[str, bool], ...]:
    """Return the fields to write, each with whether None goes without saying."""
    return tuple(
        (field.name, field.default in (None, dataclasses.MISSING))
        for field in dataclasses.fields(cls)
        if not field.name.startswith("_")
    )


def from_json(hint: Any, value: JsonValue, where: str = "") -> Any:
    """Rebuild what `to_json` wrote; `hint` is the class, or the annotation, to build.

    Raises `DecodeError`, which says at which path the JSON does not fit.
    """
    try:
        return form_of(hint).read(value)
    except FormError as error:
        raise DecodeError(str(error.at(where) if where else error)) from None
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{where or 'value'}: {error}") from None


def seal(value: Any) -> Any:
    """Return a dataclass as it may enter the log: read-only, and readable from its JSON again.

    Itself where it is so already. Raises `ValueError` naming the field that does not fit its
    annotation, or holds what JSON cannot carry.
    """
    return seal_object(value)


__all__ = [
    "MAX_DEPTH",
    "DecodeError",
    "JsonValue",
    "Tagged",
    "case",
    "check",
    "clean_text",
    "freeze",
    "from_json",
    "seal",
    "sum_type",
    "to_json",
]
