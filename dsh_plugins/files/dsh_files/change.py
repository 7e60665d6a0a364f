"""Publishing a change: only over what the agent has seen, and remembered as seen."""

from __future__ import annotations

import os
import threading

from dsh_core import ToolError
from dsh_files import atomic
from dsh_files.failure import shown, stop_if
from dsh_files.observation import Observations, Seen, Version, digest_of
from dsh_files.workspace import Target


def create_unseen(
    folder: int,
    target: Target,
    content: bytes,
    observations: Observations,
    cancelled: threading.Event,
) -> None:
    """Make a file where there is none. Raises `FS_STALE_VERSION` if somebody else just did."""
    try:
        status = atomic.create(
            folder, target.name, [content], before_publishing=lambda: stop_if(cancelled)
        )
    except FileExistsError as error:
        raise stale(target, "was created by somebody else") from error
    observations.saw(target.path, Seen(Version.of(status), digest_of(content)))


def replace_seen(
    folder: int,
    target: Target,
    content: bytes,
    expected: os.stat_result,
    observations: Observations,
    cancelled: threading.Event,
) -> None:
    """Replace a file that is as the agent has seen it. Raises `FS_STALE_VERSION`."""
    is_effective = os.access in os.supports_effective_ids
    if not os.access(target.name, os.W_OK, dir_fd=folder, effective_ids=is_effective):
        raise ToolError(
            f"{shown(target.written)} is write-protected (mode {expected.st_mode & 0o7777:o}).",
            code="FS_PERMISSION_DENIED",
        )
    try:
        status = atomic.replace(
            folder,
            target.name,
            [content],
            expected,
            before_publishing=lambda: stop_if(cancelled),
        )
    except atomic.ChangedError as error:
        raise stale(target) from error
    except PermissionError as error:
        raise ToolError(
            f"{shown(target.written)} is unchanged: it could not be replaced in one step, as no "
            f"new file may be put into its folder ({error.strerror}).",
            code="FS_PERMISSION_DENIED",
        ) from error
    observations.saw(target.path, Seen(Version.of(status), digest_of(content)))


def link_note(before: os.stat_result) -> str:
    """Say that a replaced file had other names, which keep the old content; else nothing."""
    if before.st_nlink < 2:
        return ""
    return f" It was one of {before.st_nlink} hard links; the others keep the old content."


def stale(target: Target, words: str = "changed") -> ToolError:
    """Return the failure for a file that is not as the agent saw it, with the way out."""
    return ToolError(
        f"{shown(target.written)} {words} since you looked at it. Read it again, then retry.",
        code="FS_STALE_VERSION",
    )
