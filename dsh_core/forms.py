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
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dsh_core.errors import LlmFailure
from dsh_core.plain import JsonValue, check, check_text, clean_text, freeze
from dsh_core.record import record
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


@record()
class Form:
    """How one annotation is read and sealed. Both functions raise `ValueError`.

    Args:
        read: Returns the value that JSON stands for. Lone surrogates become U+FFFD.
        seal: Returns a value read-only and free of what JSON cannot carry, itself where it is so.
            Its second argument is how deep the value lies.
        is_optional: Whether None fits, and so goes without saying.
        scalar: The type whose plain values are sealed as they are: ASCII text, integers of up to
            64 bits, booleans.

    """

    read: Callable[[JsonValue], Any]
    seal: Callable[[Any, int], Any]
    is_optional: bool = False
    scalar: type[str | int | bool] | None = None


@cache
def form_of(hint: Any) -> Form:
    """Return the form of an annotation. Raises `TypeError` for one that has none."""
    origin, arguments = get_origin(hint), get_args(hint)
    kind = origin or hint
    if hint is Any or hint is object:
        return _PLAIN
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _one_of(arguments)
    if kind is tuple and arguments and Ellipsis not in arguments:
        return _row([form_of(argument) for argument in arguments])
    if kind in _SEQUENCES:
        return _list(form_of(arguments[0] if arguments else Any))
    if kind in _MAPPINGS:
        return _mapping(form_of(arguments[1] if arguments else Any))
    if isinstance(hint, type) and issubclass(hint, Tagged) and not dataclasses.is_dataclass(hint):
        return _sum(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _object(hint)
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
    depth += 1
    for name, form, _ in fields_of(cls):
        item = getattr(value, name)
        kind = type(item)
        if kind is form.scalar:  # most fields are done here, without a call: this is the hot path
            if item.isascii() if kind is str else -_SMALL < item < _SMALL:
                continue
        elif item is None and form.is_optional:
            continue
        try:
            sealed = form.seal(item, depth)
        except ValueError as error:
            raise _at(name, error) from None
        if sealed is not item:
            changes[name] = sealed
    return dataclasses.replace(value, **changes) if changes else value


def read_object(cls: Any, value: JsonValue) -> Any:
    """Build a dataclass from a mapping of its fields. What is missing gets its default, or None."""
    if not isinstance(value, Mapping):
        raise _misfit(f"a {cls.__name__}", value)
    arguments: dict[str, Any] = {}
    for name, form, default in fields_of(cls):
        if name in value:
            try:
                arguments[name] = form.read(value[name])
            except ValueError as error:
                raise _at(name, error) from None
        elif default is dataclasses.MISSING:
            if not form.is_optional:
                raise FormError("is missing", name)
            arguments[name] = None
    return cls(**arguments)


def _at(part: str, error: ValueError) -> FormError:
    return error.at(part) if isinstance(error, FormError) else FormError(str(error), part)


def _misfit(expected: str, value: Any) -> FormError:
    return FormError(f"expected {expected}, found {type(value).__name__}")


# --------------------------------------------------------------------------------- scalars


def _read_text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise _misfit("text", value)
    return clean_text(value)


def _seal_text(value: Any, depth: int = 0) -> str:
    if not isinstance(value, str):
        raise _misfit("text", value)
    return check_text(value)


def _boolean(value: Any, depth: int = 0) -> bool:
    if value is True or value is False:
        return value
    raise _misfit("true or false", value)


def _integer(value: Any, depth: int = 0) -> int:
    if type(value) is not int:
        raise _misfit("an integer", value)
    return value if -_SMALL < value < _SMALL else int(check(value))


def _number(value: Any, depth: int = 0) -> float:
    if type(value) is float:
        return float(check(value))
    if type(value) is int and abs(value) < 2**1023:
        return float(value)
    raise _misfit("a number", value)


def _nothing(value: Any, depth: int = 0) -> None:
    if value is not None:
        raise _misfit("nothing", value)


def _read_failure(value: JsonValue) -> LlmFailure:
    try:
        return LlmFailure.from_json(freeze(value, repair=True))
    except (KeyError, TypeError) as error:
        raise FormError(f"is no failure: {error}") from None


def _seal_failure(value: Any, depth: int = 0) -> LlmFailure:
    """Return a failure without its cause and traceback, which would keep frames alive."""
    if not isinstance(value, LlmFailure):
        raise _misfit("a failure", value)
    return _read_failure(value.to_json())


def _one_of(values: tuple[Any, ...]) -> Form:
    def fit(value: Any, depth: int = 0) -> Any:
        if any(known == value and type(known) is type(value) for known in values):
            return value
        raise FormError(f"expected one of {values}, found {value!r:.80}")

    return Form(fit, fit)


_SMALL = 2**63

_SCALARS: dict[Any, Form] = {
    str: Form(_read_text, _seal_text, scalar=str),
    bool: Form(_boolean, _boolean, scalar=bool),
    int: Form(_integer, _integer, scalar=int),
    float: Form(_number, _number),
    type(None): Form(_nothing, _nothing),
    LlmFailure: Form(_read_failure, _seal_failure),
}

_PLAIN = Form(lambda value: freeze(value, repair=True), lambda value, depth: freeze(value))

# ------------------------------------------------------------------------------ containers


def _union(options: tuple[Any, ...]) -> Form:
    """Fit the first form that does."""
    forms = tuple(form_of(option) for option in options if option is not type(None))
    is_optional = type(None) in options
    only = forms[0] if len(forms) == 1 else None

    def first(ways: list[Callable[[Any], Any]], value: Any) -> Any:
        problem: ValueError | None = None
        for way in ways:
            try:
                return way(value)
            except ValueError as error:
                problem = problem or error
        raise problem or _misfit("nothing", value)

    def read(value: JsonValue) -> Any:
        if value is None and is_optional:
            return None
        return only.read(value) if only else first([form.read for form in forms], value)

    def seal(value: Any, depth: int) -> Any:
        if value is None and is_optional:
            return None
        if only:
            return only.seal(value, depth)
        return first([_sealing(form, depth) for form in forms], value)

    return Form(read, seal, is_optional, only.scalar if only else None)


def _list(item: Form) -> Form:
    """Tuples, lists and sequences; all become tuples."""

    def read(value: JsonValue) -> tuple[Any, ...]:
        return _each(value, item.read)

    def seal(value: Any, depth: int) -> tuple[Any, ...]:
        parts = _each(value, _sealing(item, depth))
        return value if type(value) is tuple and all(map(is_, parts, value)) else parts

    return Form(read, seal)


def _row(items: list[Form]) -> Form:
    """A tuple of fixed length."""

    def fit(value: Any, ways: list[Callable[[Any], Any]]) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(ways):
            raise FormError(f"expected a list of {len(ways)}, found {value!r:.80}")
        way = iter(ways)
        return _each(value, lambda part: next(way)(part))

    def read(value: JsonValue) -> tuple[Any, ...]:
        return fit(value, [item.read for item in items])

    def seal(value: Any, depth: int) -> tuple[Any, ...]:
        return fit(value, [_sealing(item, depth) for item in items])

    return Form(read, seal)


def _sealing(form: Form, depth: int) -> Callable[[Any], Any]:
    return lambda value: form.seal(value, depth)


def _each(value: Any, convert: Callable[[Any], Any]) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _misfit("a list", value)
    done: list[Any] = []
    try:
        for item in value:
            done.append(convert(item))
    except ValueError as error:
        raise _at(f"[{len(done)}]", error) from None
    return tuple(done)


def _mapping(item: Form) -> Form:
    def each(value: Any, convert: Callable[[Any], Any], *, repair: bool) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit("a mapping", value)
        if item is _PLAIN:
            return freeze(value, repair=repair)  # type: ignore[no-any-return]
        keys = freeze(dict.fromkeys(value), repair=repair)
        parts = _each(list(value.values()), convert)
        return types.MappingProxyType(dict(zip(keys, parts, strict=True)))

    def read(value: JsonValue) -> Mapping[str, Any]:
        return each(value, item.read, repair=True)

    def seal(value: Any, depth: int) -> Mapping[str, Any]:
        return each(value, _sealing(item, depth), repair=False)

    return Form(read, seal)


# --------------------------------------------------------------------------------- objects


def _object(cls: type[Any]) -> Form:
    """A dataclass that is no open sum type."""

    def seal(value: Any, depth: int) -> Any:
        if not isinstance(value, cls):
            raise _misfit(f"a {cls.__name__}", value)
        return seal_object(value, depth)

    return Form(lambda value: read_object(cls, value), seal)


def _sum(base: type[Any]) -> Form:
    """A sum type: `type` names the case; a name nobody registered is its `unknown` case."""

    def read(value: JsonValue) -> Any:
        name = value.get("type") if isinstance(value, Mapping) else None
        if not isinstance(name, str):
            raise _misfit(f"a {base.__name__}", value)
        found, unknown = base.cases.get(name), base.unknown
        if found is not None and found is not unknown:
            return read_object(found, value)
        if unknown is None:
            raise FormError(f"there is no {base.__name__} of type {name!r}")
        rest = {key: item for key, item in value.items() if key != "type"}
        return unknown(name, freeze(rest, repair=True))

    def seal(value: Any, depth: int) -> Any:
        if not isinstance(value, base):
            raise _misfit(f"a {base.__name__}", value)
        if not is_case(value):
            raise FormError(f"{type(value).__qualname__} is not registered with @case")
        return seal_object(value, depth)

    return Form(read, seal)
