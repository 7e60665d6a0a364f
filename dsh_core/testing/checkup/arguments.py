"""Arguments for a tool that nobody knows, made from its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8


def arguments_for(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return arguments that fit a tool's JSON Schema; every free text among them is `text`."""
    made = _value(schema, schema, text, 0)
    return made if isinstance(made, dict) else {}


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> Any:
    schema = _resolved(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _value(schema[key][0], root, text, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else None)
    return _of_type(kind[0] if isinstance(kind, list) else kind, schema, root, text, depth)


def _of_type(
    kind: str | None, schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int
) -> Any:
    match kind:
        case "string":
            return text[: schema.get("maxLength", len(text))]
        case "integer" | "number":
            return schema.get("minimum", min(1, schema.get("maximum", 1)))
        case "boolean":
            return False
        case "array":
            count = schema.get("minItems", 0)
            return [_value(schema.get("items", {}), root, text, depth + 1) for _ in range(count)]
        case "object" if depth < MAX_DEPTH:
            wanted = schema.get("required", ())
            properties = schema.get("properties", {})
            return {
                name: _value(properties.get(name, {}), root, text, depth + 1) for name in wanted
            }
    return None


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {})
    return found if isinstance(found, Mapping) else {}
