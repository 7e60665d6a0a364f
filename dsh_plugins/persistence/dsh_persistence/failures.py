"""What can go wrong with stored sessions, in the user's words."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dsh_core import Event, UserError

_REMEDIES = {
    errno.ENOSPC: "Free some space on the disk; writing is tried again.",
    errno.EDQUOT: "Free some of your quota; writing is tried again.",
    errno.EFBIG: "Raise the limit on file sizes (`ulimit -f`); writing is tried again.",
    errno.EROFS: "Set plugins.persistence.folder to a folder that can be written.",
    errno.EACCES: "Make it yours, or set plugins.persistence.folder to another folder.",
    errno.EPERM: "Make it yours, or set plugins.persistence.folder to another folder.",
    errno.EEXIST: "Move the file that is in the way, or set plugins.persistence.folder.",
    errno.ENOTDIR: "Move the file that is in the way, or set plugins.persistence.folder.",
    errno.ENOLCK: "Set plugins.persistence.folder to a local disk.",
    errno.EOPNOTSUPP: "Set plugins.persistence.folder to a local disk.",
}


class StoreError(UserError):
    """The store could not be read or written; what is stored already is whole."""


class NoSessionError(UserError):
    """There is no such session."""


class InUseError(UserError):
    """Another process, or another agent, writes the session."""


class TakenError(UserError):
    """A stored session has the id of a new one."""


class DamageError(UserError):
    """A stored session does not say what was written."""


class NewerFormatError(UserError):
    """A stored session was written by a newer dsh; it is left as it is."""


def no_session(session_id: str) -> NoSessionError:
    """Return the error for an id that is not stored."""
    return NoSessionError(
        f"there is no session {session_id!r}", remedy="`dsh sessions list` shows those there are."
    )


def taken(session_id: str, where: str) -> TakenError:
    """Return the error for a new session with a stored one's id."""
    return TakenError(
        f"another session is stored as {session_id!r} already",
        where=where,
        remedy="Give the new one another id, or resume the stored one.",
    )


def bad_cursor(cursor: str) -> StoreError:
    """Return the error for a cursor that no page gave."""
    return StoreError(
        f"{cursor!r} is no place in a list of sessions", remedy="Use the cursor of a page."
    )


def following(events: Sequence[Event], count: int) -> Sequence[Event]:
    """Return the events that come after `count` stored ones. Raises `StoreError` for a gap."""
    if not events:
        return ()
    first = events[0].seq
    if first > count:
        raise StoreError(
            f"event {first} cannot be stored: events from {count} on are missing before it",
            remedy="This is a fault in dsh; please report it.",
        )
    return events[count - first :] if first < count else events


@contextmanager
def storing(path: Path | str) -> Iterator[None]:
    """Say what the system refuses to do to a file."""
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else str(path)
        raise StoreError(
            f"sessions cannot be stored there: {error.strerror or error}",
            where=where,
            remedy=_REMEDIES.get(error.errno or 0, "Check the disk; writing is tried again."),
        ) from error


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Say what the system refuses to read."""
    try:
        yield
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else str(path)
        raise StoreError(
            f"the session cannot be read: {error.strerror or error}",
            where=where,
            remedy="Check the disk and who may read the file.",
        ) from error
