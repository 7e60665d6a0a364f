"""Open sum types: a direct subclass of `Tagged`, and its cases as frozen dataclasses.

`@case("name")` makes a class a case of its sum type. Plugins add cases the same way. A name that
nobody registered loads as the sum type's `unknown` case, which keeps everything verbatim.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from dsh_core.record import record

C = TypeVar("C")


class Tagged:
    """The base of every open sum type: blocks, events, chunks, sources, triggers, end reasons."""

    __slots__ = ()
    cases: ClassVar[dict[str, Any]]
    unknown: ClassVar[Any] = None
    type: ClassVar[str]


def sum_type(cls: type[C]) -> type[C]:
    """Mark a direct subclass of `Tagged` as a sum type of its own."""
    cls.cases = {}  # type: ignore[attr-defined]
    return cls


@dataclass_transform(frozen_default=True)
def case(name: str) -> Callable[[type[C]], type[C]]:
    """Make the class below a frozen, slotted dataclass and the case `name` of its sum type.

    Its fields are text, numbers, plain JSON, other dataclasses, and tuples, lists and mappings of
    these. Raises `TypeError` when another class has the name, when a field is called `type`, which
    is the tag's place, and for a class that extends no sum type.
    """

    def decorate(cls: type[C]) -> type[C]:
        cases: dict[str, Any] | None = getattr(cls, "cases", None)
        if cases is None:
            raise TypeError(f"{cls.__qualname__} extends no sum type, such as EventData")
        made: Any = record()(cls)
        if any(field.name == "type" for field in dataclasses.fields(made)):
            raise TypeError(f"{cls.__qualname__}.type: this name is taken by the tag {name!r}")
        known = cases.get(name)
        if known is not None and _place(known) != _place(made):
            raise TypeError(f"{name!r} is already {'.'.join(_place(known))}")
        made.type = name
        cases[name] = made
        return made  # type: ignore[no-any-return]

    return decorate


def is_case(value: Tagged) -> bool:
    """Whether the class of a value, and no subclass of it, is registered under its tag."""
    cls = type(value)
    known = cls.cases.get(getattr(cls, "type", ""))
    return known is cls or (known is not None and _place(known) == _place(cls))


def _place(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
