"""What a field's annotation allows: how its JSON is read, and what of it may enter the log.

Both directions follow the same annotation, so that whatever the log takes can be read back. A form
is made once per annotation.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from dsh_core.errors import LlmFailure
from dsh_core.plain import JsonValue, check, check_text, clean_text, freeze
from dsh_core.tagged import Tagged, is_case

MAX_OBJECT_DEPTH = 20
"""Deepest nesting of blocks; the core's own messages need five levels."""

_SEQUENCES = (tuple, list, collections.abc.Sequence)
_MAPPINGS = (dict, Mapping)


class FormError(ValueError):
    """A value that does not have its form; says where."""

    def __init__(self, problem: str, path: str = ""):
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def at(self, part: str) -> FormError:
        """Prepend a part of the path to the value."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return FormError(self.problem, f"{part}{dot}{self.path}")

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class Form(Protocol):
    """How one annotation is read and sealed. Both methods raise `ValueError`."""

    def read(self, value: JsonValue) -> Any:
        """Return the value that JSON stands for. Lone surrogates become U+FFFD."""

    def seal(self, value: Any, depth: int) -> Any:
        """Return the value read-only and free of what JSON cannot carry; itself where it is so."""


@cache
def form_of(hint: Any) -> Form:
    """Return the form of an annotation. Raises `TypeError` for one that has none."""
    origin, arguments = get_origin(hint), get_args(hint)
    kind = origin or hint
    if hint is Any or hint is object:
        return _Plain()
    if origin in (Union, types.UnionType):
        forms = tuple(form_of(option) for option in arguments if option is not type(None))
        return _Union(forms, is_optional=type(None) in arguments)
    if origin is Literal:
        return _one_of(arguments)
    if kind is tuple and arguments and Ellipsis not in arguments:
        return _Row(tuple(form_of(argument) for argument in arguments))
    if kind in _SEQUENCES:
        return _List(form_of(arguments[0] if arguments else Any))
    if kind in _MAPPINGS:
        return _Mapping(form_of(arguments[1] if arguments else Any))
    if kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(hint, type):
        if issubclass(hint, Tagged) and not dataclasses.is_dataclass(hint):
            return _Sum(hint)
        if dataclasses.is_dataclass(hint):
            return _Object(hint)
    raise TypeError(f"{hint} has no JSON form")


@cache
def fields_of(cls: Any) -> tuple[tuple[str, Form, Any], ...]:
    """Return name, form and default of each public field of a frozen dataclass.

    Raises `FormError` for a class whose values could not be read back.
    """
    if not cls.__dataclass_params__.frozen:
        raise FormError(f"{cls.__qualname__} is a dataclass that is not frozen")
    try:
        hints = get_type_hints(cls)
        return tuple(
            (field.name, form_of(hints[field.name]), _default(field))
            for field in dataclasses.fields(cls)
            if not field.name.startswith("_")
        )
    except (NameError, TypeError) as error:
        raise FormError(f"{cls.__qualname__}: {error}") from error


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def seal_object(value: Any, depth: int = 0) -> Any:
    """Seal each field of a dataclass."""
    if depth > MAX_OBJECT_DEPTH:
        raise FormError(f"nested deeper than {MAX_OBJECT_DEPTH} objects")
    changes: dict[str, Any] = {}
    cls: Any = type(value)
    for name, form, _ in fields_of(cls):
        item = getattr(value, name)
        try:
            sealed = form.seal(item, depth + 1)
        except FormError as error:
            raise error.at(name) from None
        except ValueError as error:
            raise FormError(str(error), name) from None
        if sealed is not item:
            changes[name] = sealed
    return dataclasses.replace(value, **changes) if changes else value


def read_object(cls: Any, value: JsonValue) -> Any:
    """Build a dataclass from a mapping of its fields. What is missing gets its default, or None."""
    if not isinstance(value, Mapping):
        raise _misfit(f"a {cls.__name__}", value)
    arguments: dict[str, Any] = {}
    for name, form, default in fields_of(cls):
        try:
            if name in value:
                arguments[name] = form.read(value[name])
            elif default is dataclasses.MISSING:
                if not isinstance(form, _Union) or not form.is_optional:
                    raise FormError("is missing")
                arguments[name] = None
        except FormError as error:
            raise error.at(name) from None
        except ValueError as error:
            raise FormError(str(error), name) from None
    return cls(**arguments)


def _misfit(expected: str, value: Any) -> FormError:
    return FormError(f"expected {expected}, found {type(value).__name__}")


class _Plain:
    """Any plain JSON."""

    def read(self, value: JsonValue) -> Any:
        return freeze(value, repair=True)

    def seal(self, value: Any, depth: int) -> Any:
        return freeze(value)


class _Text:
    def read(self, value: JsonValue) -> str:
        return clean_text(value) if isinstance(value, str) else self.seal(value, 0)

    def seal(self, value: Any, depth: int) -> str:
        if not isinstance(value, str):
            raise _misfit("text", value)
        return check_text(value)


class _Failure:
    """A failure is kept without its cause and traceback, which would keep frames alive."""

    def read(self, value: JsonValue) -> LlmFailure:
        try:
            return LlmFailure.from_json(freeze(value, repair=True))
        except (KeyError, TypeError) as error:
            raise FormError(f"is no failure: {error}") from None

    def seal(self, value: Any, depth: int) -> LlmFailure:
        if not isinstance(value, LlmFailure):
            raise _misfit("a failure", value)
        return LlmFailure.from_json(freeze(value.to_json()))


@dataclasses.dataclass(frozen=True, slots=True)
class _Same:
    """What is the same in JSON and in the log."""

    fit: Callable[[Any], Any]

    def read(self, value: JsonValue) -> Any:
        return self.fit(value)

    def seal(self, value: Any, depth: int) -> Any:
        return self.fit(value)


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return value
    raise _misfit("true or false", value)


def _integer(value: Any) -> int:
    if type(value) is int:
        return int(check(value))
    raise _misfit("an integer", value)


def _number(value: Any) -> float:
    if type(value) is float:
        return float(check(value))
    if type(value) is int and abs(value) < 2**1023:
        return float(value)
    raise _misfit("a number", value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise _misfit("nothing", value)


def _one_of(values: tuple[Any, ...]) -> Form:
    def fit(value: Any) -> Any:
        if any(known == value and type(known) is type(value) for known in values):
            return value
        raise FormError(f"expected one of {values}, found {value!r:.80}")

    return _Same(fit)


_SCALARS: dict[Any, Form] = {
    str: _Text(),
    bool: _Same(_boolean),
    int: _Same(_integer),
    float: _Same(_number),
    type(None): _Same(_nothing),
    LlmFailure: _Failure(),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Union:
    """The first form that fits counts."""

    forms: tuple[Form, ...]
    is_optional: bool

    def read(self, value: JsonValue) -> Any:
        if value is None and self.is_optional:
            return None
        return self._first([form.read for form in self.forms], value)

    def seal(self, value: Any, depth: int) -> Any:
        if value is None and self.is_optional:
            return None
        if len(self.forms) == 1:
            return self.forms[0].seal(value, depth)
        return self._first([lambda v, f=form: f.seal(v, depth) for form in self.forms], value)

    def _first(self, ways: list[Any], value: Any) -> Any:
        problem: ValueError | None = None
        for way in ways:
            try:
                return way(value)
            except ValueError as error:
                problem = problem or error
        raise problem or _misfit("nothing", value)


@dataclasses.dataclass(frozen=True, slots=True)
class _List:
    """Tuples, lists and sequences; all become tuples."""

    item: Form

    def read(self, value: JsonValue) -> tuple[Any, ...]:
        return _each(value, self.item.read)

    def seal(self, value: Any, depth: int) -> tuple[Any, ...]:
        item = self.item
        parts = _each(value, lambda part: item.seal(part, depth))
        return value if type(value) is tuple and all(map(is_, parts, value)) else parts


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """A tuple of fixed length."""

    items: tuple[Form, ...]

    def read(self, value: JsonValue) -> tuple[Any, ...]:
        ways = iter(self._fitting(value))
        return _each(value, lambda part: next(ways).read(part))

    def seal(self, value: Any, depth: int) -> tuple[Any, ...]:
        ways = iter(self._fitting(value))
        return _each(value, lambda part: next(ways).seal(part, depth))

    def _fitting(self, value: Any) -> tuple[Form, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(self.items):
            raise FormError(f"expected a list of {len(self.items)}, found {value!r:.80}")
        return self.items


def _each(value: Any, convert: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _misfit("a list", value)
    done: list[Any] = []
    try:
        for item in value:
            done.append(convert(item))
    except FormError as error:
        raise error.at(f"[{len(done)}]") from None
    except ValueError as error:
        raise FormError(str(error), f"[{len(done)}]") from None
    return tuple(done)


@dataclasses.dataclass(frozen=True, slots=True)
class _Mapping:
    item: Form

    def read(self, value: JsonValue) -> Mapping[str, Any]:
        return self._each(value, self.item.read, repair=True)

    def seal(self, value: Any, depth: int) -> Mapping[str, Any]:
        item = self.item
        return self._each(value, lambda part: item.seal(part, depth), repair=False)

    def _each(self, value: Any, convert: Any, *, repair: bool) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit("a mapping", value)
        if isinstance(self.item, _Plain):
            return freeze(value, repair=repair)  # type: ignore[no-any-return]
        keys = freeze(dict.fromkeys(value), repair=repair)
        parts = _each(list(value.values()), convert)
        return types.MappingProxyType(dict(zip(keys, parts, strict=True)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Object:
    """A dataclass that is no open sum type."""

    cls: type[Any]

    def read(self, value: JsonValue) -> Any:
        return read_object(self.cls, value)

    def seal(self, value: Any, depth: int) -> Any:
        if not isinstance(value, self.cls):
            raise _misfit(f"a {self.cls.__name__}", value)
        return seal_object(value, depth)


@dataclasses.dataclass(frozen=True, slots=True)
class _Sum:
    """A sum type: `type` names the case; a name nobody registered is its `unknown` case."""

    base: type[Any]

    def read(self, value: JsonValue) -> Any:
        name = value.get("type") if isinstance(value, Mapping) else None
        if not isinstance(name, str):
            raise _misfit(f"a {self.base.__name__}", value)
        found = self.base.cases.get(name)
        unknown = self.base.unknown
        if found is not None and found is not unknown:
            return read_object(found, value)
        if unknown is None:
            raise FormError(f"there is no {self.base.__name__} of type {name!r}")
        rest = {key: item for key, item in value.items() if key != "type"}
        return unknown(name, freeze(rest, repair=True))

    def seal(self, value: Any, depth: int) -> Any:
        if not isinstance(value, self.base):
            raise _misfit(f"a {self.base.__name__}", value)
        if not is_case(value):
            raise FormError(f"{type(value).__qualname__} is not registered with @case")
        return seal_object(value, depth)
