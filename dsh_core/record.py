"""`@record()`: frozen, slotted dataclasses that cost an import little and are quick to make.

They are dataclasses to everyone who looks: `fields`, `replace`, `asdict`, `match`, `copy` and
`pickle` work. But `@dataclass` writes and compiles up to six methods for each class, about 1 ms of
every start, and the core has a hundred. A record shares its methods with all others; its `__init__`
is compiled once for each number of fields, and sets slots directly, which is twice as fast as the
`object.__setattr__` by name of a frozen dataclass: chunks and events are made once per token.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache, partial
from operator import attrgetter, methodcaller
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")

_Setter = Callable[[Any, Any], None]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(*, frozen: bool = True, eq: bool = True) -> Callable[[type[C]], type[C]]:
    """Make the class below what `@dataclass(frozen=True, slots=True)` would.

    Methods that the class brings stay its own. Raises `TypeError` as `@dataclass` does, and for
    `InitVar`, which records do not have.

    Args:
        frozen: Whether its fields are fixed.
        eq: Whether records with equal fields are equal; else each equals itself alone.

    """

    def decorate(cls: type[C]) -> type[C]:
        # a frozen dataclass lets no other inherit from it
        extends = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])
        make = dataclasses.dataclass(
            init=False, repr=False, eq=False, frozen=frozen and extends, slots=True
        )
        own = set(vars(cls))
        if "__eq__" in own and vars(cls)["__hash__"] is None:
            own.remove("__hash__")  # Python sets it to None beside an `__eq__`
        made: Any = make(cls)
        made.__dataclass_params__.frozen = frozen
        methods: dict[str, Any] = {"__init__": _initialiser(made), "__repr__": _repr}
        if eq:
            methods |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
        if frozen:
            methods |= {"__getstate__": _values, "__setstate__": _restore}
            made.__setattr__, made.__delattr__ = _refuse_setting, _refuse_deleting
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made  # type: ignore[no-any-return]

    return decorate


# ------------------------------------------------------------------------------ making one


def _initialiser(cls: type[Any]) -> FunctionType:
    """Return the `__init__` of a record: parameters are its fields, which it sets one by one."""
    if any("InitVar" in str(field.type) for field in cls.__dataclass_fields__.values()):
        raise TypeError(f"{cls.__qualname__}: a record has no InitVar")
    fields = dataclasses.fields(cls)
    given = [field for field in fields if field.init]
    given.sort(key=lambda field: field.kw_only is True)
    keywords = [field for field in given if field.kw_only is True]
    positional = given[: len(given) - len(keywords)]
    fills = [_filler(cls, field) for field in fields if not field.init and _has_default(field)]
    if hasattr(cls, "__post_init__"):
        fills.append(methodcaller("__post_init__"))
    template = _template(len(given), len(fills))
    function: FunctionType = template(*(_setter(cls, field) for field in given), *fills)
    names = [field.name for field in given]
    function.__code__ = function.__code__.replace(
        co_varnames=("self" if "self" not in names else "__self", *names),
        co_argcount=1 + len(positional),
        co_kwonlyargcount=len(keywords),
        co_qualname=f"{cls.__qualname__}.__init__",
    )
    function.__defaults__ = _defaults(cls, positional)
    function.__kwdefaults__ = {f.name: f.default for f in keywords if _has_default(f)}
    function.__annotations__ = {**{field.name: field.type for field in given}, "return": None}
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__module__ = cls.__module__
    return function


@cache
def _template(count: int, fills: int) -> Callable[..., FunctionType]:
    """Return what makes an `__init__` for so many fields, of which only names are missing."""
    values = [f"value{i}" for i in range(count)]
    actions = [f"set{i}" for i in range(count)] + [f"fill{i}" for i in range(fills)]
    calls = [f"{action}(self, {value})" for action, value in zip(actions, values, strict=False)]
    calls += [f"{action}(self)" for action in actions[count:]]
    scope: dict[str, Any] = {}
    lines = [
        f"def template({', '.join(actions)}):",
        f"    def __init__({', '.join(['self', *values])}):",
        *(f"        {call}" for call in calls or ["pass"]),
        "    return __init__",
    ]
    exec("\n".join(lines), scope)  # noqa: S102 - as dataclasses does, once per class
    template: Callable[..., FunctionType] = scope["template"]
    return template


def _setter(cls: type[Any], field: Field[Any]) -> _Setter:
    slot = getattr(cls, field.name, None)
    put: _Setter
    if isinstance(slot, MemberDescriptorType):
        put = slot.__set__
    else:  # inherited from a class without slots
        put = partial(_set_by_name, field.name)
    if field.default_factory is MISSING:
        return put
    make = field.default_factory

    def put_or_make(self: Any, value: Any) -> None:
        put(self, make() if value is MISSING else value)

    return put_or_make


def _set_by_name(name: str, self: Any, value: Any) -> None:
    object.__setattr__(self, name, value)


def _filler(cls: type[Any], field: Field[Any]) -> Callable[[Any], None]:
    """Return what sets a field that is no parameter."""
    put, value = _setter(cls, field), field.default  # `MISSING` where it is made

    def fill(self: Any) -> None:
        put(self, value)

    return fill


def _defaults(cls: type[Any], positional: list[Field[Any]]) -> tuple[Any, ...]:
    defaults: list[Any] = []
    for field in positional:
        if _has_default(field):
            defaults.append(field.default)
        elif defaults:
            raise TypeError(f"{cls.__qualname__}.{field.name} has no default; those before it have")
    return tuple(defaults)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


# --------------------------------------------------------------------------- shared methods


@cache
def _compared(cls: Any) -> Callable[[Any], Any]:
    """Return what gives the compared fields as a tuple."""
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    return attrgetter(*names, *names[:1]) if names else lambda _: ()


@cache
def _hashed(cls: Any) -> tuple[str, ...]:
    fields = dataclasses.fields(cls)
    return tuple(f.name for f in fields if (f.compare if f.hash is None else f.hash))


@cache
def _shown(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls) if field.repr)


def _equal(self: Any, other: Any) -> Any:
    if self.__class__ is not other.__class__:
        return NotImplemented
    values = _compared(self.__class__)
    return self is other or values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(tuple([getattr(self, name) for name in _hashed(self.__class__)]))


@recursive_repr()
def _repr(self: Any) -> str:
    fields = (f"{name}={getattr(self, name)!r}" for name in _shown(self.__class__))
    return f"{type(self).__qualname__}({', '.join(fields)})"


def _refuse_setting(self: Any, name: str, value: object) -> None:
    if name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deleting(self: Any, name: str) -> None:
    if name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _values(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, values: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        object.__setattr__(self, field.name, value)
