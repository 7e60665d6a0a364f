"""`read`: a window of a text file's lines, and the total, streamed in constant memory."""

from __future__ import annotations

import codecs
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dsh_core import ToolError
from dsh_files import atomic
from dsh_files.failure import explained, shown, stop_if
from dsh_files.observation import Observations, Seen, Version
from dsh_files.settings import Settings
from dsh_files.text import BOM, counted, refuse_unless_text
from dsh_files.window import SHOWN_NUL, CutLine, LineWindow
from dsh_files.workspace import Target, opened_file, opened_folder

PIECE_BYTES = 256 * 1024
VIRTUAL_LIMIT_BYTES = 16 * 1024 * 1024
"""How much is read of a file that says it is empty and is not, as in /proc: it may be endless."""


@dataclass(frozen=True, slots=True)
class Range:
    """Lines wanted: `limit` of them from number `offset`, which counts from 1."""

    offset: int = 1
    limit: int = 2_000


def read_file(
    target: Target,
    lines: Range,
    *,
    observations: Observations,
    settings: Settings,
    spill_dir: Callable[[], Path],
    cancelled: threading.Event,
) -> str:
    """Return the lines with a note that says what else there is; remember the file as seen."""
    window = _window(lines, settings)
    with explained(target.written):
        try:
            with (
                opened_folder(target.path.parent) as folder,
                opened_file(folder, target) as descriptor,
            ):
                seen = _scan(descriptor, target, window, observations, cancelled)
                _refuse_offset_beyond_end(target, lines, window)
                folded = _folded(descriptor, target, window.cut, seen, settings, spill_dir)
        except FileNotFoundError:
            observations.saw_nothing(target.path)
            raise
    observations.saw(target.path, seen)
    body = "".join(f"{line}\n" for line in window.lines)
    notes = "\n".join(_notes(window, folded, settings))
    content = (
        f"<content>\n{body}\n{notes}\n</content>" if body else f"<content>\n{notes}\n</content>"
    )
    return f"<path>{shown(target.path)}</path>\n<type>file</type>\n{content}"


def _window(lines: Range, settings: Settings) -> LineWindow:
    if lines.offset < 0 or lines.limit < 1:
        raise ToolError(
            "offset counts lines from 1, and limit is at least 1; "
            f"got offset {lines.offset}, limit {lines.limit}.",
            code="INVALID_ARGS",
        )
    return LineWindow(
        max(1, lines.offset),
        limit_lines=lines.limit,
        limit_bytes=settings.read_limit_bytes,
        limit_characters=settings.line_limit_characters,
    )


def _scan(
    descriptor: int,
    target: Target,
    window: LineWindow,
    observations: Observations,
    cancelled: threading.Event,
) -> Seen:
    """Feed the whole file to the window; return its version and digest.

    No more is read than the file had when it was opened: one that grows all the time has an end.
    """
    version = Version.of(os.fstat(descriptor))
    digest = hashlib.sha256()
    is_first = True
    for piece in _pieces(descriptor, version.size_bytes or VIRTUAL_LIMIT_BYTES):
        stop_if(cancelled)
        digest.update(piece)
        if is_first:
            _refuse_unless_text(piece, target, version, observations)
        window.feed(piece.removeprefix(BOM) if is_first else piece)
        is_first = False
    window.finish()
    return Seen(version, digest.digest())


def _refuse_unless_text(
    head: bytes, target: Target, version: Version, observations: Observations
) -> None:
    try:
        refuse_unless_text(head, target.written)
    except ToolError:
        # The agent learns what the file is, so it may replace it as a whole.
        observations.saw(target.path, Seen(version, None))
        raise


def _pieces(descriptor: int, limit_bytes: int) -> Iterator[bytes]:
    while limit_bytes > 0 and (piece := os.read(descriptor, min(PIECE_BYTES, limit_bytes))):
        limit_bytes -= len(piece)
        yield piece


def _refuse_offset_beyond_end(target: Target, lines: Range, window: LineWindow) -> None:
    if window.first > max(1, window.total):
        raise ToolError(
            f"offset {lines.offset} is beyond the end of {shown(target.written)}, "
            f"which has {counted(window.total)}.",
            code="FS_OFFSET_BEYOND_END",
        )


def _notes(window: LineWindow, folded: str, settings: Settings) -> Iterator[str]:
    if window.cut:
        yield (
            f"(Lines longer than {settings.line_limit_characters:,} characters are cut. {folded})"
        )
    if window.has_other_bytes:
        yield "(Not all of it is UTF-8: other bytes are shown as � and cannot be matched by edit.)"
    if window.has_nul:
        yield f"(NUL bytes are shown as {SHOWN_NUL}.)"
    last = window.first + len(window.lines) - 1
    if window.total == 0:
        yield "(The file is empty.)"
    elif last >= window.total:
        ending = "" if window.ends_with_newline else "; the last one has no newline"
        yield f"(End of file: {counted(window.total)} in total{ending}.)"
    else:
        why = f" (capped at {settings.read_limit_bytes:,} bytes)" if window.is_full else ""
        yield (
            f"(Lines {window.first}-{last} of {window.total:,} shown{why}. "
            f"Use offset={last + 1} to read on.)"
        )


def _folded(
    descriptor: int,
    target: Target,
    cut: list[CutLine],
    seen: Seen,
    settings: Settings,
    spill_dir: Callable[[], Path],
) -> str:
    """Write cut lines, folded, where they can be read; say where, or why not."""
    if not cut:
        return ""
    size_bytes = sum(line.size_bytes for line in cut)
    if size_bytes > settings.fold_limit_bytes:
        return f"They have {size_bytes:,} bytes; use grep to find a place in them."
    width = settings.line_limit_characters
    mark = len(BOM) if os.pread(descriptor, len(BOM), 0) == BOM else 0
    digest = (seen.digest or b"").hex()[:16]
    name = f"cut-lines-{digest}-{cut[0].number}-{cut[-1].number}.txt"
    try:
        path = Path(os.path.realpath(spill_dir())) / name
        with opened_folder(path.parent) as folder, suppress(FileExistsError):
            pieces = (piece for line in cut for piece in _fold(descriptor, line, mark, width))
            atomic.create(folder, name, pieces, mode=0o600)
    except OSError as error:
        return f"The rest could not be put into a file: {error.strerror}."
    return f"They stand in full, folded at {width:,} characters, in {shown(path)}"


def _fold(descriptor: int, line: CutLine, mark: int, width: int) -> Iterator[bytes]:
    """Yield a line as lines of `width` characters, under a heading."""
    yield f"[line {line.number}, {line.size_bytes:,} bytes]\n".encode()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    position, end = line.start + mark, line.start + mark + line.size_bytes
    text = ""
    while position < end:
        piece = os.pread(descriptor, min(PIECE_BYTES, end - position), position)
        if not piece:
            break
        position += len(piece)
        text += decoder.decode(piece, position >= end).replace("\0", SHOWN_NUL)
        whole = (len(text) - 1) // width * width if text else 0
        for start in range(0, whole, width):
            yield f"{text[start : start + width]}\n".encode()
        text = text[whole:]
    yield f"{text}\n".encode()
