"""`edit`: replace text in a file the agent has seen."""

from __future__ import annotations

import os
import threading

from dsh_core import ToolError, ToolOutput
from dsh_files.change import link_note, replace_seen, stale
from dsh_files.diff import diff_of
from dsh_files.failure import explained, shown
from dsh_files.observation import Observations, digest_of
from dsh_files.replacement import replace_text
from dsh_files.settings import Settings
from dsh_files.text import encoded, is_mostly_utf8, is_utf8, refuse_unless_text
from dsh_files.workspace import Target, opened_file, opened_folder


def edit_file(
    target: Target,
    old_string: str,
    new_string: str,
    *,
    replace_all: bool,
    observations: Observations,
    settings: Settings,
    cancelled: threading.Event,
) -> ToolOutput:
    """Replace text in a file. The caller holds the path's lock.

    What is wrong with the arguments is said first, then whether the file was read and is as it was
    read, then whether the text occurs.
    """
    old, new = _checked(old_string, new_string)
    with explained(target.written), opened_folder(target.path.parent) as folder:
        before, status = _read_seen(target, folder, observations, settings)
        _refuse_mixed_encodings(before, new, target)
        replaced = replace_text(before, old, new, replace_all=replace_all, written=target.written)
        after = replaced.data
        if after == before:
            raise _nothing_to_change("differ in line endings only, which stay as they are")
        replace_seen(folder, target, after, status, observations, cancelled)
    times = f"{replaced.count} replacement{'s' if replaced.count > 1 else ''}"
    text = f"Updated {shown(target.path)}: {times}, the first in line {replaced.first_line}."
    text += link_note(status)
    diff = diff_of(before, after, settings)
    return ToolOutput.of(text, meta=diff.meta(target.path, "updated"))


def _checked(old_string: str, new_string: str) -> tuple[bytes, bytes]:
    if not old_string:
        raise ToolError(
            "old_string is empty. Give the text to replace; write makes new files.",
            code="INVALID_ARGS",
        )
    if old_string == new_string:
        raise _nothing_to_change("are equal")
    return encoded(old_string, "old_string"), encoded(new_string, "new_string")


def _nothing_to_change(words: str) -> ToolError:
    return ToolError(
        f"old_string and new_string {words}: nothing to change.", code="FS_NOTHING_TO_CHANGE"
    )


def _read_seen(
    target: Target, folder: int, observations: Observations, settings: Settings
) -> tuple[bytes, os.stat_result]:
    """Return the file's bytes, which are those the agent has seen, and their status."""
    try:
        with opened_file(folder, target) as descriptor:
            _refuse_unseen(target, observations)
            status = os.fstat(descriptor)
            _refuse_large(target, status.st_size, settings)
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(settings.edit_limit_bytes)
    except FileNotFoundError:
        observations.saw_nothing(target.path)
        raise
    refuse_unless_text(data, target.written)
    seen = observations.get(target.path)
    if seen is None or seen.digest != digest_of(data):
        raise stale(target)
    return data, status


def _refuse_unseen(target: Target, observations: Observations) -> None:
    if target.path not in observations:
        raise ToolError(
            f"{shown(target.written)} has not been read yet. Read it, then edit.",
            code="FS_NOT_OBSERVED",
        )


def _refuse_large(target: Target, size_bytes: int, settings: Settings) -> None:
    if size_bytes > settings.edit_limit_bytes:
        raise ToolError(
            f"{shown(target.written)} is too large to edit: {size_bytes:,} bytes, "
            f"limit {settings.edit_limit_bytes:,}.",
            code="FS_TOO_LARGE",
        )


def _refuse_mixed_encodings(data: bytes, new: bytes, target: Target) -> None:
    """Refuse text that would make a Latin-1 file half UTF-8, or put � where other bytes were."""
    if new.isascii() or is_utf8(data):
        return
    if "\ufffd".encode() in new or not is_mostly_utf8(data):
        raise ToolError(
            f"{shown(target.written)} is not UTF-8 (perhaps Latin-1, GBK or Shift-JIS), so only "
            "ASCII text can be put into it; new_string holds other characters. "
            "Convert the file first, as with iconv.",
            code="FS_NOT_UTF8",
        )
