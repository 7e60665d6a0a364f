"""Open sum types as frozen dataclasses, and their way to JSON and back.

A sum type is a direct subclass of `Tagged`; `@case("name")` makes a class one of its cases. Plugins
add cases the same way. JSON of a case is its fields beside a `type` key; fields that are None or
begin with an underscore are left out. A name that nobody registered loads as the sum type's
`unknown` case, which keeps everything verbatim.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import (
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from dsh_core.errors import HarnessError, LlmFailure

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, or a sequence or string-keyed mapping of these."""

C = TypeVar("C")

MAX_DEPTH = 200
"""Deepest nesting of JSON in an event; the `json` module overflows near 1,000."""


class DecodeError(HarnessError):
    """JSON that does not fit the class it is to become; says where."""


class Tagged:
    """The base of every open sum type: blocks, events, chunks, sources, triggers, end reasons."""

    __slots__ = ()
    cases: ClassVar[dict[str, Any]]
    unknown: ClassVar[Any] = None
    type: ClassVar[str]


@dataclass_transform(frozen_default=True)
def case(name: str) -> Callable[[type[C]], type[C]]:
    """Make the class below a frozen, slotted dataclass and the case `name` of its sum type.

    Raises `TypeError` when another class already has the name.
    """

    def decorate(cls: type[C]) -> type[C]:
        made = dataclasses.dataclass(frozen=True, slots=True)(cls)
        _fast_init(made)
        made.type = name  # type: ignore[attr-defined]
        cases = _cases_of(made)
        known = cases.get(name)
        if known is not None and (known.__module__, known.__qualname__) != (
            made.__module__,
            made.__qualname__,
        ):
            raise TypeError(f"{name!r} is already {known.__module__}.{known.__qualname__}")
        cases[name] = made
        return made

    return decorate


def sum_type(cls: type[C]) -> type[C]:
    """Mark a direct subclass of `Tagged` as a sum type of its own."""
    cls.cases = {}  # type: ignore[attr-defined]
    return cls


def _cases_of(cls: type[Any]) -> dict[str, type[Any]]:
    cases: dict[str, type[Any]] = cls.cases
    return cases


def _fast_init(cls: type[Any]) -> None:
    """Give a frozen class an `__init__` that sets its slots directly.

    The one `dataclasses` writes calls `object.__setattr__` by name for each field, which costs
    twice as much; chunks and events are made once per token.
    """
    fields = dataclasses.fields(cls)
    if hasattr(cls, "__post_init__"):
        return
    scope: dict[str, Any] = {}
    parameters, lines = [], []
    for field in fields:
        scope[f"set_{field.name}"] = getattr(cls, field.name).__set__
        value = field.name
        if field.default is not dataclasses.MISSING:
            scope[f"default_{field.name}"] = field.default
        if field.default_factory is not dataclasses.MISSING:
            scope[f"make_{field.name}"] = field.default_factory
        if not field.init:
            value = (
                f"make_{field.name}()"
                if f"make_{field.name}" in scope
                else (f"default_{field.name}")
            )
        elif f"default_{field.name}" in scope:
            parameters.append(f"{field.name}=default_{field.name}")
        elif f"make_{field.name}" in scope:
            scope["missing"] = dataclasses.MISSING
            parameters.append(f"{field.name}=missing")
            value = f"make_{field.name}() if {field.name} is missing else {field.name}"
        else:
            parameters.append(field.name)
        lines.append(f"    set_{field.name}(self, {value})")
    body = "\n".join(lines) or "    pass"
    exec(f"def __init__({', '.join(['self', *parameters])}):\n{body}", scope)  # noqa: S102 - as dataclasses does
    scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = scope["__init__"]


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
    writer = getattr(value, "write_json", None)
    if writer is not None:
        written: dict[str, JsonValue] = writer()
        return written
    out: dict[str, JsonValue] = {}
    if isinstance(value, Tagged):
        out["type"] = value.type
    for name in _field_names(type(value)):
        item = getattr(value, name)
        if item is not None:
            out[name] = to_json(item)
    return out


@cache
def _field_names(cls: Hashable) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cast(Any, cls)) if not f.name.startswith("_"))


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return get_type_hints(cls)


def from_json(hint: Any, value: JsonValue, where: str = "") -> Any:
    """Rebuild what `to_json` wrote; `hint` is the class, or the annotation, to build.

    Raises `DecodeError`, which says at which path the JSON does not fit.
    """
    if hint is Any or hint is object:
        return freeze(value)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _from_union(get_args(hint), value, where)
    if origin is tuple:
        return _from_tuple(get_args(hint), value, where)
    if origin in (Mapping, dict) or hint in (Mapping, dict):
        _require(isinstance(value, Mapping), "a mapping", value, where)
        return freeze(value)
    if hint is LlmFailure:
        _require(isinstance(value, Mapping), "a failure", value, where)
        return LlmFailure.from_json(value)
    if origin is not None:  # Literal and friends
        _require(value in get_args(hint), f"one of {get_args(hint)}", value, where)
        return value
    if isinstance(hint, type) and issubclass(hint, Tagged):
        return _from_tagged(hint, value, where)
    if dataclasses.is_dataclass(hint):
        return _from_fields(cast(Any, hint), value, where)
    if hint is float:
        _require(
            isinstance(value, (int, float)) and not isinstance(value, bool),
            "a number",
            value,
            where,
        )
        return float(value)
    _require(
        isinstance(value, hint) and (hint is bool or not isinstance(value, bool)),
        f"of type {getattr(hint, '__name__', hint)}",
        value,
        where,
    )
    return value


def _from_union(options: tuple[Any, ...], value: JsonValue, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    real = [option for option in options if option is not type(None)]
    errors = []
    for option in real:
        try:
            return from_json(option, value, where)
        except DecodeError as error:
            errors.append(error)
    raise errors[0]


def _from_tuple(items: tuple[Any, ...], value: JsonValue, where: str) -> tuple[Any, ...]:
    _require(isinstance(value, (list, tuple)), "a list", value, where)
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(from_json(items[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    _require(len(items) == len(value), f"a list of {len(items)}", value, where)
    return tuple(
        from_json(h, v, f"{where}[{i}]") for i, (h, v) in enumerate(zip(items, value, strict=True))
    )


def _from_tagged(hint: type[Any], value: JsonValue, where: str) -> Any:
    _require(isinstance(value, Mapping), f"a {hint.__name__}", value, where)
    if dataclasses.is_dataclass(hint):
        return _from_fields(hint, value, where)
    name = value.get("type")
    cls = hint.cases.get(name) if isinstance(name, str) else None
    if cls is not None:
        return _from_fields(cls, value, where)
    if hint.unknown is None or not isinstance(name, str):
        raise DecodeError(f"{where or hint.__name__}: unknown type {name!r}")
    rest = {key: item for key, item in value.items() if key != "type"}
    return hint.unknown(name, freeze(rest))


def _from_fields(cls: type[Any], value: JsonValue, where: str) -> Any:
    _require(isinstance(value, Mapping), f"a {cls.__name__}", value, where)
    hints = _hints(cls)
    arguments = {}
    for field in dataclasses.fields(cls):
        if field.name.startswith("_"):
            continue
        path = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            arguments[field.name] = from_json(hints[field.name], value[field.name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            if type(None) not in get_args(hints[field.name]):
                raise DecodeError(f"{path}: is missing")
            arguments[field.name] = None
    return cls(**arguments)


def _require(fits: bool, what: str, value: JsonValue, where: str) -> None:
    if not fits:
        raise DecodeError(f"{where or 'value'}: expected {what}, found {type(value).__name__}")


def freeze(value: JsonValue) -> JsonValue:
    """Copy plain JSON into read-only form: mappings stay mappings, lists become tuples.

    Iterative, so that depth cannot overflow the stack. Raises `ValueError` on what JSON cannot
    carry without loss: NaN, infinities, negative zero, cycles, keys that are not text, lone
    surrogates, objects; and beyond `MAX_DEPTH`, where JSON writers give up.
    """
    return _freeze_container(value) if isinstance(value, (Mapping, list, tuple)) else check(value)


def check(value: JsonValue) -> JsonValue:
    """Return a JSON scalar unchanged, or raise `ValueError` saying why it is none."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value)
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        if not math.isfinite(value) or (value == 0 and math.copysign(1.0, value) < 0):
            raise ValueError(f"{value!r} is not JSON")
        return value
    raise ValueError(f"{type(value).__name__} is not JSON")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a lone surrogate at character {error.start} is not text") from None


def _freeze_container(root: JsonValue) -> JsonValue:
    """Depth-first without recursion: containers are built when their children are done."""
    done: list[Any] = []
    open_ids: set[int] = set()
    stack: list[tuple[str, Any]] = [("visit", root)]
    while stack:
        action, item = stack.pop()
        if action == "build":
            open_ids.discard(id(item))
            done.append(_build(item, done))
        elif isinstance(item, (Mapping, list, tuple)):
            if id(item) in open_ids:
                raise ValueError("a value that contains itself is not JSON")
            open_ids.add(id(item))
            if len(open_ids) > MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
            stack.append(("build", item))
            if isinstance(item, Mapping):
                for key in item:
                    if not isinstance(key, str):
                        raise ValueError(f"key {key!r} is not text")  # noqa: TRY004 - one kind of error
                    check(key)
                children = list(item.values())
            else:
                children = list(item)
            stack.extend(("visit", child) for child in reversed(children))
        else:
            done.append(check(item))
    return done[0]


def _build(item: Any, done: list[Any]) -> Any:
    count = len(item)
    children = done[len(done) - count :]
    del done[len(done) - count :]
    if isinstance(item, Mapping):
        return types.MappingProxyType(dict(zip(item, children, strict=True)))
    return tuple(children)


def seal(value: Any) -> Any:
    """Return a dataclass whose plain JSON inside is read-only and lossless.

    Tuples and other dataclasses are looked into; mappings and lists are copied by `freeze`.
    Raises `ValueError` naming the field.
    """
    changes: dict[str, Any] = {}
    for name in _field_names(type(value)):
        item = getattr(value, name)
        try:
            sealed = _sealed(item)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if sealed is not item:
            changes[name] = sealed
    return dataclasses.replace(value, **changes) if changes else value


def _sealed(item: Any) -> Any:
    if item is None or isinstance(item, (str, bool, int, float)):
        return check(item)
    if isinstance(item, LlmFailure):
        return item
    if dataclasses.is_dataclass(item):
        return seal(item)
    if isinstance(item, tuple) and any(dataclasses.is_dataclass(part) for part in item):
        parts = tuple(_sealed(part) for part in item)
        return item if all(map(operator.is_, parts, item)) else parts
    if isinstance(item, list) and any(dataclasses.is_dataclass(part) for part in item):
        return tuple(_sealed(part) for part in item)
    return freeze(item)


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD, joining pairs that arrived in two halves."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
