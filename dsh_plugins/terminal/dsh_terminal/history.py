"""What was typed before, kept in a private file; known secrets are left out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs
from prompt_toolkit.history import FileHistory, History, InMemoryHistory


class PrivateHistory(FileHistory):
    """A file that only its user can read.

    Args:
        path: The file; its folder is made.
        scrub: Takes secrets out.
    """

    def __init__(self, path: Path, scrub: Callable[[str], str]):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        super().__init__(str(path))
        self._scrub = scrub

    def store_string(self, string: str) -> None:
        """Append what was typed."""
        super().store_string(self._scrub(string).encode("utf-8", "replace").decode())


def open_history(scrub: Callable[[str], str], *, is_kept: bool) -> History:
    """Return the history of this user; one in memory where no file can be written."""
    if not is_kept:
        return InMemoryHistory()
    try:
        folder = Path(platformdirs.user_state_dir("dsh-core"))
        return PrivateHistory(folder / "chat-history", scrub)
    except OSError:
        return InMemoryHistory()
