"""Patterns of path rules: `src/**`, `.env`, `~/.ssh/**`, `/etc/*`.

`*` and `?` stop at `/`, `**` does not. A pattern with a slash inside is anchored at the workspace,
a bare name matches at any depth. What denies or asks covers folders with all that is below,
ignoring case; what allows means exactly what it says.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dsh_permission.paths import Place, expand_home, folded, is_inside


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern for one workspace.

    Args:
        exact: Matches what an allow rule covers.
        wide: Matches what a deny or ask rule covers, on folded text.
        root: The folder an allow rule stays in; None where it names its own.
        identity: Device and inode of what a literal pattern names.

    """

    exact: re.Pattern[str]
    wide: re.Pattern[str]
    root: str | None
    identity: tuple[int, int] | None

    def allows(self, place: Place) -> bool:
        """Whether the spelling and where it leads are both covered."""
        if place.resolved is None:
            return False
        return all(
            self.exact.fullmatch(name) is not None
            and (self.root is None or is_inside(name, self.root))
            for name in (place.spelled, place.resolved)
        )

    def touches(self, place: Place) -> bool:
        """Whether any name of the place is covered, or it is the same file under another name."""
        if self.identity is not None and self.identity == place.identity:
            return True
        return any(self.wide.fullmatch(folded(name)) for name in place.names)

    def may_be_below(self, place: Place) -> bool:
        """Whether something below a folder may be covered."""
        return self.root is None or any(
            is_inside(self.root, name) or is_inside(name, self.root) for name in place.names
        )


def compile_pattern(spec: str, workspace: Path, home: Path) -> PathPattern:
    """Compile the text in the parentheses of a path rule."""
    text = expand_home(spec, home)
    if text.startswith("//"):
        text = text[1:]
    root = os.path.realpath(workspace)
    if text.startswith("/"):
        return _compiled(_real_prefix(text), None)
    while text.startswith("./"):
        text = text[2:]
    if "/" in text.rstrip("/"):
        return _compiled(f"{root}/{text}", root)
    return _bare(text.rstrip("/"), root)


def _real_prefix(text: str) -> str:
    """Resolve the folders before the first wildcard, so that linked spellings match too."""
    head, tail = [], text.split("/")
    while tail and not set(tail[0]) & set("*?"):
        head.append(tail.pop(0))
    real = os.path.realpath("/".join(head) or "/") if len(head) > 1 else "/"
    if not tail:
        return real
    return real.rstrip("/") + "/" + "/".join(tail)


def _compiled(text: str, root: str | None) -> PathPattern:
    text = _without_dots(text)
    is_literal = not set("*?") & set(text)
    wide = text.rstrip("/")
    while wide.endswith(("/**", "/*")) and wide.endswith("/**"):
        wide = wide[:-3]
    return PathPattern(
        re.compile(_regex(text.rstrip("/")), re.DOTALL),
        re.compile(_regex(folded(wide)) + r"(?:/.*)?", re.DOTALL),
        root,
        identity_of(text) if is_literal else None,
    )


def _bare(name: str, root: str) -> PathPattern:
    any_folder = re.escape(root) + r"(?:/.*)?/"
    return PathPattern(
        re.compile(any_folder + _regex(name), re.DOTALL),
        re.compile(rf"(?:.*/)?{_regex(folded(name))}(?:/.*)?", re.DOTALL),
        root,
        identity_of(f"{root}/{name}") if not set("*?") & set(name) else None,
    )


def _without_dots(text: str) -> str:
    parts: list[str] = []
    for part in text.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def identity_of(path: str) -> tuple[int, int] | None:
    """Return device and inode of what a path leads to, None for nothing."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


_PARTS = re.compile(r"/\*\*/|\*\*/|/\*\*|\*\*|\*|\?|[^*?/]+|/")
_AS_REGEX = {
    "/**/": r"/(?:.*/)?",
    "**/": r"(?:.*/)?",
    "/**": r"/.*",
    "**": r".*",
    "*": r"[^/]*",
    "?": r"[^/]",
}


def _regex(text: str) -> str:
    return "".join(_AS_REGEX.get(part) or re.escape(part) for part in _PARTS.findall(text))
