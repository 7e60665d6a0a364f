"""What an agent has seen of files, so that it never overwrites what it does not know.

A file counts as unchanged when its bytes are, whatever happened to its times: the digest decides
wherever the bytes are at hand, the version (taken before the bytes were read) where they are not.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from dsh_core import StashKey

if TYPE_CHECKING:
    from dsh_core import Agent


@dataclass(frozen=True, slots=True)
class Version:
    """A state of a file, as `stat` tells it."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """Return the version a status shows."""
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as the agent last saw it.

    Args:
        version: Taken before its bytes were read.
        digest: Of all its bytes; None where only its type was looked at.
    """

    version: Version
    digest: bytes | None


class Observations:
    """What one agent knows: of a resolved path a `Seen`, None for "not there", or nothing."""

    def __init__(self) -> None:
        self._known: dict[Path, Seen | None] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._known

    def get(self, path: Path) -> Seen | None:
        """Return what was seen; None for a file that was not there, or never looked for."""
        return self._known.get(path)

    def saw(self, path: Path, seen: Seen) -> None:
        """Remember a file."""
        self._known[path] = seen

    def saw_nothing(self, path: Path) -> None:
        """Remember that there is no file."""
        self._known[path] = None


class PathLocks:
    """One lock for each path that is being written, for all agents of a harness."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Path, _Lock] = WeakValueDictionary()

    @contextmanager
    def held(self, path: Path) -> Iterator[None]:
        """Hold the lock of a resolved path."""
        with self._guard:
            lock = self._locks.setdefault(path, _Lock())
        with lock.mutex:
            yield


class _Lock:
    """A lock that can be referred to weakly on every version of Python."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()


_OBSERVATIONS = StashKey[Observations]("files.observations")


def observations_of(agent: Agent) -> Observations:
    """Return the agent's observations; they live as long as the agent's handle."""
    return agent.stash.setdefault(_OBSERVATIONS, Observations())


def digest_of(data: bytes) -> bytes:
    """Return the digest of a file's bytes: SHA-256, which current processors have built in."""
    return hashlib.sha256(data).digest()
