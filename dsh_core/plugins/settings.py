"""A plugin's settings: layers merged by the rules of the configuration, then validated.

A plugin declares `Settings`, a frozen dataclass or a pydantic model. Fields are marked with
`Annotated[…, ADD]` (lists that add up over all layers) and `Annotated[…, TRUSTED_ONLY]` (ignored in
a project file the user has not trusted).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_type_hints

from dsh_core.config.model import Layer
from dsh_core.errors import ConfigError


class SettingMark:
    """A property of a settings field, given in `Annotated`."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return self.name


ADD: Final = SettingMark("ADD")
"""The field's lists add up over all layers; no layer removes an entry."""
TRUSTED_ONLY: Final = SettingMark("TRUSTED_ONLY")
"""The field is ignored in a project file the user has not trusted."""


def field_names(settings: type[Any]) -> tuple[str, ...]:
    """Return the fields of a Settings class."""
    if dataclasses.is_dataclass(settings):
        return tuple(field.name for field in dataclasses.fields(settings))
    return tuple(settings.model_fields)


def marked(settings: type[Any], mark: SettingMark) -> frozenset[str]:
    """Return the fields that carry a mark."""
    hints = get_type_hints(settings, include_extras=True)
    return frozenset(
        name for name in field_names(settings) if mark in getattr(hints[name], "__metadata__", ())
    )


def merge(
    settings: type[Any], plugin: str, layers: Sequence[Layer]
) -> tuple[dict[str, Any], list[str]]:
    """Merge layers, weakest first; return the values and one note for each ignored field.

    Mappings merge by key, scalars and lists replace, fields marked `ADD` add.
    Raises `ConfigError` for an unknown field, with the nearest one.
    """
    known = field_names(settings)
    add = marked(settings, ADD)
    guarded = marked(settings, TRUSTED_ONLY)
    values: dict[str, Any] = {}
    notes: list[str] = []
    for layer in layers:
        if layer.values is False:
            continue
        for name, value in layer.values.items():
            if name not in known:
                raise _unknown(plugin, layer, name, known)
            if name in guarded and not layer.trusted:
                notes.append(
                    f"{_place(plugin, layer, (name,))} is ignored until you trust this folder"
                )
            elif name in add and isinstance(values.get(name), list) and isinstance(value, list):
                values[name] = [*values[name], *(v for v in value if v not in values[name])]
            else:
                values[name] = merged_value(values.get(name), value)
    return values, notes


def merged_value(old: Any, new: Any) -> Any:
    """Merge mappings key by key; anything else replaces."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: merged_value(old.get(key), value) for key, value in new.items()}}
    return new


def build(settings: type[Any], plugin: str, values: dict[str, Any], layers: Sequence[Layer]) -> Any:
    """Make the Settings object. Raises `ConfigError` listing every violation with its place."""
    if not values and dataclasses.is_dataclass(settings):
        try:
            return settings()
        except TypeError as error:
            raise ConfigError(f"a setting is missing: {error}", where=f"plugins.{plugin}") from None
    import pydantic

    try:
        return pydantic.TypeAdapter(settings).validate_python(values)
    except pydantic.ValidationError as error:
        problems = [
            f"{_origin(plugin, layers, tuple(p['loc']))}: {p['msg']}"
            for p in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise ConfigError(
            "\n".join(problems), remedy=f"`dsh plugins info {plugin}` lists its settings."
        ) from None


def json_schema(settings: type[Any] | None) -> dict[str, Any]:
    """Return JSON Schema of a Settings class; None = a plugin without settings."""
    if settings is None:
        return {"type": "object", "additionalProperties": False}
    import pydantic

    schema = pydantic.TypeAdapter(settings).json_schema()
    schema.setdefault("additionalProperties", False)
    return schema


def _unknown(plugin: str, layer: Layer, name: str, known: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(known) or "none"
    return ConfigError(
        f"there is no such setting {name!r}",
        where=_place(plugin, layer, (name,)),
        remedy=f"{hint}Settings of {plugin}: {listed}.",
    )


def _origin(plugin: str, layers: Sequence[Layer], path: tuple[Any, ...]) -> str:
    """Return where the strongest layer says something about a path."""
    for layer in reversed(layers):
        if layer.values is not False and path and path[0] in layer.values:
            return _place(plugin, layer, path)
    return ".".join(["plugins", plugin, *map(str, path)])


def _place(plugin: str, layer: Layer, path: tuple[Any, ...]) -> str:
    key = ".".join(["plugins", plugin, *map(str, path)])
    line = layer.lines.get(".".join(map(str, path))) or layer.lines.get(str(path[0]))
    return f"{layer.source}:{line}: {key}" if line else f"{layer.source}: {key}"
