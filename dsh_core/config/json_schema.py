"""One JSON Schema (2020-12) for `dsh.yaml`, so that editors complete and check it."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from dsh_core.config.schema import AgentSection, ConfigFile, ModelSection, ProviderSection

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CONVERTED = ("integer", "number", "boolean")
_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def json_schema(plugin_schemas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of the format, with the settings of plugins where they may stand.

    Args:
        plugin_schemas: Plugin name → the JSON Schema of its `Settings`. A name that is not here is
            accepted with any settings: its plugin is not installed.
    """
    schema = ConfigFile.model_json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    _describe(ConfigFile, schema)
    for model in (AgentSection, ModelSection, ProviderSection):
        _describe(model, definitions[model.__name__])
    sections: dict[str, Any] = {}
    for name, plugin_schema in plugin_schemas.items():
        definitions[f"plugin.{name}"] = _moved(plugin_schema, name, definitions)
        reference = {"$ref": f"#/$defs/plugin.{name}"}
        sections[name] = {"anyOf": [reference, {"type": ["boolean", "null"]}]}
    for owner in (schema, definitions["AgentSection"]):
        owner["properties"]["plugins"]["properties"] = sections
    autoload = schema["properties"]["autoload"]  # written out: no variable switches plugins
    schema = _with_variables(schema)
    schema["properties"]["autoload"] = autoload
    return {"$schema": _DIALECT, **schema}


def _describe(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Add the text under each field.

    pydantic's `use_attribute_docstrings` does the same while the class is made, which costs every
    start of dsh 15 ms for what only `dsh config schema` needs.
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, text in pairwise(body.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                schema["properties"][name]["description"] = inspect.cleandoc(words)


def _moved(schema: Mapping[str, Any], name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Move a plugin's own definitions beside ours; nothing is required: files may give a part."""
    moved = {key: value for key, value in copy.deepcopy(dict(schema)).items() if key != "$schema"}
    moved.pop("required", None)
    for key, value in moved.pop("$defs", {}).items():
        definitions[f"plugin.{name}.{key}"] = _renamed(value, name)
    renamed: dict[str, Any] = _renamed(moved, name)
    return renamed


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_renamed(item, name) for item in value]
    if not isinstance(value, dict):
        return value
    renamed = {key: _renamed(item, name) for key, item in value.items()}
    reference = renamed.get("$ref")
    if isinstance(reference, str):
        renamed["$ref"] = reference.replace("#/$defs/", f"#/$defs/plugin.{name}.")
    return renamed


def _with_variables(value: Any) -> Any:
    """Let `${NAME}` stand wherever a number or a boolean may."""
    if isinstance(value, list):
        return [_with_variables(item) for item in value]
    if not isinstance(value, dict):
        return value
    schema = {key: _with_variables(item) for key, item in value.items()}
    if schema.get("type") not in _CONVERTED:
        return schema
    notes = {key: schema.pop(key) for key in ("title", "description", "default") if key in schema}
    return {**notes, "anyOf": [schema, _VARIABLE]}
