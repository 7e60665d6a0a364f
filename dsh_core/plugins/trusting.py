"""Which settings of a plugin count in a file that the user has not trusted.

None do, except where the plugin says that no value of a field can loosen anything. A plugin written
tomorrow, or a field that nobody thought about, is then safe by itself.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from dsh_core.marks import ADD, TRUSTED_ONLY, UNTRUSTED_OK, SettingMark
from dsh_core.record import record

Table: TypeAlias = "dict[str, Rule]"
"""The rules of a class's fields."""


@record()
class Rule:
    """What holds for a field.

    Args:
        marks: Its own marks.
        below: The fields below it, of every class its type admits. A class may hold itself.
    """

    marks: frozenset[SettingMark] = frozenset()
    below: tuple[Table, ...] = ()

    def field(self, name: str) -> Rule | None:
        """Return the rule of a field below; None where there is no such field."""
        rules = [table[name] for table in self.below if name in table]
        return _together(rules) if rules else None

    def reaches(self, mark: SettingMark) -> bool:
        """Whether a mark stands here or anywhere below."""
        rules, seen = [self], set[int]()
        while rules:
            rule = rules.pop()
            if mark in rule.marks:
                return True
            new = [table for table in rule.below if id(table) not in seen]
            seen.update(map(id, new))
            rules.extend(each for table in new for each in table.values())
        return False

    def counts(self, around: bool) -> bool:
        """Whether a value counts here; the innermost mark decides, TRUSTED_ONLY before the other.

        Args:
            around: Whether it would count in what is around this field.
        """
        return TRUSTED_ONLY not in self.marks and (around or UNTRUSTED_OK in self.marks)


def field_names(settings: type[Any]) -> tuple[str, ...]:
    """Return the fields of a Settings class. Raises `TypeError` for another kind of class."""
    if dataclasses.is_dataclass(settings):
        return tuple(field.name for field in dataclasses.fields(settings) if field.init)
    fields = getattr(settings, "model_fields", None)
    if not isinstance(fields, Mapping):
        raise TypeError("Settings must be a dataclass or a pydantic model")
    return tuple(fields)


def rules_of(settings: type[Any]) -> Table:
    """Return the rule of each field of a Settings class.

    Marks count in `Annotated` around a type or a union's member, in a dataclass field's `metadata`,
    and on fields of a nested dataclass or model. Raises `TypeError` for a mark anywhere else, which
    would say something and do nothing, and for two that contradict each other.
    """
    reader = _Reader()
    rules = reader.table(settings)
    reader.check()
    return rules


def marked(settings: type[Any], mark: SettingMark) -> frozenset[str]:
    """Return the fields that carry a mark themselves."""
    return frozenset(name for name, rule in rules_of(settings).items() if mark in rule.marks)


def admitted(
    settings: type[Any], values: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """Return what an untrusted layer may say, and the paths of what it may not."""
    ignored: list[tuple[str, ...]] = []
    whole = Rule(below=(rules_of(settings),))
    return _admitted(values, whole, (), counts=False, ignored=ignored), ignored


def _admitted(
    values: Mapping[str, Any],
    rule: Rule,
    path: tuple[str, ...],
    *,
    counts: bool,
    ignored: list[tuple[str, ...]],
) -> dict[str, Any]:
    # A name that is no field may be the alias of one: it is not let past a guarded one.
    is_safe = counts and not rule.reaches(TRUSTED_ONLY)
    unknown = Rule() if is_safe else Rule(frozenset({TRUSTED_ONLY}))
    kept: dict[str, Any] = {}
    for name, value in values.items():
        here, below = (*path, str(name)), rule.field(name) or unknown
        is_open = below.counts(counts)
        if isinstance(value, Mapping) and value and _has_to_look_below(below, is_open):
            inner = _admitted(value, below, here, counts=is_open, ignored=ignored)
            if inner:
                kept[name] = inner
        elif is_open and not below.reaches(TRUSTED_ONLY):
            kept[name] = value
        else:
            ignored.append(here)
    return kept


def _has_to_look_below(rule: Rule, is_open: bool) -> bool:
    return bool(rule.below) and rule.reaches(TRUSTED_ONLY if is_open else UNTRUSTED_OK)


def _together(rules: Iterable[Rule]) -> Rule:
    """Return what several rules for one value say; a class that two of them name counts once."""
    rules = list(rules)
    below = {id(table): table for rule in rules for table in rule.below}
    marks = frozenset[SettingMark]().union(*(rule.marks for rule in rules))
    return Rule(marks, tuple(below.values()))


class _Reader:
    """Reads types, each class once. What lists and the like hold is judged when all is read."""

    def __init__(self) -> None:
        self.tables: dict[type[Any], Table] = {}
        self.held: list[tuple[str, Rule]] = []
        self.aliases: list[Any] = []

    def table(self, cls: type[Any]) -> Table:
        """Return the rules of a class. It is in the table first, for one that holds itself."""
        if cls in self.tables:
            return self.tables[cls]
        names, table = field_names(cls), self.tables.setdefault(cls, {})
        for name, hint in get_type_hints(cls, include_extras=True).items():
            where = f"{cls.__name__}.{name}"
            hints = (hint, *_declared(cls, name))
            rule = _together(self.rule(each, where) for each in hints)
            _refuse_contradiction(rule, where)
            if name in names:
                table[name] = rule
            elif rule.marks:
                raise TypeError(f"{_names(rule.marks)} on {where} has no effect: it is no setting")
        return table

    def rule(self, hint: Any, where: str) -> Rule:
        """Return what a type says, with the marks of all members of a union."""
        if isinstance(hint, SettingMark):
            return Rule(frozenset({hint}))
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return _together(self.rule(e, where) for e in (arguments[0], *_marks(arguments[1:])))
        if origin in (Union, types.UnionType):
            return _together(self.rule(each, where) for each in arguments)
        if hasattr(hint, "__supertype__"):  # NewType
            return self.rule(hint.__supertype__, where)
        if hasattr(hint, "__value__"):  # `type X = …`, which may name itself
            return self.alias(hint, where)
        if _has_fields(origin or hint):
            return Rule(below=(self.table(origin or hint),))
        if origin is not typing.Literal:
            self.held.extend((where, self.rule(each, where)) for each in _flat(arguments))
        return Rule()

    def alias(self, alias: Any, where: str) -> Rule:
        """Return what a named type says, nothing where it stands in itself."""
        if alias in self.aliases:
            return Rule()
        self.aliases.append(alias)
        rule = self.rule(alias.__value__, where)
        self.aliases.pop()
        return rule

    def check(self) -> None:
        """Refuse marks on what a list or a mapping holds, and `ADD` in a nested class."""
        for where, rule in self.held:
            for mark in (ADD, TRUSTED_ONLY, UNTRUSTED_OK):
                if rule.reaches(mark):
                    raise TypeError(
                        f"{mark} on what {where} holds has no effect:"
                        f" mark the field itself, as in Annotated[…, {mark}]"
                    )
        (settings, _), *nested = self.tables.items()
        for cls, table in nested:
            for name, rule in table.items():
                if ADD in rule.marks:
                    raise TypeError(
                        f"ADD on {cls.__name__}.{name} has no effect:"
                        f" only lists in {settings.__name__} itself add up"
                    )


def _declared(cls: type[Any], name: str) -> list[Any]:
    """Return what a field says beside its annotation: a dataclass's metadata, a model's own."""
    if dataclasses.is_dataclass(cls):
        fields = {field.name: field for field in dataclasses.fields(cls)}
        metadata = fields[name].metadata if name in fields else {}
        return _marks([*metadata.keys(), *metadata.values()])
    field = getattr(cls, "model_fields", {}).get(name)
    return [] if field is None else [field.annotation, *_marks(field.metadata)]


def _marks(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, SettingMark)]


def _has_fields(cls: Any) -> bool:
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or isinstance(getattr(cls, "model_fields", None), Mapping)
    )


def _flat(arguments: Iterable[Any]) -> Iterable[Any]:
    """Return the arguments of a generic type; those of a callable stand in a list."""
    for argument in arguments:
        yield from argument if isinstance(argument, list) else [argument]


def _refuse_contradiction(rule: Rule, where: str) -> None:
    if {TRUSTED_ONLY, UNTRUSTED_OK} <= rule.marks:
        raise TypeError(f"{where} is both TRUSTED_ONLY and UNTRUSTED_OK: leave one out")


def _names(marks: Iterable[SettingMark]) -> str:
    return ", ".join(sorted(mark.name for mark in marks))
