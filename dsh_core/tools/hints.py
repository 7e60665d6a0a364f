"""Annotations turned into JSON Schema that knows how to make the annotated value from JSON."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from dsh_core.codec import JsonValue, freeze, to_json
from dsh_core.record import record
from dsh_core.tools.coerce import TYPES, type_of
from dsh_core.tools.docstring import parameter_docs
from dsh_core.tools.models import HintError, model_schema

ABSENT: Any = inspect.Parameter.empty
"""The default of a field that has none."""

_SCALARS: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
    Path: "string",
    PurePath: "string",
}
_MAKERS: Mapping[Any, Callable[[Any], Any]] = {float: float, Path: Path, PurePath: PurePath}
_LISTS = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable})
_MAPPINGS = frozenset({dict, abc.Mapping, abc.MutableMapping})


class HintSchema(dict[str, Any]):
    """A JSON Schema, and what makes the value from JSON that fits; None = the JSON itself."""

    make: Callable[[Any], Any] | None = None


@record()
class Field:
    """A parameter of a function, or a field of a dataclass or TypedDict."""

    name: str
    hint: Any
    required: bool = True
    default: Any = ABSENT


class Translator:
    """Translates the annotations of one function.

    `definitions` collects the schemas of pydantic models, for `$defs`. Every method raises
    `HintError` for annotations that have no JSON form.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}
        self._open: list[type] = []

    def object_of(self, fields: Iterable[Field], docs: Mapping[str, str]) -> HintSchema:
        """Return the schema of an object that has these fields and no others."""
        fields = list(fields)
        schema = HintSchema(
            type="object", properties={field.name: self._field(field, docs) for field in fields}
        )
        if required := [field.name for field in fields if field.required]:
            schema["required"] = required
        schema["additionalProperties"] = False
        return schema

    def schema_of(self, hint: Any) -> HintSchema:
        """Return the schema of an annotation."""
        hint = _unaliased(hint)
        origin = get_origin(hint)
        if origin is Annotated:
            return self._annotated(hint)
        if origin is Literal:
            return _enumerated(get_args(hint))
        if origin in (Union, types.UnionType):
            return self._union(get_args(hint))
        if hint is Any or hint is object:
            return HintSchema()
        container = origin or hint
        if isinstance(container, type):
            return self._class(hint, container, get_args(hint))
        return self._model(hint)

    def _field(self, field: Field, docs: Mapping[str, str]) -> HintSchema:
        try:
            schema = self.schema_of(field.hint)
        except HintError as error:
            raise HintError(f"`{field.name}`: {error}") from error
        if field.name in docs and not _described(field.hint):
            schema["description"] = docs[field.name]
        schema.pop("default", None)
        default = _default_json(field.default)
        if default is not ABSENT:
            schema["default"] = default
        return schema

    def _class(self, hint: Any, container: type, args: tuple[Any, ...]) -> HintSchema:
        if container in _LISTS or container is tuple:
            return self._array(container, args)
        if container in _MAPPINGS and (not args or args[0] in (str, Any)):
            extra = self.schema_of(args[1]) if args else True
            return HintSchema(type="object", additionalProperties=extra)
        if container is not hint:  # a generic class
            return self._model(hint)
        if container in _SCALARS:
            return _made(HintSchema(type=_SCALARS[container]), _MAKERS.get(container))
        if issubclass(container, Enum):
            return _enumerated(container)
        if hasattr(container, "__required_keys__") or _is_plain_dataclass(container):
            return self._fields_of(container)
        return self._model(hint)

    def _array(self, container: type, args: tuple[Any, ...]) -> HintSchema:
        schema = HintSchema(type="array")
        if container is not tuple:
            return HintSchema(schema, items=self.schema_of(args[0])) if args else schema
        if len(args) == 2 and args[1] is Ellipsis:
            schema["items"] = self.schema_of(args[0])
        elif args:
            schema["prefixItems"] = [self.schema_of(arg) for arg in args]
            schema["minItems"] = schema["maxItems"] = len(args)
        return _made(schema, tuple)

    def _union(self, args: tuple[Any, ...]) -> HintSchema:
        schemas = [self.schema_of(arg) for arg in args]
        return HintSchema(anyOf=schemas) if all(schemas) else HintSchema()

    def _annotated(self, hint: Any) -> HintSchema:
        if any(_is_for_pydantic(note) for note in hint.__metadata__):
            schema = self._model(hint)
        else:
            schema = self.schema_of(hint.__origin__)
        if description := _described(hint):
            schema["description"] = description
        return schema

    def _fields_of(self, cls: type) -> HintSchema:
        """Translate a dataclass or TypedDict; one that holds itself needs pydantic's `$defs`."""
        if cls in self._open:
            raise _SelfReferenceError(cls)
        self._open.append(cls)
        try:
            hints = get_type_hints(cls, include_extras=True)
            is_dataclass = dataclasses.is_dataclass(cls)
            fields = _dataclass_fields(cls, hints) if is_dataclass else _keys(cls, hints)
            schema = self.object_of(fields, parameter_docs(cls))
            return _made(schema, (lambda values: cls(**values)) if is_dataclass else None)
        except _SelfReferenceError as error:
            if error.cls is not cls:
                raise
            return self._model(cls)
        except NameError as error:
            raise HintError(f"{cls.__name__}: {error}") from error
        finally:
            self._open.remove(cls)

    def _model(self, hint: Any) -> HintSchema:
        schema, make = model_schema(hint, self.definitions)
        return _made(HintSchema(schema), make)


class _SelfReferenceError(Exception):
    def __init__(self, cls: type):
        super().__init__(cls.__name__)
        self.cls = cls


def _made(schema: HintSchema, make: Callable[[Any], Any] | None) -> HintSchema:
    schema.make = make
    return schema


def _unaliased(hint: Any) -> Any:
    """Look through `NewType` and `type X = ...`; None stands for its type."""
    while (inner := getattr(hint, "__supertype__", getattr(hint, "__value__", None))) is not None:
        hint = inner
    return types.NoneType if hint is None else hint


def _enumerated(members: Iterable[Any]) -> HintSchema:
    """Return the schema of a choice; enum members among them become their values."""
    by_value = {(m.value if isinstance(m, Enum) else m): m for m in members}
    values, names = list(by_value), {type_of(value) for value in by_value}
    if not names <= TYPES - {"array", "object"}:
        raise HintError(f"{values!r} are not all text, numbers, true, false or null")
    schema = HintSchema(enum=values)
    if len(names) == 1:
        schema = HintSchema(type=names.pop(), enum=values)
    has_member = any(isinstance(member, Enum) for member in by_value.values())
    return _made(schema, by_value.__getitem__ if has_member else None)


def _is_plain_dataclass(cls: type) -> bool:
    """Whether `cls(**fields)` makes one, without pydantic's part in it."""
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__pydantic_validator__"):
        return False
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    return names == set(inspect.signature(cls).parameters)


def _dataclass_fields(cls: Any, hints: Mapping[str, Any]) -> Iterable[Field]:
    for field in dataclasses.fields(cls):
        if field.init:
            default = ABSENT if field.default is dataclasses.MISSING else field.default
            required = default is ABSENT and field.default_factory is dataclasses.MISSING
            yield Field(field.name, hints[field.name], required, default)


def _keys(cls: Any, hints: Mapping[str, Any]) -> Iterable[Field]:
    for name, hint in hints.items():
        wrapper = get_origin(hint)
        required = wrapper is Required or (
            wrapper is not NotRequired and name in cls.__required_keys__
        )
        inner = get_args(hint)[0] if wrapper in (Required, NotRequired) else hint
        yield Field(name, inner, required)


def _described(hint: Any) -> str:
    """Return the text of `Annotated[X, "text"]` or `Annotated[X, Field(description="text")]`."""
    for note in getattr(hint, "__metadata__", ()):
        text = note if isinstance(note, str) else getattr(note, "description", None)
        if isinstance(text, str):
            return text
    return ""


def _is_for_pydantic(note: Any) -> bool:
    package = type(note).__module__.partition(".")[0]
    return package in ("pydantic", "annotated_types") or hasattr(
        note, "__get_pydantic_core_schema__"
    )


def _default_json(value: Any) -> JsonValue:
    """Return a default as JSON, `ABSENT` where it has no JSON form."""
    try:
        return to_json(freeze(_plain(value)))
    except ValueError:
        return ABSENT


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return value
