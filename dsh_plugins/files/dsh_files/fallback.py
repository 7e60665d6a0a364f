"""The search program for machines without ripgrep; speaks the part of its output that we read.

Run as a program of its own, with one argument: a task in JSON. It knows nothing of the package,
so that it starts quickly. It respects .gitignore, .ignore and .rgignore in the folder that is
searched, below it, and above it up to the repository's root; not the user's global git settings.
Lines are searched in parts of 16 MiB.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from fnmatch import translate
from typing import Any, BinaryIO

import pathspec

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
LINE_LIMIT = 16 * 1024 * 1024
FAILED_EXIT_CODE = 2

Rules = list[tuple[str, pathspec.GitIgnoreSpec]]
"""Rules from the outermost folder to the innermost; each with the folder's absolute path."""


def main(argument: str) -> int:
    """Do a task; return ripgrep's exit code: 0 found, 1 nothing found, 2 failed."""
    task = json.loads(argument)
    if task["task"] == "list":
        unread: list[str] = []
        for path in walk(".", task["left_out"], None, unread):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        return FAILED_EXIT_CODE if unread else 0
    try:
        search = compiled(task["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"regex parse error (Python's syntax, without ripgrep): {error}\n")
        return FAILED_EXIT_CODE
    if task["stdin"]:
        code = int(not search_file(sys.stdin.buffer, "<stdin>", search))
    else:
        code = search_folder(task, search)
    emit("summary", {})
    return code


def compiled(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the search function of a pattern that is about one line."""
    if "\n" in pattern:
        raise re.error("a newline is never found, as lines are searched one by one")
    return re.compile(pattern).search


def search_folder(task: dict[str, Any], search: Callable[[str], re.Match[str] | None]) -> int:
    """Search the files of the working directory that are wanted."""
    include = task["include"]
    is_wanted = re.compile(include).fullmatch if include else lambda _: True
    found = False
    unread: list[str] = []
    for path in walk(".", task["left_out"], outer_rules(), unread):
        if not is_wanted(path[2:]):
            continue
        try:
            with open_regular(path) as file:
                found |= search_file(file, path, search)
        except OSError:
            unread.append(path)
    return FAILED_EXIT_CODE if unread else int(not found)


def search_file(file: BinaryIO, path: str, search: Callable[[str], re.Match[str] | None]) -> bool:
    """Report the matching lines of a file. `binary_offset` is set for one that holds a NUL."""
    name = in_json(os.fsencode(path))
    found = False
    binary_offset = None
    for number, line in lines_of(file):
        if b"\0" in line:
            binary_offset = 0
            break
        text = line.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        match = search(text)
        if match:
            if not found:
                emit("begin", {"path": name})
            found = True
            start, end = (len(text[:at].encode("utf-8")) for at in match.span())
            data = {"path": name, "lines": in_json(line), "line_number": number}
            emit("match", {**data, "submatches": [{"start": start, "end": end}]})
    if found:
        emit("end", {"path": name, "binary_offset": binary_offset})
        sys.stdout.flush()  # the next file may be the one at which we are stopped
    return found


def lines_of(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines as UTF-8; a file with the mark of UTF-16 is decoded first."""
    head = file.peek(3)[:3] if isinstance(file, io.BufferedReader) else b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        decoded = io.TextIOWrapper(file, "utf-16", errors="replace", newline="\n")
        yield from ((number, line.encode()) for number, line in enumerate(decoded, 1))
        return
    if head == b"\xef\xbb\xbf":
        file.read(3)
    number = 1
    while line := file.readline(LINE_LIMIT):
        yield number, line
        number += line.endswith(b"\n")


def open_regular(path: str) -> BinaryIO:
    """Open a regular file without waiting and without following a link. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return os.fdopen(descriptor, "rb")


def walk(folder: str, left_out: list[str], rules: Rules | None, unread: list[str]) -> Iterator[str]:
    """Yield regular files below a folder that are not ignored; `rules` None = ignore nothing.

    Folders that cannot be read are added to `unread`.
    """
    is_left_out = re.compile("|".join(translate(name) for name in left_out)).match
    todo = [(folder, rules)]
    while todo:
        folder, outer = todo.pop()
        inner = None if outer is None else inner_rules(os.path.abspath(folder), outer)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            unread.append(folder)
            continue
        for entry in entries:
            if is_left_out(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if inner and is_ignored(os.path.abspath(entry.path), is_folder, inner):
                continue
            if is_folder:
                todo.append((entry.path, inner))
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def outer_rules() -> Rules:
    """Return the rules of the folders above the working directory, up to the repository's root."""
    rules: Rules = []
    folder = os.getcwd()
    while not os.path.exists(os.path.join(folder, ".git")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        rules = [*rules_in(folder), *rules]
    return rules


def inner_rules(folder: str, outer: Rules) -> Rules:
    """Return the rules that hold in a folder; a repository inside another has only its own."""
    is_repository = os.path.lexists(os.path.join(folder, ".git"))
    return [*(() if is_repository else outer), *rules_in(folder)]


def rules_in(folder: str) -> Rules:
    """Return the rules that files in a folder state."""
    lines: list[str] = []
    for name in IGNORE_FILES:
        try:
            with open_regular(os.path.join(folder, name)) as file:
                lines += file.read().decode("utf-8", "surrogateescape").splitlines()
        except OSError:
            continue
    return [(folder, pathspec.GitIgnoreSpec.from_lines(lines))] if lines else []


def is_ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    """Whether the innermost rule that speaks of a path says to ignore it."""
    for folder, spec in reversed(rules):
        relative = path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        answer = spec.check_file(relative).include
        if answer is not None:
            return answer
    return False


def in_json(data: bytes) -> dict[str, str]:
    """Return bytes as ripgrep writes them: as text, or in base64 where they are not UTF-8."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode("ascii")}


def emit(kind: str, data: dict[str, Any]) -> None:
    """Write one JSON line."""
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
