"""What tests log: an event of a plugin, and what hypothesis makes by the annotations of fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hypothesis import settings
from hypothesis import strategies as st

from dsh_core.chunks import Usage
from dsh_core.codec import case
from dsh_core.content import Block
from dsh_core.errors import LlmFailure
from dsh_core.events import EventData, UnknownEvent
from dsh_core.tagged import Tagged

few = settings(max_examples=40, deadline=None)
"""For tests whose examples are long; the deadline would measure the machine's load."""


@case("tests/note")
class Note(EventData):
    """An event of a plugin with every kind of field."""

    text: str
    count: int = 0
    share: float = 0.5
    is_open: bool = False
    names: list[str] = field(default_factory=list)
    places: Sequence[str] = ()
    span: tuple[int, int] | None = None
    extra: Any = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    blocks: Mapping[str, Block] = field(default_factory=dict)
    usage: Usage | None = None
    kind: Literal["a", "b"] = "a"
    either: int | str = 0
    label: str | None = "none yet"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
floats = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
failures = st.builds(LlmFailure, texts, texts, status=st.none() | st.integers(100, 599))
event_data = st.deferred(
    lambda: st.sampled_from([c for c in EventData.cases.values() if c is not UnknownEvent]).flatmap(
        instance
    )
)

_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    Any: json_values,
    str: texts,
    int: st.integers(),
    bool: st.booleans(),
    float: floats,
    type(None): st.none(),
    LlmFailure: failures,
}


def instance(cls: Any) -> st.SearchStrategy[Any]:
    """Objects of a dataclass."""
    hints = get_type_hints(cls)
    fields = [f for f in dataclasses.fields(cls) if f.init and not f.name.startswith("_")]
    return st.builds(cls, **{field.name: value(hints[field.name]) for field in fields})


def value(hint: Any) -> st.SearchStrategy[Any]:
    """Values that fit an annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in _LEAVES:
        return _LEAVES[hint]
    if origin is Literal:
        return st.sampled_from(args)
    if (origin or hint) in (Mapping, dict):
        return st.dictionaries(texts, value(args[1]) if args else json_values, max_size=3)
    if origin is tuple and Ellipsis not in args:
        return st.tuples(*map(value, args))
    if origin in (tuple, list, Sequence):
        return st.lists(value(args[0]), max_size=2).map(tuple)
    if origin is not None:
        return st.one_of([value(arg) for arg in args])
    if issubclass(hint, Tagged) and not dataclasses.is_dataclass(hint):
        cases = [case for case in hint.cases.values() if case is not hint.unknown]
        return st.deferred(lambda: st.sampled_from(cases).flatmap(instance))
    return instance(hint)


def nested(depth: int) -> Any:
    """JSON of that depth."""
    inner: Any = "core"
    for level in range(depth):
        inner = [inner] if level % 2 else {"inner": inner}
    return inner
