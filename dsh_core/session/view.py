"""The log as others see it: it grows, and nobody can change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from dsh_core.events import Event


class Events(Sequence[Event]):
    """A window on a session's events. Copies nothing; a slice is a list of its own."""

    __slots__ = ("_events",)

    def __init__(self, events: list[Event]):
        self._events = events

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __reversed__(self) -> Iterator[Event]:
        return reversed(self._events)

    def __contains__(self, event: object) -> bool:
        return event in self._events

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Events, list, tuple)):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __repr__(self) -> str:
        return f"<{len(self)} events>"
