"""What is wrong in a configuration and how it is said: where, what was found, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from dsh_core.errors import ConfigError
from dsh_core.record import record
from dsh_core.secrets import shown_url

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys, and indexes of list items."""


class Place(NamedTuple):
    """A position in a file, counted from 1. For a mapping's entry it is the key's."""

    line: int
    column: int


_SHOWN_CHARACTERS = 40


@record()
class Mistake:
    """One thing the user has to change.

    Args:
        where: Place and key path.
        message: What is wrong; never the text of an environment variable.
        remedy: What to do, a sentence.
    """

    where: str
    message: str
    remedy: str


def refuse(mistakes: Sequence[Mistake]) -> None:
    """Raise one `ConfigError` that names every mistake, each on a line; none = return.

    A single mistake fills the error's `where` and `remedy`.
    """
    if not mistakes:
        return
    if len(mistakes) == 1:
        only = mistakes[0]
        raise ConfigError(only.message, where=only.where, remedy=only.remedy)
    in_order = sorted(mistakes, key=lambda each: _numbers_apart(each.where))
    lines = [f"  {each.where}: {each.message}. {each.remedy}" for each in in_order]
    raise ConfigError("\n".join([f"{len(mistakes)} mistakes in the configuration", *lines]))


def dotted(path: KeyPath) -> str:
    """Say a key path as the user types it."""
    return ".".join(map(str, path))


def position(name: str, place: Place) -> str:
    """Say a place in a file as editors and terminals link it."""
    return f"{name}:{place.line}:{place.column}"


def at(place: str, path: KeyPath) -> str:
    """Say a place and a key path; the top of a file has no path."""
    return f"{place}: {dotted(path)}" if path else place


def did_you_mean(word: str, known: Iterable[str], *, what: str = "Known") -> str:
    """Name the nearest known word, or all of them where none is near."""
    names = list(known)
    near = nearest(word, names)
    if near is not None:
        return f"Did you mean `{near}`?"
    return f"{what}: {', '.join(names) or 'none'}."


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that looks most like this one, if any looks like it."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def found(value: object, *, hidden: bool = False) -> str:
    """Describe a value in the user's words; a hidden one by its kind only."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() if hidden:
            return "text that is not shown"
        case str():
            text = shown_url(value)
            cut = len(text) > _SHOWN_CHARACTERS
            return f"'{text[:_SHOWN_CHARACTERS]}…'" if cut else f"'{text}'"
        case _:
            return "a number that is not shown" if hidden else str(value)


def _numbers_apart(text: str) -> list[tuple[str, int]]:
    """Make a sort key by which line 9 comes before line 10."""
    parts = re.findall(r"(\D*)(\d*)", text)
    return [(words, int(digits or 0)) for words, digits in parts]
