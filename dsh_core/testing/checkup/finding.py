"""One thing that is wrong with a plugin."""

from __future__ import annotations

from typing import Any

from dsh_core.codec import to_json
from dsh_core.record import record


@record()
class Finding:
    """What is wrong, where, and what to do.

    Args:
        rule: What kind of thing it is, one word.
        message: What is wrong.
        remedy: What to do about it.
        is_fatal: The plugin cannot be used at all.
        is_timed: It depends on how long something took.

    """

    rule: str
    message: str
    remedy: str = ""
    is_fatal: bool = False
    is_timed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        values: Any = to_json(self)
        return {key: values[key] for key in ("rule", "message", "remedy")}
