"""Many intervals together."""

from collections.abc import Iterable

from intervals.interval import Interval


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the fewest intervals that cover the same ground, in order."""
    result: list[Interval] = []
    for interval in sorted(intervals):
        if result and result[-1].touches(interval):
            result[-1] = Interval(result[-1].start, interval.end)
        else:
            result.append(interval)
    return result


def total_length(intervals: Iterable[Interval]) -> int:
    """Return how much ground the intervals cover; what is covered twice counts once."""
    return sum(interval.length for interval in merged(intervals))


def free(intervals: Iterable[Interval], within: Interval) -> list[Interval]:
    """Return the gaps that the intervals leave inside `within`."""
    gaps: list[Interval] = []
    at = within.start
    for taken in merged(intervals):
        if at < min(taken.start, within.end):
            gaps.append(Interval(at, min(taken.start, within.end)))
        at = max(at, taken.end)
    if at < within.end:
        gaps.append(Interval(at, within.end))
    return gaps
