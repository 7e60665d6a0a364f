"""A plugin's settings: layers merged by the rules of the configuration, then validated.

A plugin declares `Settings`, a frozen dataclass or a pydantic model. Fields are marked with
`Annotated[…, ADD]` (lists that add up over all layers) and `Annotated[…, UNTRUSTED_OK]` (counts in
a project file the user has not trusted; the others do not, `dsh_core.plugins.trusting`).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dsh_core.config.model import Layer
from dsh_core.errors import ConfigError, error_chain
from dsh_core.marks import ADD
from dsh_core.plugins.trusting import admitted, field_names, marked
from dsh_core.record import record

_TEXT_ERRORS = ("string_type", "string_sub_type")
_PLUGIN_ERRORS = ("value_error", "assertion_error")
"""Types of pydantic errors whose text a plugin wrote; it may hold the value."""


@record()
class Placed:
    """A layer and the key path its settings stand at, as in `agents.coder.plugins.shell`."""

    prefix: str
    layer: Layer

    def where(self, path: Sequence[Any]) -> str:
        """Say file, line and key path of a setting, or of the nearest one around it."""
        key = ".".join([self.prefix, *map(str, path)])
        for length in range(len(path), -1, -1):
            line = self.layer.lines.get(_dotted(path[:length]))
            if line is not None:
                return f"{self.layer.source}:{line}: {key}"
        return f"{self.layer.source}: {key}"

    def says(self, path: Sequence[Any]) -> bool:
        """Whether this layer says anything at a path."""
        return self.value(path) is not _NOTHING

    def value(self, path: Sequence[Any]) -> Any:
        """Return what this layer says at a path, `_NOTHING` where it says nothing."""
        value: Any = self.layer.values or {}
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return _NOTHING
        return value


_NOTHING: Final = object()


def placed(prefix: str, layers: Iterable[Layer]) -> tuple[Placed, ...]:
    """Return layers with the key path they stand at."""
    return tuple(Placed(prefix, layer) for layer in layers)


def admit(
    settings: type[Any], plugin: str, layers: Sequence[Placed]
) -> tuple[tuple[Placed, ...], list[str]]:
    """Return the layers without what untrusted ones may not say, and a note for each such value.

    Raises `ConfigError` for an unknown field, with the nearest one, in trusted layers or not.
    """
    known = field_names(settings)
    kept: list[Placed] = []
    notes: list[str] = []
    for one in layers:
        unknown = next((name for name in one.layer.values or {} if name not in known), None)
        if unknown is not None:
            raise _unknown(plugin, one, unknown, known)
        if one.layer.values and not one.layer.trusted:
            values, ignored = admitted(settings, one.layer.values)
            notes.extend(ignored_line(one.where(path)) for path in ignored)
            one = Placed(one.prefix, dataclasses.replace(one.layer, values=values))
        kept.append(one)
    return tuple(kept), notes


def admit_nothing(layers: Sequence[Placed]) -> tuple[tuple[Placed, ...], list[str]]:
    """Return the layers without untrusted settings, of a plugin whose fields nobody knows."""
    kept: list[Placed] = []
    notes: list[str] = []
    for one in layers:
        if one.layer.values and not one.layer.trusted:
            notes.extend(ignored_line(one.where((name,))) for name in one.layer.values)
            one = Placed(one.prefix, dataclasses.replace(one.layer, values={}))
        kept.append(one)
    return tuple(kept), notes


def ignored_line(where: str) -> str:
    """Say that something in an untrusted file does not count."""
    from dsh_core.config.trust import UNTIL_TRUSTED

    return f"{where} is ignored {UNTIL_TRUSTED}"


def merge(settings: type[Any], layers: Sequence[Placed]) -> dict[str, Any]:
    """Merge admitted layers, weakest first.

    Mappings merge by key, scalars and lists replace, fields marked `ADD` add. Raises `ConfigError`
    for an `ADD` field that is no list.
    """
    add = marked(settings, ADD)
    values: dict[str, Any] = {}
    for one in layers:
        for name, value in (one.layer.values or {}).items():
            if name in add:
                values[name] = _added(values.get(name, []), value, one.where((name,)))
            else:
                values[name] = merged_value(values.get(name), value)
    return values


def merged_value(old: Any, new: Any) -> Any:
    """Merge mappings key by key; anything else replaces."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: merged_value(old.get(key), value) for key, value in new.items()}}
    return new


def _added(old: list[Any], new: Any, where: str) -> list[Any]:
    if not isinstance(new, (list, tuple)):
        raise ConfigError("a list is wanted", where=where, remedy="Write it in brackets: [one].")
    return [*old, *(item for item in new if item not in old)]


def build(
    settings: type[Any], plugin: str, values: dict[str, Any], layers: Sequence[Placed]
) -> Any:
    """Make the Settings object. Raises `ConfigError` listing every violation with its place."""
    try:
        if not values and _needs_nothing(settings):
            return settings()
        return _validated(settings, plugin, values, layers)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the settings cannot be made: {error_chain(error)}", where=f"plugins.{plugin}"
        ) from error


def _needs_nothing(settings: type[Any]) -> bool:
    """Whether a dataclass can be made without pydantic, which takes a while to import."""
    return dataclasses.is_dataclass(settings) and all(
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(settings)
        if field.init
    )


def _validated(
    settings: type[Any], plugin: str, values: dict[str, Any], layers: Sequence[Placed]
) -> Any:
    import pydantic

    try:
        try:
            return _checked(settings, values)
        except pydantic.ValidationError as error:
            restored = _with_texts(values, _problems(settings, error), layers)
            if restored == values:
                raise
            return _checked(settings, restored)
    except pydantic.ValidationError as error:
        problems = [
            f"{_origin(plugin, layers, one.path, marked(settings, ADD))}: {_said(one, layers)}"
            for one in _problems(settings, error)
        ]
        raise ConfigError(
            "\n".join(problems), remedy=f"`dsh plugins info {plugin}` lists its settings."
        ) from None


class _Problem(NamedTuple):
    path: tuple[Any, ...]
    kind: str
    message: str


def _checked(settings: type[Any], values: Any) -> Any:
    """Validate; dataclasses inside a model of ours, which refuses unknown keys at every level."""
    import pydantic

    if not dataclasses.is_dataclass(settings):
        return pydantic.TypeAdapter(settings).validate_python(values)
    strict = pydantic.ConfigDict(extra="forbid")
    holder: Any = pydantic.create_model("Holder", __config__=strict, held=(settings, ...))
    return holder(held=values).held


def _problems(settings: type[Any], error: Any) -> list[_Problem]:
    depth = 1 if dataclasses.is_dataclass(settings) else 0
    return [
        _Problem(one["loc"][depth:], one["type"], str(one["msg"]))
        for one in error.errors(include_url=False)
    ]


def _with_texts(values: Any, problems: Sequence[_Problem], layers: Sequence[Placed]) -> Any:
    """Return the values with numbers as they were written, where text is wanted."""
    for path, kind, _ in problems:
        if kind in _TEXT_ERRORS and path:
            saying = next((o for o in reversed(layers) if o.value(path) is not _NOTHING), None)
            text = saying.layer.written.get(_dotted(path)) if saying is not None else None
            if text is not None:
                values = _replaced(values, path, text)
    return values


def _replaced(values: Any, path: Sequence[Any], new: Any) -> Any:
    if not path:
        return new
    copy = list(values) if isinstance(values, (list, tuple)) else dict(values)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], new)
    return copy


def _origin(
    plugin: str, layers: Sequence[Placed], path: Sequence[Any], add: Collection[str] = ()
) -> str:
    """Say where the strongest layer says something about a path, or about what is around it."""
    if len(path) > 1 and path[0] in add and isinstance(path[1], int):
        return _added_origin(layers, path)
    for length in range(len(path), 0, -1):
        for one in reversed(layers):
            if one.value(path[:length]) is not _NOTHING:
                return one.where(path)
    prefix = layers[-1].prefix if layers else f"plugins.{plugin}"
    return ".".join([prefix, *map(str, path)])


def _added_origin(layers: Sequence[Placed], path: Sequence[Any]) -> str:
    """Say which layer an item of a list is from that adds up over layers."""
    values: list[Any] = []
    for one in layers:
        own = (one.layer.values or {}).get(path[0], ())
        new = [index for index, item in enumerate(own) if item not in values]
        if path[1] < len(values) + len(new):
            return one.where((path[0], new[path[1] - len(values)], *path[2:]))
        values += [own[index] for index in new]
    return layers[-1].where(path)


def _said(problem: _Problem, layers: Sequence[Placed]) -> str:
    """Say a violation. A text of the plugin's own is not shown where it may hold a variable's."""
    path, kind, message = problem
    is_foreign = kind in _PLUGIN_ERRORS
    texts = [
        text
        for one in layers
        for key, text in one.layer.variables.items()
        if _is_at(key, _dotted(path)) or (is_foreign and _is_at(_dotted(path), key))
    ]
    if not texts:
        return message
    return f"{'it does not fit' if is_foreign else message} (written as {', '.join(texts)})"


def _is_at(around: str, path: str) -> bool:
    """Whether a key path is another, or lies in it."""
    return not around or path == around or path.startswith(f"{around}.")


def json_schema(settings: type[Any] | None) -> dict[str, Any]:
    """Return JSON Schema of a Settings class; None = a plugin without settings."""
    if settings is None:
        return {"type": "object", "additionalProperties": False}
    import pydantic

    schema: dict[str, Any] = pydantic.TypeAdapter(settings).json_schema()
    schema.setdefault("additionalProperties", False)
    return schema


def _unknown(plugin: str, one: Placed, name: str, known: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = ", ".join(known) or "none"
    return ConfigError(
        f"there is no such setting {name!r}",
        where=one.where((name,)),
        remedy=f"{hint}Settings of {plugin}: {listed}.",
    )


def _dotted(path: Sequence[Any]) -> str:
    return ".".join(map(str, path))
