"""Where a command runs when its working directory is gone."""

from __future__ import annotations

import os
from pathlib import Path

from dsh_core.execution import readable, system_bytes


def working_directory(wanted: Path, workspace: Path) -> tuple[Path, str | None]:
    """Return the directory to run in and, where it is not the wanted one, a line that says so.

    A vanished directory falls back to the agent's workspace, then to the nearest parent that is
    left.
    """
    if _is_directory(wanted):
        return wanted, None
    candidates = (workspace, *wanted.parents, Path("/"))
    cwd = next(candidate for candidate in candidates if _is_directory(candidate))
    return cwd, f"[working directory {readable(wanted)} is gone; ran in {readable(cwd)}]"


def _is_directory(path: Path) -> bool:
    return os.path.isdir(system_bytes(str(path)))
