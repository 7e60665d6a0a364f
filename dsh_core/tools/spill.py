"""Large output: kept whole in a private file, shown to the model as head, tail and path."""

from __future__ import annotations

import contextlib
import fcntl
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


_PREFIX = "dsh-output-"


class SpillFolder:
    """A private folder that is made when first needed and removed when the harness stops.

    Its owner holds a lock on it (`flock`, which ends with the process, however that ends), so a
    folder that can be locked is a dead harness's and is removed by the next that starts.
    """

    def __init__(self, parent: Path | None = None):
        self._parent = parent
        self._path: Path | None = None
        self._lock: int | None = None

    def path(self) -> Path:
        """Return the folder, mode 0700. Raises `OSError` when it cannot be made."""
        while self._path is None:
            path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent)).resolve()
            try:
                lock = _locked(path)
            except (FileNotFoundError, BlockingIOError):
                continue  # found by a sweep before it was locked
            except OSError:
                self._path = path  # a file system without locks: nobody sweeps there either
                break
            if path.exists():
                self._path, self._lock = path, lock
            else:
                os.close(lock)
        return self._path

    def sweep(self) -> None:
        """Remove this user's folders whose harness is dead."""
        try:
            with os.scandir(self._parent or tempfile.gettempdir()) as entries:
                found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
        except OSError as error:
            log.warning("cannot look for output that dead runs left: %s", error)
            return
        for path in found:
            # It may be alive, another user's, a link, or just going: all of them raise.
            with contextlib.suppress(OSError):
                lock = _locked(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)

    @property
    def existing(self) -> Path | None:
        """The folder, if it was made."""
        return self._path

    def save(self, name: str, text: str) -> Path:
        """Write text to a new file, mode 0600, and return its path; no file stays on a failure."""
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40] or "output"
        path = self.path() / f"{safe}-{os.urandom(4).hex()}.txt"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def remove(self) -> None:
        """Delete the folder."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def bounded(
    output: ToolOutput, name: str, limit_bytes: int, save: Callable[[str, str], Path]
) -> ToolOutput:
    """Return the output, with text beyond `limit_bytes` spilled; its text never exceeds the limit.

    When saving fails the middle is lost: the notice says so and why, and a warning is logged.
    """
    text = output.text
    if len(text) * 4 <= limit_bytes or len(data := text.encode()) <= limit_bytes:
        return output
    meta = {**(output.meta or {}), "size_bytes": len(data)}
    try:
        path = save(name, text)
    except OSError as error:
        log.warning("output of %s is cut, the rest cannot be saved: %s", name, error)
        where = f"they are lost, saving them failed: {error.strerror or error}"
    else:
        meta["spilled_to"] = str(path)
        where = f"the whole output is in {path}"
    others = tuple(block for block in output.content if not isinstance(block, Text))
    return replace(output, content=(Text(preview(data, limit_bytes, where)), *others), meta=meta)


def preview(data: bytes, limit_bytes: int, where: str) -> str:
    """Return head, notice and tail within the limit; the head alone where no notice fits.

    `where` says what became of the rest.
    """
    room = limit_bytes - len(_notice(len(data), where).encode())
    if room < 0:
        return data[:limit_bytes].decode(errors="ignore")
    head = data[: room - room // 2].decode(errors="ignore")
    tail = data[len(data) - room // 2 :].decode(errors="ignore") if room // 2 else ""
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}{_notice(left_out, where)}{tail}"


def _notice(left_out_bytes: int, where: str) -> str:
    return f"\n\n[… {left_out_bytes} bytes left out; {where} …]\n\n"


def _locked(path: Path | str) -> int:
    """Return a locked descriptor of a folder of this user, which a link is not.

    Raises `BlockingIOError` while somebody has the lock, another `OSError` where it cannot be had.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
