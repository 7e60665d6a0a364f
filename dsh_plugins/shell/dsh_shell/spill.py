"""The file that holds a stream which is too long for the conversation."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from dsh_core.execution import readable, system_bytes, system_text


class Spill:
    """The raw bytes of one stream, in memory while they are few, then in a private file.

    Writing is synchronous: the file is bounded and goes to the page cache.

    Args:
        folder: Makes the private folder the file goes to, when there is something to write.
        name: Start of the file's name.
        threshold_bytes: Up to this much stays in memory.
        limit_bytes: At most this much is saved.

    """

    def __init__(
        self, folder: Callable[[], Path], name: str, *, threshold_bytes: int, limit_bytes: int
    ):
        self._folder = folder
        self._name = name
        self._threshold_bytes = threshold_bytes
        self._room_bytes = limit_bytes
        self._early = bytearray()
        self._descriptor: int | None = None
        self._path: bytes | None = None
        self.is_complete = True
        self.problem: str | None = None

    @property
    def path(self) -> str | None:
        """The file, for the model to read; None where there is none."""
        return None if self._path is None else readable(system_text(self._path))

    def write(self, data: bytes) -> None:
        """Take the next bytes. Never raises: `problem` says what went wrong."""
        if self._descriptor is not None:
            self._save(data)
        elif self.is_complete:
            self._early += data
            if len(self._early) > self._threshold_bytes:
                self.open()

    def open(self) -> None:
        """Create the file, unless there is one or it failed, and write what was held back."""
        if self._path is not None or self.problem is not None:
            return
        try:
            self._create()
        except OSError as error:
            self._fail(error)
        else:
            self._save(bytes(self._early))
        self._early.clear()

    def close(self, *, keep: bool) -> None:
        """Write no more; without `keep` the file goes too."""
        self._close_descriptor()
        self._early.clear()
        if self._path is not None and not keep:
            # The whole folder may be gone already.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._path = None

    def _create(self) -> None:
        folder = system_bytes(str(self._folder()))
        # A random name, created exclusively, readable by its owner only.
        self._descriptor, self._path = tempfile.mkstemp(b".log", self._name.encode(), folder)

    def _save(self, data: bytes) -> None:
        assert self._descriptor is not None
        if len(data) > self._room_bytes:
            data = data[: self._room_bytes]
            self.is_complete = False
        try:
            while data:
                written = os.write(self._descriptor, data)
                self._room_bytes -= written
                data = data[written:]
        except OSError as error:
            self._fail(error)
        if not self.is_complete:
            self._close_descriptor()

    def _fail(self, error: OSError) -> None:
        self.problem = error.strerror or str(error)
        self.is_complete = False

    def _close_descriptor(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
