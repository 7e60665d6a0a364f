"""Violations: what is wrong with arguments, each in a line that begins with the place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from dsh_core.codec import clean_text
from dsh_core.errors import HarnessError

Place: TypeAlias = "tuple[Place, str | int] | None"
"""Where a value is: the place of what holds it, and its name or position there."""

LISTED_LIMIT = 50
"""Violations beyond this are counted: a list may hold a million misfits."""

TRIAL_LIMIT = 100_000
"""Forms tried in one validation, about a second: nested `anyOf` multiply."""

NAME_CHARACTERS = 100


class MisfitError(HarnessError):
    """A value does not fit; `problems` are pairs of the path to it and what is wrong."""

    def __init__(self, *problems: tuple[tuple[str | int, ...], str]):
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class Violations:
    """What was found wrong so far, in `lines`; `unlisted` counts what is beyond the limit.

    Args:
        lenient: Whether text may be coerced. If not, the first violation raises `MisfitError`.
        trials: The forms that may still be tried, shared by all trials of a validation.

    """

    __slots__ = ("lenient", "lines", "trials", "unlisted")

    def __init__(self, *, lenient: bool = True, trials: Iterator[int] | None = None):
        self.lenient = lenient
        self.lines: list[str] = []
        self.trials = iter(range(TRIAL_LIMIT)) if trials is None else trials
        self.unlisted = 0

    @property
    def count(self) -> int:
        """How many were found."""
        return len(self.lines) + self.unlisted

    def say(self, place: Place, text: str) -> None:
        """Add one."""
        if not self.lenient:
            raise MisfitError(((), text))
        if len(self.lines) < LISTED_LIMIT:
            self.lines.append(f"`{_path(place)}`: {text}")
        else:
            self.unlisted += 1

    def say_misfit(self, place: Place, error: MisfitError) -> None:
        """Add the problems of an error about the value at `place`."""
        for path, text in error.problems:
            here = place
            for part in path:
                here = (here, part)
            self.say(here, text)

    def adopt(self, trial: Violations) -> None:
        """Add what a trial found."""
        room = max(LISTED_LIMIT - len(self.lines), 0)
        self.lines += trial.lines[:room]
        self.unlisted += len(trial.lines[room:]) + trial.unlisted

    def trial(self, *, lenient: bool = True) -> Violations:
        """Start a list of its own, for a form the value may turn out not to have."""
        if next(self.trials, None) is None:
            raise MisfitError(((), "has too many forms to try them all"))
        return Violations(lenient=lenient, trials=self.trials)


def _path(place: Place) -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        is_index = isinstance(part, int)
        parts.append(f"[{part}]" if is_index else f".{clean_text(str(part))[:NAME_CHARACTERS]}")
    return "".join(reversed(parts)).removeprefix(".") or "arguments"
