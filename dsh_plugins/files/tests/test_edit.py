import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BOM = b"\xef\xbb\xbf"


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_an_edit_says_what_it_did_and_shows_front_ends_the_difference(hand, workspace):
    path = put(workspace / "a.txt", b"one\ntwo\nthree\n")
    hand.read("a.txt")
    output = hand.edit("a.txt", "two", "2\n2b")
    assert path.read_bytes() == b"one\n2\n2b\nthree\n"
    assert output.text == f"Updated {path}: 1 replacement, the first in line 2."
    assert output.meta == {
        "path": str(path),
        "change": "updated",
        "diff": "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n",
        "diff_cut": False,
        "added_lines": 2,
        "removed_lines": 1,
    }


def test_case_067_a_crlf_file_is_matched_by_lf_and_stays_crlf(hand, workspace):
    path = put(workspace / "crlf.txt", b"alpha\r\nbeta\r\ngamma\r\ndelta\r\n")
    hand.read("crlf.txt")
    output = hand.edit("crlf.txt", "beta\ngamma", "BETA\nGAMMA")
    assert path.read_bytes() == b"alpha\r\nBETA\r\nGAMMA\r\ndelta\r\n"
    assert "-beta\r\n-gamma\r\n+BETA\r\n+GAMMA\r\n" in output.meta["diff"]


def test_case_069_the_byte_order_mark_stays_and_is_not_in_the_way(hand, workspace):
    path = put(workspace / "bom.txt", BOM + "start\n第二行\n".encode())
    hand.read("bom.txt")
    hand.edit("bom.txt", "start", "start here")
    assert path.read_bytes() == BOM + "start here\n第二行\n".encode()


def test_case_070_bytes_that_are_not_utf8_stay(hand, workspace):
    path = put(workspace / "latin1.txt", b"total = 10\n# na\xefve r\xe9sum\xe9\n")
    hand.read("latin1.txt")
    hand.edit("latin1.txt", "total = 10", "total = 11")
    assert path.read_bytes() == b"total = 11\n# na\xefve r\xe9sum\xe9\n"


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "shift-jis"])
@pytest.mark.parametrize("new", ["größer", "\ufffd"])
def test_text_that_would_mix_encodings_is_refused(hand, workspace, encoding, new):
    text = {"latin-1": "naïve", "gbk": "中文文本测试", "shift-jis": "日本語"}[encoding]
    path = put(workspace / "f", f"total = 10 {text}\n".encode(encoding))
    before = path.read_bytes()
    hand.read("f")
    error = hand.failure("edit", file_path="f", old_string="total = 10", new_string=new)
    assert error.code == "FS_NOT_UTF8"
    assert "Latin-1, GBK or Shift-JIS" in str(error)
    assert path.read_bytes() == before


def test_a_utf8_file_with_one_wrong_byte_takes_utf8(hand, workspace):
    path = put(workspace / "log", "schöne Grüße\n".encode() + b"\xff\n")
    hand.read("log")
    hand.edit("log", "schöne", "größte")
    assert path.read_bytes() == "größte Grüße\n".encode() + b"\xff\n"
    error = hand.failure("edit", file_path="log", old_string="Grüße", new_string="\ufffd")
    assert error.code == "FS_NOT_UTF8"


def test_case_072_ambiguous_and_degenerate_edits_leave_the_file_alone(hand, workspace):
    path = put(workspace / "dup.txt", b"x = 1\nx = 1\n")
    hand.read("dup.txt")
    for old, new, code, words in [
        ("x = 1", "x = 2", "FS_AMBIGUOUS_EDIT", "2 times"),
        ("", "y", "INVALID_ARGS", "empty"),
        ("x = 1", "x = 1", "FS_NOTHING_TO_CHANGE", "equal"),
        ("zzz", "y", "FS_EDIT_NOT_FOUND", "does not occur"),
    ]:
        error = hand.failure("edit", file_path="dup.txt", old_string=old, new_string=new)
        assert error.code == code
        assert words in str(error)
    assert path.read_bytes() == b"x = 1\nx = 1\n"
    assert (
        "2 replacements, the first in line 1"
        in hand.edit("dup.txt", "x = 1", "x = 2", replace_all=True).text
    )
    assert path.read_bytes() == b"x = 2\nx = 2\n"


def test_an_edit_of_line_endings_only_is_nothing_to_change(hand, workspace):
    put(workspace / "a", b"a\nb\n")
    hand.read("a")
    error = hand.failure("edit", file_path="a", old_string="a\nb", new_string="a\r\nb")
    assert error.code == "FS_NOTHING_TO_CHANGE"


def test_a_missing_final_newline_stays_missing(hand, workspace):
    path = put(workspace / "a", b"one\ntwo")
    hand.read("a")
    output = hand.edit("a", "one", "1")
    assert path.read_bytes() == b"1\ntwo"
    assert output.meta["diff"].endswith(" two\n\\ No newline at end of file\n")


def test_case_074_through_a_link_the_target_changes_and_the_link_stays(hand, workspace):
    (workspace / "real").mkdir()
    put(workspace / "real/target.txt", b"old\n")
    (workspace / "link.txt").symlink_to("real/target.txt")
    hand.read("link.txt")
    hand.edit("link.txt", "old", "new")
    assert os.readlink(workspace / "link.txt") == "real/target.txt"
    assert (workspace / "real/target.txt").read_bytes() == b"new\n"


def test_what_was_seen_through_a_link_may_be_edited_by_its_own_name(hand, workspace):
    path = put(workspace / "real", b"old\n")
    (workspace / "link").symlink_to("real")
    hand.read("link")
    hand.edit("real", "old", "new")
    assert path.read_bytes() == b"new\n"


def test_case_075_mode_bits_stay(hand, workspace):
    for name, mode in [("run.sh", 0o755), ("secret.txt", 0o600), ("odd", 0o640)]:
        put(workspace / name, b"old\n").chmod(mode)
        hand.read(name)
        hand.edit(name, "old", "new")
        assert (workspace / name).stat().st_mode & 0o7777 == mode


def test_a_file_must_have_been_read(hand, workspace):
    path = put(workspace / "a", b"old\n")
    error = hand.failure("edit", file_path="a", old_string="old", new_string="new")
    assert error.code == "FS_NOT_OBSERVED"
    assert "Read it" in str(error)
    assert path.read_bytes() == b"old\n"


def test_another_agents_reading_does_not_count(hand, new_hand, workspace):
    put(workspace / "a", b"old\n")
    new_hand().read("a")
    error = hand.failure("edit", file_path="a", old_string="old", new_string="new")
    assert error.code == "FS_NOT_OBSERVED"


def test_reading_a_window_counts_as_having_read(hand, workspace):
    put(workspace / "a", b"1\n2\n3\n")
    hand.read("a", offset=2, limit=1)
    hand.edit("a", "3", "three")


def test_case_078_a_change_from_outside_is_stale_before_the_text_is_looked_for(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    with path.open("a") as file:
        file.write("user-line\n")
    error = hand.failure("edit", file_path="a", old_string="no such text", new_string="new")
    assert error.code == "FS_STALE_VERSION"
    assert "Read it again" in str(error)
    hand.read("a")
    hand.edit("a", "user-line", "line")


def test_a_change_that_leaves_size_and_times_alone_is_stale(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    status = path.stat()
    path.write_bytes(b"two\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    error = hand.failure("edit", file_path="a", old_string="two", new_string="new")
    assert error.code == "FS_STALE_VERSION"


def test_a_touch_and_a_change_of_mode_are_not_stale(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    os.utime(path, ns=(1, 1))
    path.chmod(0o600)
    hand.edit("a", "one", "two")
    assert path.read_bytes() == b"two\n"


def test_a_file_replaced_by_an_equal_one_is_not_stale(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    os.replace(put(workspace / "b", b"one\n"), path)
    hand.edit("a", "one", "two")


def test_own_edits_one_after_another_are_never_stale(hand, workspace):
    path = put(workspace / "a", b"0\n")
    hand.read("a")
    for number in range(50):
        hand.edit("a", str(number), str(number + 1))
    assert path.read_bytes() == b"50\n"


def test_an_edit_by_another_agent_is_stale(hand, new_hand, workspace):
    put(workspace / "a", b"one\n")
    other = new_hand()
    hand.read("a")
    other.read("a")
    other.edit("a", "one", "two")
    error = hand.failure("edit", file_path="a", old_string="two", new_string="new")
    assert error.code == "FS_STALE_VERSION"


def test_a_missing_file_is_not_found(hand):
    error = hand.failure("edit", file_path="a", old_string="x", new_string="y")
    assert error.code == "FS_NOT_FOUND"


@pytest.mark.parametrize("data", [b"old\0", "old".encode("utf-16")])
def test_what_is_no_text_is_refused(hand, workspace, data):
    path = put(workspace / "a", data)
    hand.failure("read", file_path="a")
    error = hand.failure("edit", file_path="a", old_string="old", new_string="new")
    assert error.code == "FS_NOT_TEXT"
    assert path.read_bytes() == data


def test_a_fifo_is_refused_at_once(hand, workspace):
    os.mkfifo(workspace / "pipe")
    error = hand.failure("edit", file_path="pipe", old_string="x", new_string="y")
    assert error.code == "FS_NOT_REGULAR_FILE"


def test_a_file_too_large_is_refused_with_the_limit(new_hand, workspace):
    hand = new_hand(edit_limit_bytes=10)
    put(workspace / "a", b"x" * 11)
    hand.read("a")
    error = hand.failure("edit", file_path="a", old_string="x", new_string="y")
    assert error.code == "FS_TOO_LARGE"
    assert "11 bytes, limit 10" in str(error)


def test_a_lone_surrogate_is_refused(hand, workspace):
    path = put(workspace / "a", b"old\n")
    hand.read("a")
    error = hand.failure("edit", file_path="a", old_string="old", new_string="a\ud99cb")
    assert error.code == "INVALID_ARGS"
    assert path.read_bytes() == b"old\n"


def test_a_cancelled_edit_changes_nothing(hand, workspace, leftovers):
    path = put(workspace / "a", b"old\n")
    hand.read("a")
    hand.cancelled.set()
    error = hand.failure("edit", file_path="a", old_string="old", new_string="new")
    assert error.code == "ABORTED"
    assert path.read_bytes() == b"old\n"
    assert not leftovers(workspace)


def test_other_hard_links_keep_the_old_content_and_that_is_said(hand, workspace):
    path = put(workspace / "a", b"old\n")
    os.link(path, workspace / "b")
    hand.read("a")
    assert "one of 2 hard links" in hand.edit("a", "old", "new").text
    assert (workspace / "b").read_bytes() == b"old\n"


def test_two_edits_at_once_both_count(hand, workspace):
    import threading

    path = put(workspace / "a", b"".join(b"<%d>\n" % number for number in range(40)))
    hand.read("a")
    threads = [
        threading.Thread(target=hand.edit, args=("a", f"<{number}>", f"[{number}]"))
        for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() == b"".join(b"[%d]\n" % number for number in range(40))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    mark=st.sampled_from([b"", BOM]),
    before=st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"")),
    after=st.binary(max_size=40),
    ending=st.sampled_from([b"", b"\n", b"\r\n"]),
    new=st.text(alphabet="abc {}\\", min_size=1, max_size=5),
)
def test_on_disk_an_edit_changes_only_the_bytes_asked_for(
    hand, workspace, mark, before, after, ending, new
):
    after = after.replace(b"\0", b"")
    if mark == b"" and before[:2] in (b"\xff\xfe", b"\xfe\xff"):
        before = b"x" + before
    data = mark + before + b"<<token>>" + after + ending
    path = put(workspace / "f", data)
    hand.read("f", limit=1)
    hand.edit("f", "<<token>>", new)
    assert path.read_bytes() == mark + before + new.encode() + after + ending
