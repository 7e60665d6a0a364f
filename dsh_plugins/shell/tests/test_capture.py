"""A stream of any length becomes a bounded text that shows its start and its end."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from dsh_shell.capture import Capture, HeadAndTail
from dsh_shell.spill import Spill


def spill_into(folder: Path, *, threshold: int = 100, limit: int = 10_000) -> Spill:
    return Spill(lambda: folder, "test-", threshold_bytes=threshold, limit_bytes=limit)


def capture_into(folder: Path, limit: int = 100, spill_limit: int = 10_000) -> Capture:
    return Capture(limit, spill_into(folder, threshold=limit, limit=spill_limit))


def test_a_short_text_is_kept_whole() -> None:
    kept = HeadAndTail(10)
    kept.write("01234")
    kept.write("56789")
    assert kept.take() == ("0123456789", "", 0)


def test_of_a_long_text_a_quarter_is_head_and_the_rest_tail() -> None:
    kept = HeadAndTail(8)
    for digit in "0123456789" * 10:
        kept.write(digit)
    assert kept.take() == ("01", "456789", 92)


def test_a_cut_is_moved_to_the_end_of_a_line() -> None:
    kept = HeadAndTail(40)
    kept.write("".join(f"line {number}\n" for number in range(20)))
    head, tail, missing = kept.take()
    assert head == "line 0\n"
    assert tail == "line 17\nline 18\nline 19\n"
    assert missing == sum(len(f"line {number}\n") for number in range(1, 17))


def test_a_cut_never_splits_a_character() -> None:
    kept = HeadAndTail(10)
    kept.write("漢" * 20)
    head, tail, _ = kept.take()
    assert set(head + tail) == {"漢"}


def test_after_a_take_it_starts_again() -> None:
    kept = HeadAndTail(8)
    kept.write("x" * 100)
    kept.take()
    kept.write("new")
    assert kept.take() == ("new", "", 0)


def test_bytes_that_are_not_utf_8_are_replaced_wherever_they_are_cut(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    for byte in b"caf\xe9 \xf0 \xff\x00\xd6\xd0 \xe2\x9c\x93 \xed\xa0\x80 end":
        capture.feed(bytes([byte]))
    capture.finish()
    text = capture.take().text
    assert text == "caf\ufffd \ufffd \ufffd\\x00\ufffd\ufffd ✓ \ufffd\ufffd\ufffd end"
    text.encode()


def test_half_a_character_at_the_end_is_replaced(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    capture.feed("ok ✓".encode()[:-1])
    capture.finish()
    assert capture.take().text == "ok \ufffd"


def test_a_long_stream_says_what_is_missing_and_where_it_is(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    data = b"".join(b"line %d\n" % number for number in range(100))
    capture.feed(data)
    capture.finish()
    excerpt = capture.take()
    capture.close()
    head, cut, tail = re.split(r"(\n\[\.\.\. .* \.\.\.\]\n)", excerpt.text)
    assert f"{excerpt.left_out_bytes} bytes left out" in cut
    assert len(head.encode()) + 1 + len(tail.encode()) + excerpt.left_out_bytes == len(data)
    assert tail.endswith("line 99\n")
    (path,) = tmp_path.iterdir()
    assert str(path) in cut
    assert path.read_bytes() == data


def test_progress_is_folded_before_the_size_is_cut(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    for percent in range(1000):
        capture.feed(b"\r\x1b[32mprogress %d\x1b[0m" % percent)
    capture.feed(b"\ndone\n")
    capture.finish()
    assert capture.take().text == "progress 999\ndone\n"
    capture.close()
    assert list(tmp_path.iterdir()) == []  # nothing is missing, so nothing is saved


def test_what_grows_by_cleaning_is_saved_too(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    capture.feed(b"\0" * 60)
    capture.finish()
    assert capture.take().left_out_bytes > 0
    capture.close()
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b"\0" * 60


def test_each_take_returns_what_is_new(tmp_path: Path) -> None:
    capture = capture_into(tmp_path)
    capture.feed(b"one\ntw")
    assert capture.take().text == "one\ntw"
    capture.feed(b"o\n")
    assert capture.take().text == "o\n"
    assert capture.take().text == ""


def test_the_file_is_private_and_new(tmp_path: Path) -> None:
    spill = spill_into(tmp_path)
    spill.write(b"x" * 101)
    spill.close(keep=True)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert spill.path == str(path)


def test_few_bytes_make_no_file(tmp_path: Path) -> None:
    spill = spill_into(tmp_path)
    spill.write(b"x" * 100)
    assert spill.path is None
    spill.close(keep=True)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_capped_and_says_so(tmp_path: Path) -> None:
    capture = capture_into(tmp_path, spill_limit=500)
    for _ in range(10):
        capture.feed(b"x" * 99 + b"\n")
    capture.finish()
    text = capture.take().text
    capture.close()
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size == 500
    assert f"the start of the output is in {path}, the rest was too much to save" in text


def test_a_full_disk_costs_the_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    capture = capture_into(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        capture.feed(b"start\n" + b"x" * 1000)
    capture.feed(b"\nend\n")
    capture.finish()
    text = capture.take().text
    capture.close()
    assert text.startswith("start\n")
    assert text.endswith("end\n")
    assert "No space left on device" in text


def test_a_folder_that_cannot_be_made_costs_the_file_and_nothing_else() -> None:
    def folder() -> Path:
        raise PermissionError(13, "Permission denied")

    capture = Capture(100, Spill(folder, "x-", threshold_bytes=100, limit_bytes=1000))
    capture.feed(b"x" * 1000)
    capture.finish()
    assert "could not be saved: Permission denied" in capture.take().text
    capture.close()
