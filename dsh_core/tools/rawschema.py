"""JSON Schema, as an MCP server or `hints` wrote it, compiled into a `Check`."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from dsh_core.codec import JsonValue, to_json
from dsh_core.errors import UserError
from dsh_core.tools.checker import ANYTHING, NOTHING, Alternatives, Check, Rule
from dsh_core.tools.coerce import DEPTH_LIMIT, TYPES, is_deep, shown, type_of

_EXACT: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int,),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict, MappingProxyType),
    "null": (type(None),),
}
"""Floats are missing: `fitted` has to look at their value."""

_NUMBERS = (int, float)
_LISTS = (list, tuple)
_BOUNDS: Mapping[str, tuple[tuple[type, ...], Callable[[Any, Any], bool], str, str]] = {
    "minimum": (_NUMBERS, operator.ge, "at least", ""),
    "maximum": (_NUMBERS, operator.le, "at most", ""),
    "exclusiveMinimum": (_NUMBERS, operator.gt, "more than", ""),
    "exclusiveMaximum": (_NUMBERS, operator.lt, "less than", ""),
    "minLength": ((str,), operator.ge, "at least", " character"),
    "maxLength": ((str,), operator.le, "at most", " character"),
    "minItems": (_LISTS, operator.ge, "at least", " item"),
    "maxItems": (_LISTS, operator.le, "at most", " item"),
}
"""Keyword → types it is about, what must hold, words for it, and what is counted if anything."""


def compiled(schema: Mapping[str, Any]) -> Check:
    """Compile a schema.

    References may point anywhere into it, in circles too if each round goes one level down into
    the value. Raises `UserError` with the key path of what is no JSON Schema.
    """
    if is_deep(schema):
        raise _error("#", f"it is nested more than {DEPTH_LIMIT} deep")
    compiler = _Compiler(schema)
    try:
        check = compiler.check_of(schema, "#")
        for part in (check, *compiler.referred.values()):
            part.all_types()
    except RecursionError:
        raise _error("#", "it refers to itself without end") from None
    return check


class _Compiler:
    def __init__(self, root: Mapping[str, Any]):
        self._root = root
        self.referred: dict[str, Check] = {}

    def check_of(self, schema: Any, where: str) -> Check:
        if isinstance(schema, bool):
            return ANYTHING if schema else NOTHING
        check = Check()
        self._fill(check, _mapping(schema, where), where)
        return check

    def _fill(self, check: Check, schema: Mapping[str, Any], where: str) -> None:
        check.types = _types_of(schema, where)
        if check.types is not None:
            check.exact = frozenset(kind for name in check.types for kind in _EXACT[name])
        check.choices = _choices_of(schema, where)
        check.rules = tuple(_rules_of(schema, where))
        self._fill_object(check, schema, where)
        self._fill_array(check, schema, where)
        check.also = tuple(self._also(schema, where))
        check.groups = tuple(self._groups(schema, where))
        check.make = getattr(schema, "make", None)
        parts = [*check.properties.values(), *check.prefix, check.extra, check.items]
        parts += [form for group in check.groups for form in group.checks]
        check.makes = check.make is not None or any(part.makes for part in parts if part)

    def _fill_object(self, check: Check, schema: Mapping[str, Any], where: str) -> None:
        properties = _mapping(schema.get("properties", {}), f"{where}/properties")
        check.properties = {
            name: self.check_of(part, f"{where}/properties/{name}")
            for name, part in properties.items()
        }
        required = _list(schema.get("required", []), f"{where}/required")
        if not all(isinstance(name, str) for name in required):
            raise _error(f"{where}/required", "is not a list of names")
        check.required = tuple(dict.fromkeys(required))
        patterns = _mapping(schema.get("patternProperties", {}), f"{where}/patternProperties")
        check.patterns = tuple(
            (pattern, self.check_of(part, f"{where}/patternProperties/{text}"))
            for text, part in patterns.items()
            if (pattern := _pattern(text))
        )
        if "additionalProperties" in schema:
            check.extra = self.check_of(
                schema["additionalProperties"], f"{where}/additionalProperties"
            )

    def _fill_array(self, check: Check, schema: Mapping[str, Any], where: str) -> None:
        prefix, items = schema.get("prefixItems", []), schema.get("items", True)
        if isinstance(items, (list, tuple)):  # before draft 2020-12
            prefix, items = items, schema.get("additionalItems", True)
        prefix = _list(prefix, f"{where}/prefixItems")
        check.prefix = tuple(
            self.check_of(part, f"{where}/prefixItems/{index}") for index, part in enumerate(prefix)
        )
        check.items = self.check_of(items, f"{where}/items")

    def _also(self, schema: Mapping[str, Any], where: str) -> Iterable[Check]:
        if "$ref" in schema:
            yield self._referred_check(schema["$ref"], f"{where}/$ref")
        for index, part in enumerate(_list(schema.get("allOf", []), f"{where}/allOf")):
            yield self.check_of(part, f"{where}/allOf/{index}")

    def _groups(self, schema: Mapping[str, Any], where: str) -> Iterable[Alternatives]:
        for keyword in ("anyOf", "oneOf"):
            forms = _list(schema.get(keyword, []), f"{where}/{keyword}")
            checks = [
                self.check_of(form, f"{where}/{keyword}/{index}")
                for index, form in enumerate(forms)
            ]
            if checks and not _is_type_union(schema):
                yield Alternatives(tuple(checks), exactly_one=keyword == "oneOf")

    def _referred_check(self, reference: Any, where: str) -> Check:
        """Compile what a reference points at, once: its check may be needed to fill itself."""
        if isinstance(reference, str) and reference in self.referred:
            return self.referred[reference]
        target = self._target(reference, where)
        if isinstance(target, bool):
            return self.check_of(target, reference)
        check = self.referred[reference] = Check()
        self._fill(check, _mapping(target, reference), reference)
        return check

    def _target(self, reference: Any, where: str) -> Any:
        target: Any = self._root
        try:
            head, *parts = reference.split("/")
            if head != "#":
                raise LookupError(reference)
            for part in parts:
                key = part.replace("~1", "/").replace("~0", "~")
                target = target[int(key) if isinstance(target, (list, tuple)) else key]
        except (LookupError, ValueError, TypeError, AttributeError):
            raise _error(where, f"{reference!r} points at nothing in this schema") from None
        return target


def _types_of(schema: Mapping[str, Any], where: str) -> frozenset[str] | None:
    """Return the types of `type`; without it those of the values of `enum` or `const`."""
    names = schema.get("type")
    if _is_type_union(schema):
        names = [form["type"] for form in schema["anyOf"]]
    if names is None:
        choices = _choices_of(schema, where)
        return None if choices is None else _widened(type_of(choice) for choice in choices)
    names = [names] if isinstance(names, str) else _list(names, f"{where}/type")
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        raise _error(f"{where}/type", f"{names!r} is none of {', '.join(sorted(TYPES))}")
    return _widened([*names, *(["null"] if schema.get("nullable") is True else [])])  # OpenAPI 3.0


def _is_type_union(schema: Mapping[str, Any]) -> bool:
    """Whether `anyOf` only lists types, as for `int | None`: a common case, made a fast one."""
    forms = schema.get("anyOf")
    return (
        "type" not in schema
        and isinstance(forms, (list, tuple))
        and all(isinstance(form, Mapping) and form.keys() == {"type"} for form in forms)
        and not any(getattr(form, "make", None) for form in forms)
        and all(isinstance(form["type"], str) for form in forms)
    )


def _widened(names: Iterable[str]) -> frozenset[str]:
    types = frozenset(names)
    return types | {"integer"} if "number" in types else types


def _choices_of(schema: Mapping[str, Any], where: str) -> tuple[JsonValue, ...] | None:
    if "const" in schema:
        return (to_json(schema["const"]),)
    if "enum" in schema:
        return tuple(to_json(choice) for choice in _list(schema["enum"], f"{where}/enum"))
    return None


def _rules_of(schema: Mapping[str, Any], where: str) -> Iterable[Rule]:
    for keyword, (kinds, holds, words, unit) in _BOUNDS.items():
        bound = schema.get(keyword)
        if bound is None or isinstance(bound, bool):  # draft 4: "exclusiveMinimum": true
            continue
        if not isinstance(bound, _NUMBERS):
            raise _error(f"{where}/{keyword}", f"{bound!r} is not a number")
        plural = "s" if unit and bound != 1 else ""
        text = f"expected {words} {shown(bound)}{unit}{plural}, got"
        yield partial(_bound_problem, kinds, holds, bound, text)
    regex = schema.get("pattern")
    if isinstance(regex, str) and (pattern := _pattern(regex)):
        yield partial(_pattern_problem, pattern)


def _bound_problem(
    kinds: tuple[type, ...],
    holds: Callable[[Any, Any], bool],
    bound: float,
    text: str,
    value: Any,
) -> str | None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        return None
    size: Any = value if kinds is _NUMBERS else len(cast(Any, value))
    return None if holds(size, bound) else f"{text} {shown(size)}"


def _pattern_problem(pattern: re.Pattern[str], value: JsonValue) -> str | None:
    if not isinstance(value, str) or pattern.search(value):
        return None
    return f"expected text that matches {pattern.pattern}, got {shown(value)}"


def _pattern(text: str) -> re.Pattern[str] | None:
    """Compile a pattern; one that only ECMA 262 knows is left for the tool to check."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the author of the pattern does not see them
            return re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return None


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(where, f"is a {type(value).__name__}, not an object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise _error(where, f"is a {type(value).__name__}, not a list")
    return list(value)


def _error(where: str, text: str) -> UserError:
    return UserError(
        f"the tool's schema is no JSON Schema: {text}",
        where=where,
        remedy="Correct the schema, or leave the tool out.",
    )
