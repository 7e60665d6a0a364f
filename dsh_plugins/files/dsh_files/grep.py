"""`grep`: the lines that match a regular expression, by file, in the order of their paths."""

from __future__ import annotations

import base64
import bisect
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dsh_core import ToolError, ToolOutput
from dsh_files.child import Child
from dsh_files.engine import choose_engine, end_notes
from dsh_files.failure import explained
from dsh_files.globs import Glob
from dsh_files.settings import Settings
from dsh_files.text import encoded
from dsh_files.window import SHOWN_NUL
from dsh_files.workspace import Target, Workspace, is_folder, opened_file, opened_folder

PATTERN_LIMIT_CHARACTERS = 30_000
"""Linux takes arguments of 128 KiB; execve(2). A character is four bytes at most."""


@dataclass(order=True, slots=True)
class FileMatches:
    """Matching lines of one file, the first ones of them, and how many there are."""

    path: str
    lines: list[str] = field(default_factory=list, compare=False)
    total: int = field(default=0, compare=False)


class Matches:
    """The matches of a search: all are counted, the first ones in the order of paths are kept."""

    def __init__(self, settings: Settings) -> None:
        self.total = 0
        self.files: list[FileMatches] = []
        self.file_count = 0
        self._settings = settings
        self._open: FileMatches | None = None
        self._kept = 0

    def begin(self, path: str) -> None:
        """Begin a file; one that was not ended does not count."""
        self._open = FileMatches(path)

    def add(self, number: int, line: bytes, start: int) -> None:
        """Add a matching line of the file that was begun; `start` is where the match begins."""
        if self._open is None:
            return
        self._open.total += 1
        if len(self._open.lines) < self._settings.grep_limit_matches:
            text = excerpt(line, start, self._settings.grep_line_limit_bytes)
            self._open.lines.append(f"  Line {number}: {text}")

    def end(self, *, is_binary: bool) -> None:
        """End the file. What matched in a binary one does not count."""
        done, self._open = self._open, None
        if done is None or is_binary or not done.total:
            return
        self.total += done.total
        self.file_count += 1
        bisect.insort(self.files, done)
        self._kept += len(done.lines)
        while self._kept - len(self.files[-1].lines) >= self._settings.grep_limit_matches:
            self._kept -= len(self.files.pop().lines)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to search.

    Args:
        folder: Descriptor of the folder to search, or of the one the file is in.
        root: Path of that folder.
        name: The file, where a single one is searched.
        stdin: Descriptor of that file.
    """

    folder: int
    root: Path
    name: str | None = None
    stdin: int | None = None


def find_lines(
    base: Target,
    pattern: str,
    include: str | None,
    *,
    workspace: Workspace,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    """Search a file, or all files below a folder that ignore files do not leave out.

    Binary files, links, and what is no regular file are skipped.
    """
    _check_pattern(pattern)
    glob = _checked_include(include) if include else None
    engine = choose_engine(settings.engine)
    matches = Matches(settings)
    with (
        explained(base.written),
        _opened_place(base) as place,
        Child(
            engine.search(pattern, glob, place.root, stdin=place.stdin is not None),
            folder=place.folder,
            path=str(place.root),
            stdin=place.stdin,
            timeout_seconds=settings.search_timeout_seconds,
            limit_bytes=settings.search_output_limit_bytes,
            cancelled=cancelled,
        ) as child,
    ):
        is_complete = _collect(child, matches, glob, place, workspace)
        with _located(pattern):
            notes = end_notes(
                child, settings, has_results=matches.total > 0, is_complete=is_complete
            )
    if matches.total > settings.grep_limit_matches:
        notes.insert(0, _cut_note(matches, settings))
    lines = _shown_lines(matches, place.root, workspace, settings.grep_limit_matches)
    meta = {"matches": matches.total, "files": matches.file_count, "stopped": child.stopped}
    return ToolOutput.of("\n".join([*lines, *([""] if notes else []), *notes]), meta=meta)


def excerpt(line: bytes, start: int, limit_bytes: int) -> str:
    """Return a line as text without its ending; a long one is cut around its first match."""
    line = line.rstrip(b"\r\n")
    if len(line) <= limit_bytes:
        return _as_text(line)
    first = max(0, min(start - limit_bytes // 4, len(line) - limit_bytes))
    last = min(len(line), first + limit_bytes)
    while first < last and line[first] & 0xC0 == 0x80:  # not inside a character of UTF-8
        first += 1
    while last < len(line) and last > first and line[last] & 0xC0 == 0x80:
        last -= 1
    before, after = "…" if first else "", "…" if last < len(line) else ""
    return f"{before}{_as_text(line[first:last])}{after} [cut: the line has {len(line):,} bytes]"


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", SHOWN_NUL)


def _check_pattern(pattern: str) -> None:
    """Refuse what no engine can take; what is wrong with the syntax the engine says."""
    problem = None
    if not pattern:
        problem = "it is empty"
    elif "\0" in pattern:
        problem = f"there is a NUL at position {pattern.index(chr(0))}"
    elif len(pattern) > PATTERN_LIMIT_CHARACTERS:
        problem = f"it is longer than {PATTERN_LIMIT_CHARACTERS:,} characters"
    if problem:
        raise ToolError(f"Invalid pattern: {problem}.", code="SEARCH_INVALID_PATTERN")
    encoded(pattern, "pattern")


@contextmanager
def _located(pattern: str) -> Iterator[None]:
    """Add to a failure where a parenthesis lacks its pair.

    ripgrep does not know: it puts a group around the pattern, and blames that.
    """
    try:
        yield
    except ToolError as error:
        if error.code != "SEARCH_INVALID_PATTERN" or " group" not in str(error):
            raise
        position = unbalanced(pattern)
        where = "" if position is None else f" (the parenthesis at position {position})"
        raise ToolError(f"{error}{where}", code=error.code) from error


def unbalanced(pattern: str) -> int | None:
    """Return where a parenthesis without its pair is, as well as can be told without parsing."""
    opened: list[int] = []
    is_in_class = False
    for token in re.finditer(r"\\.|\[\^?\]?|\]|\(|\)", pattern, re.DOTALL):
        text = token.group()
        if text == "]" or (text.startswith("[") and not is_in_class):
            is_in_class = text != "]"
        elif text == "(" and not is_in_class:
            opened.append(token.start())
        elif text == ")" and not is_in_class:
            if not opened:
                return token.start()
            opened.pop()
    return opened[-1] if opened else None


def _checked_include(include: str) -> Glob:
    if "," in include and "{" not in include:
        raise ToolError(
            f"include is one glob pattern, not a list: {include[:200]!r}. "
            "Write alternatives as {a,b}.",
            code="SEARCH_INVALID_PATTERN",
        )
    return Glob(include)


@contextmanager
def _opened_place(base: Target) -> Iterator[Place]:
    with opened_folder(base.path.parent) as parent:
        if is_folder(os.stat(base.name, dir_fd=parent, follow_symlinks=False)):
            with opened_folder(base.path) as folder:
                yield Place(folder, base.path)
        else:
            with opened_file(parent, base) as descriptor:
                yield Place(parent, base.path.parent, base.name, descriptor)


def _collect(
    child: Child, matches: Matches, glob: Glob | None, place: Place, workspace: Workspace
) -> bool:
    """Take the search's JSON lines; return whether it came to its end."""
    is_complete = False
    for record in child.records(b"\n"):
        message = json.loads(record)
        data = message["data"]
        match message["type"]:
            case "begin":
                path = place.name or os.fsdecode(_bytes_of(data["path"])).removeprefix("./")
                is_wanted = glob is None or glob.matches(path)
                if is_wanted and not workspace.hides(place.root / path):
                    matches.begin(path)
            case "match":
                starts = (part["start"] for part in data["submatches"])
                matches.add(data["line_number"], _bytes_of(data["lines"]), min(starts, default=0))
            case "end":
                matches.end(is_binary=data["binary_offset"] is not None)
            case "summary":
                is_complete = True
    if child.stopped:
        matches.end(is_binary=False)  # what was found so far in the file that was being read
    return is_complete


def _bytes_of(value: Mapping[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode("utf-8")
    return base64.b64decode(value["bytes"])


def _shown_lines(matches: Matches, root: Path, workspace: Workspace, limit: int) -> Iterator[str]:
    if not matches.total:
        yield "No matches found."
        return
    matched = f"{matches.total:,} match{'' if matches.total == 1 else 'es'}"
    yield f"Found {matched} in {matches.file_count:,} file{'' if matches.file_count == 1 else 's'}."
    for file in matches.files:
        yield f"\n{workspace.name_of(root / file.path)}:"
        yield from file.lines[:limit]
        limit -= len(file.lines)


def _cut_note(matches: Matches, settings: Settings) -> str:
    return (
        f"(The first {settings.grep_limit_matches} of {matches.total:,} matches, in the order of "
        "their paths. Narrow the pattern, the path or include to see others.)"
    )
