"""One interval: from `start`, which belongs to it, to `end`, which does not."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Interval:
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise ValueError(f"an interval needs a length: {self.start} to {self.end}")

    @property
    def length(self) -> int:
        return self.end - self.start

    def touches(self, other: "Interval") -> bool:
        """Whether the two overlap or meet, so that together they are one interval."""
        return self.start <= other.end and other.start <= self.end
