"""Half-open intervals of integers, as in opening hours and booked seats."""

from intervals.interval import Interval
from intervals.schedule import free, merged, total_length

__all__ = ["Interval", "free", "merged", "total_length"]
