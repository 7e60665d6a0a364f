"""Whom to greet and how. Knows nothing of dsh, and is tested without it."""

from __future__ import annotations


def greet(greeting: str, name: str) -> str:
    """Return the greeting. Raises `ValueError` for a name without letters."""
    known_as = " ".join(name.split())
    if not any(letter.isalpha() for letter in known_as):
        raise ValueError(f"{name!r} is no name")
    return f"{greeting}, {known_as}!"


class Greeted:
    """The names that were greeted, in order."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def add(self, name: str) -> None:
        """Remember a name; twice is once."""
        self._names[name] = None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._names)

    def describe(self) -> str:
        """Return the names, for people."""
        return ", ".join(self._names) or "Nobody yet."
