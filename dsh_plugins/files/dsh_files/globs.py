r"""Glob patterns: `*`, `?`, `[…]`, `**` for any folders, `{a,b}`, and `\` before a plain character.

As in gitignore files and ripgrep, a pattern without `/` matches a name at any depth, one with `/`
the whole path below the folder that is searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from dsh_core import ToolError

ALTERNATIVES_LIMIT = 256
"""Patterns that braces may expand to; `{a,b}` twenty times over would be a million."""

LENGTH_LIMIT = 4_096
"""Characters of a pattern: as many as a path may have on Linux."""

MAGIC = frozenset("*?[]{}\\")
_PLAIN_NAME = re.compile(r"[\w.*?@+,=~ -]+")


class Glob:
    """A pattern that can be asked about paths, given relative to the folder that is searched."""

    def __init__(self, pattern: str) -> None:
        self._alternatives = tuple(_expanded(_checked(pattern)))
        if len(self._alternatives) > ALTERNATIVES_LIMIT:
            raise _invalid(pattern, f"its braces stand for more than {ALTERNATIVES_LIMIT} patterns")
        self.regex = "|".join(f"(?:{_regex(text)})" for text in self._alternatives)
        try:
            self._match = re.compile(self.regex).fullmatch
        except re.error as error:
            raise _invalid(pattern, str(error)) from error

    def matches(self, path: str) -> bool:
        """Whether a path with `/` between its parts matches."""
        return self._match(path) is not None

    def names(self) -> tuple[str, ...] | None:
        """Return simple globs of which every match's name fits one; None where there are none."""
        names = tuple(text.rpartition("/")[2] for text in self._alternatives)
        simple = all(_PLAIN_NAME.fullmatch(name) and "**" not in name for name in names)
        return names if simple else None


def split_base(pattern: str) -> tuple[str, str]:
    """Split leading folders without magic off: `src/**/*.py` is `**/*.py` below `src`.

    Returns "" for the folder where the pattern begins with magic or has no `/`.
    """
    parts = (f"{pattern}**" if pattern.endswith("/") else pattern).split("/")
    plain = next(
        (index for index, part in enumerate(parts) if MAGIC.intersection(part)), len(parts)
    )
    count = min(plain, len(parts) - 1)
    folder, rest = "/".join(parts[:count]), "/".join(parts[count:])
    if count and not folder:
        folder = "/"
    return folder, f"/{rest}" if count else rest


def _checked(pattern: str) -> str:
    if not pattern.strip("/ "):
        raise _invalid(pattern, "it is empty")
    if "\0" in pattern:
        raise _invalid(pattern, "it holds a NUL byte")
    if len(pattern) > LENGTH_LIMIT:
        raise _invalid(pattern, f"it is longer than {LENGTH_LIMIT:,} characters")
    if pattern.startswith("!"):
        raise _invalid(pattern, "it takes no `!`; write what to find, not what to leave out")
    return pattern


def _invalid(pattern: str, words: str) -> ToolError:
    return ToolError(
        f"The glob pattern {pattern[:200]!r} cannot be used: {words}.",
        code="SEARCH_INVALID_PATTERN",
    )


def _expanded(pattern: str) -> Iterator[str]:
    """Expand braces as shells do; braces without a comma, or without their pair, are literal.

    Yields one pattern more than the limit at most.
    """
    todo = [pattern]
    for _ in range(ALTERNATIVES_LIMIT * 2 + 1):
        if not todo:
            return
        text = todo.pop()
        group = _first_group(text)
        if group is None:
            yield text
            continue
        start, end, parts = group
        todo.extend(f"{text[:start]}{part}{text[end:]}" for part in reversed(parts))
    yield from todo


def _first_group(text: str) -> tuple[int, int, list[str]] | None:
    """Return start, end and parts of the first braces that hold a comma at their own level."""
    opened: list[list[int]] = []
    index = 0
    while index < len(text):
        character = text[index]
        if character == "\\":
            index += 1
        elif character == "{":
            opened.append([index])
        elif character == "," and opened:
            opened[-1].append(index)
        elif character == "}" and opened:
            marks = [*opened.pop(), index]
            if len(marks) > 2:
                parts = [text[a + 1 : b] for a, b in pairwise(marks)]
                return marks[0], index + 1, parts
        index += 1
    return None


def _regex(pattern: str) -> str:
    """Translate a pattern without braces. After each `**` the first fit is final, as after `*`."""
    if pattern.startswith("./"):
        pattern = pattern[2:]
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    blocks: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            blocks.append([])
        elif part:
            blocks[-1].append(_part_regex(part))
    first, *others = ["/".join(block) for block in blocks]
    if not others:
        return first
    middle = "".join(f"(?>(?:[^/]+/)*?{block}/)" for block in others[:-1] if block)
    last = f"(?:[^/]+/)*{others[-1]}" if others[-1] else ".+"
    return f"{first}/{middle}{last}" if first else middle + last


def _part_regex(part: str) -> str:
    """Translate one part. After each `*` the shortest fit is final, so matching stays linear."""
    pieces = [""]
    index = 0
    while index < len(part):
        character = part[index]
        index += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[" and (end := _class_end(part, index)):
            pieces[-1] += _class_regex(part[index:end])
            index = end + 1
        else:
            if character == "\\" and index < len(part):
                character = part[index]
                index += 1
            pieces[-1] += re.escape(character)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _class_end(part: str, start: int) -> int:
    """Return where the `]` of a character class is; 0 where there is none: `[` is then literal."""
    first = start + (part[start : start + 1] in ("!", "^"))
    return max(0, part.find("]", first + 1))


def _class_regex(text: str) -> str:
    negated = text[:1] in ("!", "^")
    body = text[negated:].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
    body = body.replace("]", r"\]").replace("&", r"\&").replace("~", r"\~").replace("|", r"\|")
    return f"[^/{body}]" if negated else f"(?!/)[{body}]"
