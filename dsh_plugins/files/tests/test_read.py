import os
import re
import socket
import time
from contextlib import suppress

import pytest

from dsh_core.errors import ToolError
from dsh_files import read
from dsh_files.observation import observations_of
from dsh_files.window import LineWindow

BOM = b"\xef\xbb\xbf"


def test_the_answer_is_an_envelope_with_numbered_lines_and_the_total(hand, workspace):
    (workspace / "a.txt").write_text("one\ntwo\n")
    assert hand.read("a.txt") == (
        f"<path>{workspace}/a.txt</path>\n<type>file</type>\n<content>\n"
        "1: one\n2: two\n\n(End of file: 2 lines in total.)\n</content>"
    )


def test_a_window_says_how_to_read_on(hand, workspace):
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    text = hand.read("a.txt", offset=3, limit=2)
    assert "\n3: line 3\n4: line 4\n" in text
    assert "line 5" not in text
    assert "(Lines 3-4 of 10 shown. Use offset=5 to read on.)" in text


def test_the_byte_limit_says_how_to_read_on(new_hand, workspace):
    (workspace / "a.txt").write_text("x" * 50 + "\n" + "y" * 50 + "\n")
    text = new_hand(read_limit_bytes=60).read("a.txt")
    assert "(Lines 1-1 of 2 shown (capped at 60 bytes). Use offset=2 to read on.)" in text


def test_following_the_notes_shows_every_line(new_hand, workspace):
    lines = [f"line {n} " + "x" * (n % 90) for n in range(1, 400)]
    (workspace / "a.txt").write_text("\n".join(lines))
    hand, offset, shown = new_hand(read_limit_bytes=3_000), 1, []
    while offset:
        text = hand.read("a.txt", offset=offset, limit=70)
        shown += re.findall(r"^\d+: (.*)$", text, re.MULTILINE)
        further = re.search(r"Use offset=(\d+)", text)
        offset = int(further[1]) if further else 0
    assert shown == lines


def test_an_empty_file_says_so(hand, workspace):
    (workspace / "empty").touch()
    assert "<content>\n(The file is empty.)\n</content>" in hand.read("empty")


def test_an_offset_beyond_the_end_names_the_total(hand, workspace):
    (workspace / "a.txt").write_text("1\n2\n3\n")
    error = hand.failure("read", file_path="a.txt", offset=99_999)
    assert error.code == "FS_OFFSET_BEYOND_END"
    assert "offset 99999 is beyond the end of a.txt, which has 3 lines" in str(error)
    assert "3: 3" in hand.read("a.txt", offset=3)
    assert hand.failure("read", file_path="a.txt", offset=4).code == "FS_OFFSET_BEYOND_END"


def test_offset_zero_is_the_start_and_nonsense_is_refused(hand, workspace):
    (workspace / "a.txt").write_text("1\n")
    assert "1: 1" in hand.read("a.txt", offset=0)
    assert hand.failure("read", file_path="a.txt", offset=-1).code == "INVALID_ARGS"
    assert hand.failure("read", file_path="a.txt", limit=0).code == "INVALID_ARGS"


def test_a_last_line_without_newline_is_noted(hand, workspace):
    (workspace / "a.txt").write_text("1\n2")
    assert "(End of file: 2 lines in total; the last one has no newline.)" in hand.read("a.txt")


def test_crlf_and_the_byte_order_mark_are_not_shown(hand, workspace):
    (workspace / "a.txt").write_bytes(BOM + b"one\r\ntwo\r\n")
    text = hand.read("a.txt")
    assert "\n1: one\n2: two\n" in text
    assert "\r" not in text
    assert "\ufeff" not in text


def test_bytes_that_are_not_utf8_are_shown_as_replacement_and_noted(hand, workspace):
    (workspace / "latin1.txt").write_bytes(b"total = 10\n# na\xefve\n")
    text = hand.read("latin1.txt")
    assert "2: # na\ufffdve" in text
    assert "Not all of it is UTF-8" in text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF\0\0", "NUL byte at position 4"),
        ("text".encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_text_is_refused_by_name(hand, workspace, data, words):
    (workspace / "f").write_bytes(data)
    error = hand.failure("read", file_path="f")
    assert error.code == "FS_NOT_TEXT"
    assert words in str(error)


def test_a_nul_far_into_the_file_is_shown_as_a_symbol(hand, workspace):
    (workspace / "log").write_bytes(b"fine\n" * 2_000 + b"\0\0\0\n")
    text = hand.read("log", offset=2_001)
    assert "2001: ␀␀␀" in text
    assert "\0" not in text


def test_a_line_of_2_mb_is_cut_and_can_be_read_to_its_end(hand, workspace):
    line = "".join(f"a={n};" for n in range(250_000))
    (workspace / "min.js").write_text(line)
    text = hand.read("min.js")
    assert len(text) < 4_000
    assert f"… [cut: the line has {len(line):,} bytes]" in text
    path = re.search(r"folded at 2,000 characters, in (\S+)\)", text)[1]
    offset, parts = 2, []
    while offset:
        text = hand.read(path, offset=offset)
        parts += re.findall(r"^\d+: (.*)$", text, re.MULTILINE)
        further = re.search(r"Use offset=(\d+)", text)
        offset = int(further[1]) if further else 0
    assert "".join(parts) == line


def test_cut_lines_are_kept_once_and_privately(hand, workspace, spill):
    (workspace / "a").write_text("é" * 5_000 + "\nshort\n" + "b" * 3_000 + "\n")
    first = hand.read("a")
    assert hand.read("a") == first
    (kept,) = spill.iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    text = kept.read_text()
    assert text.startswith("[line 1, 10,000 bytes]\n" + "é" * 2_000 + "\n")
    assert text.endswith("[line 3, 3,000 bytes]\n" + "b" * 2_000 + "\n" + "b" * 1_000 + "\n")


def test_a_cut_line_after_a_byte_order_mark_is_kept_from_its_first_character(
    hand, workspace, spill
):
    (workspace / "a").write_bytes(BOM + b"x" * 2_500)
    hand.read("a")
    assert next(spill.iterdir()).read_text().splitlines()[1:] == ["x" * 2_000, "x" * 500]


def test_cut_lines_beyond_the_limit_point_to_grep(new_hand, workspace, spill):
    (workspace / "a").write_text("x" * 5_000)
    assert "They have 5,000 bytes; use grep" in new_hand(fold_limit_bytes=4_000).read("a")
    assert not list(spill.iterdir())


def test_cut_lines_that_cannot_be_kept_say_why(hand, workspace, spill):
    (workspace / "a").write_text("x" * 5_000)
    spill.rmdir()
    assert "could not be put into a file: No such file or directory" in hand.read("a")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (os.mkfifo, "named pipe"),
        (os.mkdir, "a folder (glob lists it)"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "a socket"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_no_regular_file_is_refused_by_type_at_once(hand, workspace, make, words):
    make(workspace / "f")
    begin = time.monotonic()
    error = hand.failure("read", file_path="f")
    assert time.monotonic() - begin < 1
    assert error.code == "FS_NOT_REGULAR_FILE"
    assert words in str(error)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
def test_devices_and_the_root_are_refused_by_type(new_hand, path):
    hand = new_hand(allow=("/",))
    assert hand.failure("read", file_path=path).code == "FS_NOT_REGULAR_FILE"


def test_files_that_say_they_are_empty_are_read(new_hand):
    hand = new_hand(allow=("/",))
    assert "1: " in hand.read("/proc/self/status")


@pytest.mark.parametrize("path", ["kmsg", "kcore", "self/mem", "self/pagemap", "self/environ"])
def test_odd_files_of_the_kernel_never_hang(new_hand, path):
    hand = new_hand(allow=("/",))
    begin = time.monotonic()
    with suppress(ToolError):
        hand.read(f"/proc/{path}", limit=1)
    assert time.monotonic() - begin < 5


def test_a_file_that_grows_while_it_is_read_has_an_end(hand, workspace, monkeypatch):
    path = workspace / "log"
    path.write_text("line\n" * 100_000)

    class Growing(LineWindow):
        def feed(self, piece):
            super().feed(piece)
            if path.stat().st_size < 10_000_000:
                with path.open("ab") as file:
                    file.write(piece)

    monkeypatch.setattr(read, "LineWindow", Growing)
    assert "of 100,000 shown" in hand.read("log")
    error = hand.failure("edit", file_path="log", old_string="line", new_string="x")
    assert error.code == "FS_STALE_VERSION"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "FS_NOT_FOUND"),
        ("missing/deeper", "FS_NOT_FOUND"),
        ("file/below", "FS_NOT_DIRECTORY"),
        ("loop", "FS_NOT_REGULAR_FILE"),
        ("n" * 300, "FS_INVALID_PATH"),
        ("nul\0", "FS_INVALID_PATH"),
        ("/etc/passwd", "FS_OUTSIDE_WORKSPACE"),
    ],
)
def test_paths_that_cannot_be_read_say_why(hand, workspace, path, code):
    (workspace / "file").touch()
    (workspace / "loop").symlink_to("loop")
    assert hand.failure("read", file_path=path).code == code


def test_a_name_that_is_not_utf8_or_holds_a_newline_is_shown_in_one_line(hand, workspace):
    name = os.fsdecode(b"bad\xff\nname")
    (workspace / name).write_text("x")
    text = hand.read(name)
    assert "bad\\udcff\\nname</path>" in text
    text.encode()


def test_a_file_that_may_not_be_read_says_so(new_hand, open_folder, as_nobody):
    (open_folder / "f").write_text("x")
    (open_folder / "f").chmod(0o600)
    hand = new_hand(allow=(str(open_folder),))
    with as_nobody():
        assert hand.failure("read", file_path=f"{open_folder}/f").code == "FS_PERMISSION_DENIED"


def test_a_cancelled_read_stops(hand, workspace):
    (workspace / "a").write_text("x")
    hand.cancelled.set()
    assert hand.failure("read", file_path="a").code == "ABORTED"


def test_a_refused_window_does_not_count_as_seen(hand, workspace):
    (workspace / "a").write_text("1\n")
    hand.failure("read", file_path="a", offset=5)
    assert workspace / "a" not in observations_of(hand.agent)


def test_through_a_link_the_target_is_what_was_seen(hand, workspace):
    (workspace / "real").write_text("1\n")
    (workspace / "link").symlink_to("real")
    assert f"<path>{workspace}/real</path>" in hand.read("link")
    assert workspace / "real" in observations_of(hand.agent)


def test_the_spilled_output_of_other_tools_can_be_read(hand, spill):
    (spill / "bash-1.txt").write_text("tail\n")
    assert "1: tail" in hand.read(str(spill / "bash-1.txt"))
