"""`write`: make a file, or replace the whole content of one the agent has seen."""

from __future__ import annotations

import hashlib
import os
import threading

from dsh_core import ToolError, ToolOutput
from dsh_files.change import create_unseen, link_note, replace_seen, stale
from dsh_files.diff import diff_of
from dsh_files.failure import explained, refuse_unless_regular, shown
from dsh_files.observation import Observations, Seen, Version, digest_of
from dsh_files.settings import Settings
from dsh_files.text import BOM, counted, encoded, is_utf8, line_ending, with_line_ending
from dsh_files.workspace import Target, opened_file, opened_folder, status_in

HEAD_BYTES = 64 * 1024
"""How much of an old file too large to be read whole tells its byte order mark and endings."""


def write_file(
    target: Target,
    content: str,
    *,
    observations: Observations,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    """Create or replace a file. The caller holds the path's lock.

    A file the agent has not seen, or that changed since, is never touched.
    """
    data = encoded(content, "content")
    if target.written.endswith(("/", "/.")):
        raise ToolError(f"{shown(target.written)} names a folder.", code="FS_NOT_REGULAR_FILE")
    seen = observations.get(target.path)
    with explained(target.written):
        try:
            with opened_folder(target.path.parent, create=seen is None) as folder:
                status = status_in(folder, target.name)
                if status is not None:
                    refuse_unless_regular(status, target.written)
                    _refuse_unseen(target, observations)
                    return _update(folder, target, data, observations, settings, cancelled)
                if seen is None:
                    create_unseen(folder, target, data, observations, cancelled)
                    return _created(target, data, settings)
        except FileNotFoundError:
            if seen is None:
                raise
    raise stale(target, "was deleted")


def _refuse_unseen(target: Target, observations: Observations) -> None:
    if target.path not in observations:
        raise ToolError(
            f"{shown(target.written)} exists and has not been read yet. Read it, then write.",
            code="FS_NOT_OBSERVED",
        )
    if observations.get(target.path) is None:
        raise stale(target, "was created by somebody else")


def _created(target: Target, data: bytes, settings: Settings) -> ToolOutput:
    diff = diff_of(b"", data, settings)
    text = f"Created {shown(target.path)}: {_size(data)}."
    return ToolOutput.of(text, meta=diff.meta(target.path, "created"))


def _update(
    folder: int,
    target: Target,
    data: bytes,
    observations: Observations,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    seen = observations.get(target.path)
    with opened_file(folder, target) as descriptor:
        status = os.fstat(descriptor)
        is_small = status.st_size <= settings.diff_limit_bytes
        old = _read(descriptor, status.st_size) if is_small else None
        head = _read(descriptor, HEAD_BYTES) if old is None else old
        if seen is None or not _is_as_seen(descriptor, status, seen, old):
            raise stale(target)
    is_text = seen.digest is not None
    if old is None:
        head = head[: head.rfind(b"\n") + 1]  # a cut character would look like another encoding
    if is_text:
        _refuse_lost_bytes(target, data, head)
    kept, notes = _in_the_manner_of(head, data) if is_text else (data, "")
    replace_seen(folder, target, kept, status, observations, cancelled)
    diff = diff_of(old if is_text else None, kept, settings)
    counts = f"+{diff.added} -{diff.removed} lines, " if diff.added is not None else ""
    text = f"Updated {shown(target.path)}: {counts}now {_size(kept)}.{notes}{link_note(status)}"
    return ToolOutput.of(text, meta=diff.meta(target.path, "updated"))


def _read(descriptor: int, size_bytes: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size_bytes)


def _is_as_seen(descriptor: int, status: os.stat_result, seen: Seen, old: bytes | None) -> bool:
    """Whether the bytes are those the agent saw; `old` are all of them, if they were read."""
    if seen.digest is None:
        return seen.version == Version.of(status)
    if old is not None:
        return seen.digest == digest_of(old)
    if seen.version == Version.of(status):
        return True
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return seen.digest == hashlib.file_digest(file, "sha256").digest()


def _refuse_lost_bytes(target: Target, data: bytes, old: bytes) -> None:
    if "\ufffd".encode() in data and not is_utf8(old):
        raise ToolError(
            f"{shown(target.written)} is not UTF-8, and content holds � where it has other "
            "bytes: they would be lost. Change it with edit, or convert it first, as with iconv.",
            code="FS_NOT_UTF8",
        )


def _in_the_manner_of(old: bytes, data: bytes) -> tuple[bytes, str]:
    """Keep the byte order mark and CRLF of the old content, which `read` does not show."""
    notes = ""
    if not is_utf8(old):
        notes += " It was not UTF-8 before and is now."
    if line_ending(old) == b"\r\n" and line_ending(data) == b"\n":
        data = with_line_ending(data, b"\r\n")
        notes += " Its CRLF line endings were kept."
    if old.startswith(BOM) and not data.startswith(BOM):
        data = BOM + data
        notes += " Its byte order mark was kept."
    return data, notes


def _size(data: bytes) -> str:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return f"{counted(lines)}, {len(data):,} bytes"
