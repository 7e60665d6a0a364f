"""Paths as the file system sees them: every name a written path goes by, links and all."""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

LINK_LIMIT = 40
"""As the kernel's own (path_resolution(7))."""

PROTECTED = (
    ".git", ".dsh", ".vscode", ".idea", ".husky", ".mcp.json", ".envrc", ".gitconfig",
    ".gitmodules", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
    ".zprofile", ".zshenv", ".zlogin", ".ssh", ".npmrc", ".pypirc", ".netrc", ".github/workflows",
    "dsh.yaml", "dsh_local.py",
)  # fmt: skip
"""What programs of the user's run or obey without asking: at any depth, in any case of letters."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a written path stands for.

    Args:
        written: As it was written.
        spelled: Absolute, `.` and `..` taken out of the text.
        resolved: Where it leads, all links followed; None where that cannot be found out.
        names: All of these and every link on the way, absolute.
        identity: Device and inode of what is there; None for nothing.
        links: How many names what is there has.
        is_special: A device, a socket, a pipe.
        is_folder: A folder.

    """

    written: str
    spelled: str
    resolved: str | None
    names: tuple[str, ...]
    identity: tuple[int, int] | None = None
    links: int = 1
    is_special: bool = False
    is_folder: bool = False


def place_of(written: str, folder: Path, home: Path) -> Place:
    """Resolve a path against a folder; it need not exist."""
    expanded = expand_home(written, home)
    absolute = expanded if expanded.startswith("/") else f"{folder}/{expanded}"
    spelled = os.path.normpath(absolute)
    if spelled.startswith("//"):
        spelled = spelled[1:]
    try:
        names, resolved = _follow(absolute)
        status = os.stat(resolved) if resolved is not None else None
    except (FileNotFoundError, NotADirectoryError):
        status = None
    except (OSError, ValueError):
        return Place(written, spelled, None, (spelled,))
    every = tuple(dict.fromkeys((spelled, *names, *([resolved] if resolved else []))))
    if status is None:
        return Place(written, spelled, resolved, every)
    mode = status.st_mode
    return Place(
        written,
        spelled,
        resolved,
        every,
        (status.st_dev, status.st_ino),
        1 if stat.S_ISDIR(mode) else status.st_nlink,
        not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)),
        stat.S_ISDIR(mode),
    )


def expand_home(written: str, home: Path) -> str:
    """Put the home folder in place of `~`."""
    if written == "~" or written.startswith("~/"):
        return str(home) + written[1:]
    return written


def _follow(absolute: str) -> tuple[list[str], str | None]:
    """Walk a path part by part, as the kernel does; return the names on the way, and the end."""
    pending = [part for part in reversed(absolute.split("/")) if part and part != "."]
    current = ""
    names: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            current = current.rpartition("/")[0]
            continue
        current = f"{current}/{part}"
        try:
            target = os.readlink(current)
        except OSError:
            continue
        links += 1
        if links > LINK_LIMIT:
            return names, None
        rest = "/".join(reversed(pending))
        names.append(f"{current}/{rest}" if rest else current)
        current = "" if target.startswith("/") else current.rpartition("/")[0]
        pending.extend(part for part in reversed(target.split("/")) if part and part != ".")
    return [os.path.normpath(name) for name in names], current or "/"


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it, compared part by part."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def folded(text: str) -> str:
    """Return a path as a file system that ignores case and composition compares it."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def protected_part(path: str, more: tuple[str, ...] = ()) -> str | None:
    """Return the protected name that a path is or lies below, or None."""
    parts = folded(path).split("/")
    joined = "/".join(parts) + "/"
    for name in (*PROTECTED, *more):
        if "/" in name:
            if f"/{folded(name)}/" in joined:
                return name
        elif folded(name) in parts:
            return name
    return None
