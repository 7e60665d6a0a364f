"""What one command may do, in absolute paths without links: the same words for every backend."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dsh_core import user_dir
from dsh_sandbox.settings import Settings

PRIVATE = tuple(Path(folder) for folder in ("/run", "/var/run", "/tmp", "/var/tmp"))  # noqa: S108
"""Folders of which a command sees its own in place of everyone's: they hold the sockets of services
and what other programs left."""


@dataclass(frozen=True, slots=True)
class Name:
    """A protected name below the folder `root`, and what it would be if it were there.

    Nothing can stand in for some: it would break programs that look there.
    """

    root: Path
    path: Path
    is_folder: bool
    can_stand_in: bool = True

    @property
    def between(self) -> Sequence[Path]:
        """The folders on the way from the root, outermost first."""
        inside = (part for part in self.path.parents if part.is_relative_to(self.root))
        return [part for part in inside if part != self.root][::-1]

    @property
    def has_link(self) -> bool:
        """Whether a link is on the way, or the name is one: nothing can be mounted over a link."""
        return any(part.is_symlink() for part in (self.path, *self.between))


@dataclass(frozen=True, slots=True)
class Zone:
    """What a command may do.

    Args:
        mode: `workspace-write` or `read-only`.
        network: Whether it reaches other machines.
        unix_sockets: Whether it can open unix sockets.
        writable: What it may write, folders for the most part.
        protected: What it may not, although it is below.
        hidden: What it cannot read.
        sealed: Folders of dsh's own that lie in what is writable; it runs what stands there.
        visible: What it can read although it lies in a private folder.
        reason: Why it may do less than the settings say; "" where it does not.

    """

    mode: str
    network: bool
    unix_sockets: bool
    writable: tuple[Path, ...]
    protected: tuple[Name, ...]
    hidden: tuple[Path, ...]
    sealed: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()
    reason: str = ""

    def read_only(self) -> Zone:
        """The same without anything to write, and without network."""
        return replace(
            self,
            mode="read-only",
            network=False,
            unix_sockets=False,
            writable=(),
            protected=(),
            sealed=(),
            visible=(*self.visible, *self.writable),
        )


def zone_of(root: Path, settings: Settings) -> Zone:
    """Return what commands of an agent may do that works in the folder `root`."""
    wanted = [root, *(Path(os.path.expanduser(each)) for each in settings.writable)]
    found = [resolved(each) for each in wanted]
    reason = ""
    if settings.mode == "read-only":
        found = []
    elif resolved(Path(os.path.expanduser("~"))).is_relative_to(found[0]):
        # Start-up files and keys of every program lie there.
        reason = f"{found[0]} holds your home folder, so it is not writable; work in a folder of it"
        del found[0]
    writable = tuple(dict.fromkeys(each for each in found if each.exists()))
    return Zone(
        "workspace-write" if settings.mode == "workspace-write" else "read-only",
        settings.network,
        settings.unix_sockets,
        writable,
        tuple(_protected(writable, settings.protected)),
        tuple(each for each in _hidden(settings.hidden) if not resolved(root).is_relative_to(each)),
        sealed=tuple(_sealed(writable)),
        visible=() if resolved(root) in writable else (resolved(root),),
        reason=reason,
    )


def resolved(path: Path) -> Path:
    """Return an absolute path without links."""
    return Path(os.path.realpath(path))


def private_folders() -> Iterator[Path]:
    """Yield the folders of which a command sees its own, each once and without links."""
    seen = {resolved(folder) for folder in (*PRIVATE, Path(tempfile.gettempdir()))}
    yield from sorted(
        each
        for each in seen
        if each.is_dir() and not any(each != other and each.is_relative_to(other) for other in seen)
    )


def _sealed(writable: Sequence[Path]) -> Iterator[Path]:
    """Yield where dsh runs from, where a command could change it: its environment."""
    own = resolved(Path(sys.prefix))
    if any(own != folder and own.is_relative_to(folder) for folder in writable):
        yield own


def _protected(writable: Sequence[Path], names: Sequence[str]) -> Iterator[Name]:
    for folder in writable:
        if not folder.is_dir():
            continue
        for name in names:
            yield Name(folder, folder / name.rstrip("/"), name.endswith("/"))
        if ".git/config" in names:
            # It says where configuration and hooks are instead; git dies of one it cannot read.
            yield Name(folder, folder / ".git/commondir", is_folder=False, can_stand_in=False)
    own = resolved(user_dir(os.environ))
    for folder in writable:
        if own != folder and own.is_relative_to(folder):
            yield Name(folder, own, is_folder=True)


def _hidden(names: Iterable[str]) -> Iterator[Path]:
    for path in (*(Path(os.path.expanduser(name)) for name in names), user_dir(os.environ)):
        found = resolved(path)
        if found.exists():
            yield found
