"""Typed per-object state for plugins, after pytest's Stash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
D = TypeVar("D")


class StashKey(Generic[T]):
    """A key of a `Stash`; the holder of the key object owns the value.

    Args:
        owner: Who holds the value and what it is, as in `files.observed`: what a plugin keeps
            under its name goes when the plugin is taken out.

    """

    __slots__ = ("owner",)

    def __init__(self, owner: str = ""):
        self.owner = owner

    def __repr__(self) -> str:
        return f"StashKey({self.owner!r})"


class Stash:
    """Values by `StashKey`. Two plugins cannot meet in it by accident."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[StashKey[Any], Any] = {}

    def __setitem__(self, key: StashKey[T], value: T) -> None:
        self._values[key] = value

    def __getitem__(self, key: StashKey[T]) -> T:
        return cast(T, self._values[key])

    def __delitem__(self, key: StashKey[T]) -> None:
        del self._values[key]

    def __contains__(self, key: StashKey[Any]) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[StashKey[Any]]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: StashKey[T], default: D) -> T | D:
        """Return the value, or `default`."""
        return cast("T | D", self._values.get(key, default))

    def setdefault(self, key: StashKey[T], default: T) -> T:
        """Return the value, which becomes `default` where there was none."""
        return cast(T, self._values.setdefault(key, default))

    def pop(self, key: StashKey[T], default: D) -> T | D:
        """Remove and return the value, or return `default`."""
        return cast("T | D", self._values.pop(key, default))

    def remove_owner(self, owner: str) -> None:
        """Remove the values whose key is named `owner` or `owner.…`."""
        for key in [*self._values]:
            if key.owner.partition(".")[0] == owner:
                del self._values[key]
