"""What is known of a session beside its events."""

from __future__ import annotations

from dsh_core.record import record

FORMAT_VERSION = 1


@record()
class SessionHeader:
    """The first line of a stored session.

    Args:
        id: Letters, digits, `-`, `_` and `.`.
        created_at: Unix seconds.
        cwd: The absolute folder the session works in.
        agent: The definition's name.
        parent: The session it was forked from.
        seed_length: How many of its first events it inherited.
        version: Of the format; checked before anything else is read.

    """

    id: str
    created_at: float
    cwd: str | None = None
    agent: str | None = None
    parent: str | None = None
    seed_length: int = 0
    version: int = FORMAT_VERSION
