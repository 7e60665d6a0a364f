"""Large output: kept whole in a private file, shown to the model as head, tail and path."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dsh_core.content import Text
from dsh_core.outcome import ToolOutput

log = logging.getLogger("dsh.tools")

INLINE_LIMIT_BYTES = 50_000
"""About 12,000 tokens: a tenth of a 128k window."""


class SpillFolder:
    """A private folder that is made when first needed and removed when the harness stops."""

    def __init__(self, parent: Path | None = None):
        self._parent = parent
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the folder, mode 0700. Raises `OSError` when it cannot be made."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="dsh-spill-", dir=self._parent)).resolve()
        return self._path

    @property
    def existing(self) -> Path | None:
        """The folder, if it was made."""
        return self._path

    def save(self, name: str, text: str) -> Path:
        """Write text to a new file, mode 0600, and return its path."""
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40] or "output"
        path = self.path() / f"{safe}-{os.urandom(4).hex()}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
        return path

    def remove(self) -> None:
        """Delete the folder."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None


def bounded(
    output: ToolOutput, name: str, limit_bytes: int, save: Callable[[str, str], Path]
) -> ToolOutput:
    """Return the output, with text beyond `limit_bytes` spilled; never larger than the limit.

    When saving fails the whole text stays inline and a warning is logged.
    """
    text = output.text
    if len(text) * 4 <= limit_bytes or len(data := text.encode()) <= limit_bytes:
        return output
    try:
        path = save(name, text)
    except OSError as error:
        log.warning("output of %s stays inline, it cannot be saved: %s", name, error)
        return output
    shown = preview(data, limit_bytes, path)
    if shown is None:
        return output
    others = tuple(block for block in output.content if not isinstance(block, Text))
    meta = {**(output.meta or {}), "spilled_to": str(path), "size_bytes": len(data)}
    return replace(output, content=(Text(shown), *others), meta=meta)


def preview(data: bytes, limit_bytes: int, path: Path) -> str | None:
    """Return head, notice and tail within the limit; None when the notice alone is too long."""
    notice = f"\n\n[… {len(data)} bytes left out; the whole output is in {path} …]\n\n"
    room = limit_bytes - len(notice.encode())
    if room < 0:
        return None
    head = data[: room - room // 2].decode(errors="ignore")
    tail = data[len(data) - room // 2 :].decode(errors="ignore") if room // 2 else ""
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n\n[… {left_out} bytes left out; the whole output is in {path} …]\n\n{tail}"
