"""Annotations that only pydantic understands. Importing pydantic costs about 60 ms, so it waits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsh_core.codec import JsonValue
from dsh_core.tools.violations import MisfitError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_NOT_SCHEMAS = frozenset({"default", "enum", "const", "examples"})


class HintError(Exception):
    """An annotation that cannot become a JSON Schema; says why."""


def model_schema(
    hint: Any, definitions: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[JsonValue], Any]]:
    """Return the JSON Schema of an annotation and what makes its value from JSON.

    Schemas it refers to are added to `definitions`. Unknown fields of a model are refused unless
    the model allows extra ones, so that a misspelt field is named and not dropped.
    """
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(hint)
        schema = _merged(adapter, definitions)
    except (PydanticUserError, NameError) as error:
        raise HintError(str(error).partition("\n")[0]) from error

    def make(value: JsonValue) -> Any:
        try:
            return adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            raise MisfitError(
                *((found["loc"], _words(found["msg"])) for found in problems)
            ) from None

    return schema, make


def _words(message: str) -> str:
    """Drop what pydantic puts before the words of an author's own check."""
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _merged(adapter: TypeAdapter[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema; its definitions get a number where another type has their name."""
    for number in itertools.count(1):
        suffix = "" if number == 1 else f"_{number}"
        schema: dict[str, Any] = _tidy(
            adapter.json_schema(ref_template=f"#/$defs/{{model}}{suffix}")
        )
        own = {f"{name}{suffix}": part for name, part in schema.pop("$defs", {}).items()}
        if all(definitions.get(name, part) == part for name, part in own.items()):
            definitions.update(own)
            return schema
    raise AssertionError("unreachable")


def _tidy(schema: Any) -> Any:
    """Drop titles, which repeat the names, and close objects to unknown fields."""
    if isinstance(schema, list):
        return [_tidy(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {
        name: part if name in _NOT_SCHEMAS else _tidy(part)
        for name, part in schema.items()
        if name != "title" or not isinstance(part, str)
    }
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        tidied.setdefault("additionalProperties", False)
    return tidied
