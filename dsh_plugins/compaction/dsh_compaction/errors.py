"""Why a compaction left the history as it was."""

from __future__ import annotations

from dsh_core import HarnessError


class CompactionError(HarnessError):
    """No room could be made; the message says why."""


class TooLargeError(CompactionError):
    """The part to be summarised does not fit the window; a smaller one may."""
