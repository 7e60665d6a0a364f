"""From the provider's raw string to the arguments of a call."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dsh_core.codec import clean_text

EXCERPT_CHARACTERS = 200


class BadArgumentsError(ValueError):
    """The raw string is not a JSON object; the message is for the model."""


def parse_arguments(raw: str) -> Mapping[str, Any]:
    """Return the JSON object a raw string holds; an empty string counts as `{}`.

    Raises `BadArgumentsError` with the parser's complaint and a bounded excerpt.
    """
    if not raw.strip():
        return {}
    try:
        value = _DECODER.decode(raw)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise BadArgumentsError(
            f"the arguments are not valid JSON ({reason}); the call did not run. "
            f"Received: {_excerpt(raw)}"
        ) from None
    if not isinstance(value, dict):
        raise BadArgumentsError(
            f"the arguments must be a JSON object, not {_kind(value)}; the call did not run. "
            f"Received: {_excerpt(raw)}"
        )
    return _clean(value) if "\\u" in raw or not raw.isascii() else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number or 0.0  # a negative zero means nothing more


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_number)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "an array", str: "a string", bool: "a boolean"}.get(type(value), "a number")


def _excerpt(raw: str) -> str:
    text = clean_text(raw)
    if len(text) <= EXCERPT_CHARACTERS:
        return text
    return f"{text[:EXCERPT_CHARACTERS]}… ({len(text)} characters)"


def _clean(value: Any) -> Any:
    """Replace lone surrogates in all text of a parsed value."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value
