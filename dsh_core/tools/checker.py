"""A compiled JSON Schema: checks a value, coerces what is clear, names everything that is wrong.

Checked are `type`, `properties`, `required`, `additionalProperties`, `patternProperties`, `items`,
`prefixItems`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, the bounds of numbers, lengths and lists,
and `pattern`. Other keywords are notes to the model; what they demand is for the tool to check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from dsh_core.codec import JsonValue
from dsh_core.record import record
from dsh_core.tools.coerce import MISFIT, expected, fitted, shown
from dsh_core.tools.violations import NAME_CHARACTERS, MisfitError, Place, Violations

Rule: TypeAlias = Callable[[JsonValue], str | None]
"""Says what is wrong with a value; values of other types than it is about are right."""

CHOICES_SHOWN = 20

_SCALARS = (str, int, float, type(None))


@record(frozen=False, eq=False)
class Check:
    """One schema. Values that fit are copied as plain dicts and lists.

    Args:
        types: JSON types that fit; None = any.
        exact: Python types that fit as they are, the common case.
        choices: The only values that fit; None = any.
        rules: What else must hold.
        properties: Known fields of an object.
        required: Fields an object must have.
        patterns: Checks of fields by their name.
        extra: Check of fields unknown by name and pattern; None = anything.
        prefix: Checks of the first items of a list.
        items: Check of the other items; None = anything.
        also: Schemas the value must fit too.
        groups: Alternatives, one of which the value must fit.
        make: Makes the Python value of JSON that fits, its parts being made already.
        makes: Whether this or a part has `make`.

    """

    types: frozenset[str] | None = None
    exact: frozenset[type] = frozenset()
    choices: tuple[JsonValue, ...] | None = None
    rules: tuple[Rule, ...] = ()
    properties: Mapping[str, Check] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[re.Pattern[str], Check], ...] = ()
    extra: Check | None = None
    prefix: tuple[Check, ...] = ()
    items: Check | None = None
    also: tuple[Check, ...] = ()
    groups: tuple[Alternatives, ...] = ()
    make: Callable[[Any], Any] | None = None
    makes: bool = False

    def check(self, value: JsonValue, place: Place, found: Violations) -> JsonValue:
        """Return the value, coerced and copied; what is wrong goes to `found`."""
        if self.types is not None and type(value) not in self.exact:
            fit = fitted(value, self.types, lenient=found.lenient)
            if fit is MISFIT:
                found.say(place, _misfit(self.types, value))
                return None
            value = fit
        if not isinstance(value, _SCALARS):
            value = self._parts(value, place, found)
        if self.choices is not None and not self.is_choice(value):
            found.say(place, f"expected {_one_of(self.choices)}, got {shown(value)}")
            return None
        for rule in self.rules:
            if problem := rule(value):
                found.say(place, problem)
        for check in self.also:
            value = check.check(value, place, found)
        for group in self.groups:
            value = group.check(value, place, found)
        return value

    def value_of(self, value: JsonValue, place: Place, found: Violations) -> Any:
        """Return the Python value of JSON that fits; what its class refuses goes to `found`."""
        if not self.makes:
            return value
        before = found.count
        for group in self.groups:
            value = group.value_of(value, place, found)
        if isinstance(value, dict):
            value = {
                name: self.field_of(name).value_of(item, (place, name), found)
                for name, item in value.items()
            }
        elif isinstance(value, list):
            value = [
                self.item_at(index).value_of(item, (place, index), found)
                for index, item in enumerate(value)
            ]
        if self.make is None or found.count > before:
            return value
        try:
            return self.make(value)
        except MisfitError as error:
            found.say_misfit(place, error)
        except Exception as error:  # noqa: BLE001 - an author's class may refuse values with any
            found.say(place, str(error) or type(error).__name__)
        return None

    def could_be(self, value: JsonValue) -> bool:
        """Whether the value is, or clearly means, a type that fits."""
        types = self.all_types()
        return types is None or fitted(value, types, lenient=True) is not MISFIT

    def has_tags(self, value: JsonValue) -> bool:
        """Whether the fields with `const` or `enum`, which tell forms apart, have such a value."""
        return not isinstance(value, Mapping) or all(
            check.is_choice(value[name]) for name, check in self.fields() if name in value
        )

    def all_types(self) -> frozenset[str] | None:
        """Types that fit, looking through references and alternatives; None = any."""
        parts = [self.types, *(check.all_types() for check in self.also)]
        parts += [group.all_types() for group in self.groups]
        known = [types for types in parts if types is not None]
        return frozenset.intersection(*known) if known else None

    def fields(self) -> Iterator[tuple[str, Check]]:
        """Yield the known fields, looking through references."""
        yield from self.properties.items()
        for check in self.also:
            yield from check.fields()

    def is_choice(self, value: JsonValue) -> bool:
        """Whether the value is one of `choices`; true is not 1."""
        return self.choices is None or any(
            value == choice and isinstance(value, bool) == isinstance(choice, bool)
            for choice in self.choices
        )

    def field_of(self, name: str) -> Check:
        """Return the check of a field, `NOTHING` where no such field may be."""
        known = self.properties.get(name)
        if known is not None:
            return known
        for pattern, check in self.patterns:
            if pattern.search(name):
                return check
        return ANYTHING if self.extra is None else self.extra

    def item_at(self, index: int) -> Check:
        """Return the check of an item."""
        if index < len(self.prefix):
            return self.prefix[index]
        return self.items or ANYTHING

    def _parts(self, value: JsonValue, place: Place, found: Violations) -> JsonValue:
        if isinstance(value, Mapping):
            return self._object(value, place, found)
        if not isinstance(value, (list, tuple)):
            found.say(place, f"{type(value).__name__} is not JSON")
            return None
        return [
            self.item_at(index).check(item, (place, index), found)
            for index, item in enumerate(value)
        ]

    def _object(
        self, value: Mapping[str, JsonValue], place: Place, found: Violations
    ) -> dict[str, JsonValue]:
        checked: dict[str, JsonValue] = {}
        for name, item in value.items():
            check, here = self.field_of(name), (place, name)
            if check is NOTHING:
                found.say(here, self._unknown(name, place))
            elif (item is None or item == "") and self._may_drop(name, found):
                trial = found.trial()
                fit = check.check(item, here, trial)
                if not trial.lines:
                    checked[name] = fit
            else:
                checked[name] = check.check(item, here, found)
        for name in self.required:
            if name not in value:
                found.say((place, name), "is missing")
        return checked

    def _may_drop(self, name: str, found: Violations) -> bool:
        """Models fill optional fields with null and ""; where these do not fit, none was meant."""
        return found.lenient and name in self.properties and name not in self.required

    def _unknown(self, name: str, place: Place) -> str:
        from difflib import get_close_matches

        text = "unknown argument" if place is None else "unknown field"
        known = [known for known, check in self.properties.items() if check is not NOTHING]
        near = get_close_matches(name[:NAME_CHARACTERS], known, n=1)
        if near:
            return f"{text}; did you mean `{near[0]}`?"
        names = [f"`{name}`" for name in known[:CHOICES_SHOWN]]
        return f"{text}; there is {', '.join(names) or 'none'}"


@record(frozen=False, eq=False)
class Alternatives:
    """Schemas one of which a value must fit: as it is, else coerced, the first that can."""

    checks: tuple[Check, ...]
    exactly_one: bool = False

    def check(self, value: JsonValue, place: Place, found: Violations) -> JsonValue:
        """Return the value as its form has it; what is wrong goes to `found`."""
        fits = list(self._fitting(value, found))
        if len(fits) > 1:
            found.say(place, "fits more than one of the forms of which it must have one")
        if fits:
            return fits[0][1]
        if not found.lenient:
            found.say(place, "fits none of its forms")
        likely = [check for check in self.checks if check.could_be(value)]
        likely = [check for check in likely if check.has_tags(value)] or likely
        if len(likely) == 1:
            return likely[0].check(value, place, found)
        if not likely:
            found.say(place, _misfit(self.all_types() or frozenset(), value))
            return None
        return self._coerced(likely, value, place, found)

    def value_of(self, value: JsonValue, place: Place, found: Violations) -> Any:
        """Return the Python value of JSON that fits one of the schemas."""
        form, _ = next(self._fitting(value, found), (ANYTHING, value))
        return form.value_of(value, place, found)

    def all_types(self) -> frozenset[str] | None:
        """Types that fit any of the schemas; None = any."""
        types = [check.all_types() for check in self.checks]
        known = [each for each in types if each is not None]
        return frozenset.union(*known) if len(known) == len(types) else None

    def _fitting(self, value: JsonValue, found: Violations) -> Iterator[tuple[Check, JsonValue]]:
        """Yield the forms the value has as it is, and the value: one, or two if two are wrong."""
        for check in self.checks:
            try:
                fit = check.check(value, None, found.trial(lenient=False))
            except MisfitError:
                continue
            yield check, fit
            if not self.exactly_one:
                return

    def _coerced(
        self, likely: list[Check], value: JsonValue, place: Place, found: Violations
    ) -> JsonValue:
        trials: list[Violations] = []
        for check in likely:
            trial = found.trial()
            fit = check.check(value, place, trial)
            if not trial.lines:
                return fit
            trials.append(trial)
        trials.sort(key=lambda trial: trial.count)
        if trials[0].count < trials[1].count:
            found.adopt(trials[0])
            return None
        forms = " | ".join(trial.lines[0] for trial in trials[:CHOICES_SHOWN])
        found.say(place, f"fits none of its forms ({forms})")
        return None


ANYTHING = Check()
NOTHING = Check(types=frozenset())


def _misfit(types: Iterable[str], value: JsonValue) -> str:
    wanted = frozenset(types)
    if not wanted:
        return "is not allowed"
    text = f"expected {expected(wanted)}, got {shown(value)}"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and "string" in wanted:
        return f"{text}; numbers are not turned into text, so quote it"
    return text


def _one_of(choices: tuple[JsonValue, ...]) -> str:
    words = [shown(choice) for choice in choices[:CHOICES_SHOWN]]
    if len(choices) > CHOICES_SHOWN:
        words.append(f"{len(choices) - CHOICES_SHOWN} more")
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
