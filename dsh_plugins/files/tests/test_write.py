import os
import threading
from pathlib import Path

import pytest

from dsh_core.errors import ToolError

BOM = b"\xef\xbb\xbf"


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_new_file_is_created_with_its_folders(hand, workspace):
    output = hand.write("a/b/c.txt", "one\ntwo")
    path = workspace / "a/b/c.txt"
    assert path.read_bytes() == b"one\ntwo"
    assert output.text == f"Created {path}: 2 lines, 7 bytes."
    assert output.meta["change"] == "created"
    assert output.meta["added_lines"] == 2
    assert output.meta["diff"].startswith("@@ -0,0 +1,2 @@\n+one\n+two\n")


def test_replacing_says_updated_and_never_echoes_the_content(hand, workspace):
    path = put(workspace / "a", b"one\ntwo\n")
    hand.read("a")
    output = hand.write("a", "one\nSECRET\n")
    assert path.read_bytes() == b"one\nSECRET\n"
    assert output.text == f"Updated {path}: +1 -1 lines, now 2 lines, 11 bytes."
    assert output.meta["diff"] == "@@ -1,2 +1,2 @@\n one\n-two\n+SECRET\n"
    assert output.meta["change"] == "updated"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_case_075_new_files_and_folders_follow_the_umask(hand, workspace, mask, mode):
    old = os.umask(mask)
    try:
        hand.write("folder/new", "x")
    finally:
        os.umask(old)
    assert (workspace / "folder/new").stat().st_mode & 0o7777 == mode
    assert (workspace / "folder").stat().st_mode & 0o7777 == 0o777 & ~mask


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o4755])
def test_case_075_the_mode_of_a_replaced_file_stays(hand, workspace, mode):
    path = put(workspace / "a", b"old")
    path.chmod(mode)
    hand.read("a")
    hand.write("a", "new")
    assert path.stat().st_mode & 0o7777 == mode


def test_case_069_the_byte_order_mark_stays_on_overwrite(hand, workspace):
    path = put(workspace / "a", BOM + b"old\n")
    hand.read("a")
    assert "byte order mark was kept" in hand.write("a", "new\n").text
    assert path.read_bytes() == BOM + b"new\n"
    hand.write("a", "\ufeffagain\n")
    assert path.read_bytes() == BOM + b"again\n"


def test_crlf_stays_on_overwrite_and_that_is_said(hand, workspace):
    path = put(workspace / "a", b"old\r\nold\r\n")
    hand.read("a")
    assert "CRLF line endings were kept" in hand.write("a", "new\nnew\n").text
    assert path.read_bytes() == b"new\r\nnew\r\n"


def test_content_with_crlf_of_its_own_is_written_as_it_is(hand, workspace):
    path = put(workspace / "a", b"old\r\n")
    hand.read("a")
    hand.write("a", "a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n"
    assert hand.write("new", "a\r\nb\n")
    assert (workspace / "new").read_bytes() == b"a\r\nb\n"


def test_a_file_that_is_not_utf8_may_be_replaced_and_that_is_said(hand, workspace):
    path = put(workspace / "a", b"caf\xe9\n")
    hand.read("a")
    assert "not UTF-8 before" in hand.write("a", "café\n").text
    assert path.read_bytes() == "café\n".encode()


def test_the_replacement_character_is_never_written_over_other_bytes(hand, workspace):
    path = put(workspace / "a", b"caf\xe9\n")
    hand.read("a")
    error = hand.failure("write", file_path="a", content="caf\ufffd\nmore\n")
    assert error.code == "FS_NOT_UTF8"
    assert path.read_bytes() == b"caf\xe9\n"


def test_a_binary_file_may_be_replaced_after_a_refused_read(hand, workspace):
    path = put(workspace / "a", b"\0\1\2")
    assert hand.failure("write", file_path="a", content="x").code == "FS_NOT_OBSERVED"
    hand.failure("read", file_path="a")
    output = hand.write("a", "text\n")
    assert path.read_bytes() == b"text\n"
    assert output.meta["diff"] is None
    hand.failure("read", file_path="link-to-nothing")
    put(path, b"\0\1\2\3")
    hand.failure("read", file_path="a")
    put(path, b"\0\1\2\3\4")
    assert hand.failure("write", file_path="a", content="x").code == "FS_STALE_VERSION"


def test_a_file_that_was_not_read_is_never_touched(hand, workspace):
    path = put(workspace / "a", b"old\n")
    error = hand.failure("write", file_path="a", content="new\n")
    assert error.code == "FS_NOT_OBSERVED"
    assert path.read_bytes() == b"old\n"


def test_case_078_a_file_changed_since_it_was_read_is_never_touched(hand, workspace):
    path = put(workspace / "f.txt", b"one\n")
    hand.read("f.txt")
    with path.open("a") as file:
        file.write("user-line\n")
    error = hand.failure("write", file_path="f.txt", content="mine\n")
    assert error.code == "FS_STALE_VERSION"
    assert path.read_bytes() == b"one\nuser-line\n"
    hand.read("f.txt")
    hand.write("f.txt", "mine\n")
    assert path.read_bytes() == b"mine\n"


def test_own_writes_and_edits_one_after_another_are_never_stale(hand, workspace):
    for number in range(20):
        hand.write("a", f"{number}\n")
        hand.edit("a", str(number), f"{number}!")
    assert (workspace / "a").read_bytes() == b"19!\n"


def test_a_touch_is_not_stale(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    os.utime(path, ns=(1, 1))
    hand.write("a", "two\n")


def test_a_deleted_file_is_said_then_read_as_missing_then_written(hand, workspace):
    path = put(workspace / "a", b"one\n")
    hand.read("a")
    path.unlink()
    error = hand.failure("write", file_path="a", content="new\n")
    assert error.code == "FS_STALE_VERSION"
    assert "was deleted" in str(error)
    assert hand.failure("read", file_path="a").code == "FS_NOT_FOUND"
    assert hand.failure("edit", file_path="a", old_string="x", new_string="y").code == (
        "FS_NOT_FOUND"
    )
    assert hand.write("a", "new\n").text.startswith("Created")
    assert path.read_bytes() == b"new\n"


def test_a_deleted_folder_is_not_brought_back_unasked(hand, workspace):
    (workspace / "d").mkdir()
    put(workspace / "d/a", b"one\n")
    hand.read("d/a")
    (workspace / "d/a").unlink()
    (workspace / "d").rmdir()
    assert hand.failure("write", file_path="d/a", content="x").code == "FS_STALE_VERSION"
    assert not (workspace / "d").exists()


def test_a_file_that_appeared_after_it_was_found_missing_is_not_overwritten(hand, workspace):
    hand.failure("read", file_path="a")
    path = put(workspace / "a", b"theirs\n")
    error = hand.failure("write", file_path="a", content="mine\n")
    assert error.code == "FS_STALE_VERSION"
    assert "created by somebody else" in str(error)
    assert path.read_bytes() == b"theirs\n"


def test_of_many_agents_that_create_one_file_exactly_one_wins(new_hand, workspace, leftovers):
    created, refused = [], []

    def create(number):
        try:
            created.append(new_hand().write("a", f"{number}\n").text)
        except ToolError as error:
            refused.append(error.code)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert set(refused) <= {"FS_STALE_VERSION", "FS_NOT_OBSERVED"}
    assert not leftovers(workspace)


def test_case_074_through_a_link_the_target_is_written_and_the_link_stays(hand, workspace):
    (workspace / "real").mkdir()
    put(workspace / "real/target.txt", b"old\n")
    (workspace / "link.txt").symlink_to("real/target.txt")
    hand.read("link.txt")
    hand.write("link.txt", "new\n")
    assert os.readlink(workspace / "link.txt") == "real/target.txt"
    assert (workspace / "real/target.txt").read_bytes() == b"new\n"


def test_through_a_dangling_link_the_target_is_created(hand, workspace):
    (workspace / "link").symlink_to("folder/target")
    hand.write("link", "new\n")
    assert (workspace / "link").is_symlink()
    assert (workspace / "folder/target").read_bytes() == b"new\n"


def test_links_out_of_the_workspace_are_refused(hand, workspace, tmp_path):
    (workspace / "link").symlink_to(tmp_path / "outside")
    assert hand.failure("write", file_path="link", content="x").code == "FS_OUTSIDE_WORKSPACE"
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("folder", "FS_NOT_REGULAR_FILE"),
        (".", "FS_NOT_REGULAR_FILE"),
        ("new/", "FS_NOT_REGULAR_FILE"),
        ("pipe", "FS_NOT_REGULAR_FILE"),
        ("file/below", "FS_NOT_DIRECTORY"),
        ("n" * 300, "FS_INVALID_PATH"),
        ("/etc/dsh", "FS_OUTSIDE_WORKSPACE"),
    ],
)
def test_places_that_cannot_be_written_say_why(hand, workspace, path, code):
    (workspace / "folder").mkdir()
    (workspace / "file").touch()
    os.mkfifo(workspace / "pipe")
    assert hand.failure("write", file_path=path, content="x").code == code


def test_a_spill_folder_may_be_read_and_not_written(hand, spill):
    error = hand.failure("write", file_path=str(spill / "x"), content="x")
    assert error.code == "FS_OUTSIDE_WORKSPACE"


def test_a_write_protected_file_is_refused(new_hand, open_folder, as_nobody):
    path = put(open_folder / "f", b"old")
    path.chmod(0o444)
    hand = new_hand(allow=(str(open_folder),))
    with as_nobody():
        hand.read(str(path))
        error = hand.failure("write", file_path=str(path), content="new")
    assert error.code == "FS_PERMISSION_DENIED"
    assert "write-protected (mode 444)" in str(error)
    assert path.read_bytes() == b"old"


def test_a_writable_file_in_a_folder_that_is_not_is_refused_unchanged(
    new_hand, open_folder, as_nobody
):
    path = put(open_folder / "f", b"old")
    path.chmod(0o666)
    open_folder.chmod(0o755)
    hand = new_hand(allow=(str(open_folder),))
    with as_nobody():
        hand.read(str(path))
        error = hand.failure("write", file_path=str(path), content="new")
    assert error.code == "FS_PERMISSION_DENIED"
    assert "in one step" in str(error)
    assert path.read_bytes() == b"old"


def test_a_huge_old_file_is_not_read_for_a_diff(new_hand, workspace):
    hand = new_hand(diff_limit_bytes=1_000)
    path = put(workspace / "a", BOM + b"line\r\n" * 50_000)
    hand.read("a", limit=1)
    output = hand.write("a", "new\n")
    assert output.meta["diff"] is None
    assert output.meta["added_lines"] is None
    assert path.read_bytes() == BOM + b"new\r\n"


def test_a_huge_old_file_that_was_touched_is_compared_by_its_bytes(new_hand, workspace):
    hand = new_hand(diff_limit_bytes=1_000)
    path = put(workspace / "a", "é".encode() * 40_000)
    hand.read("a", limit=1)
    os.utime(path, ns=(1, 1))
    hand.write("a", "new\n")
    put(path, b"y" * 70_000)
    assert hand.failure("write", file_path="a", content="x").code == "FS_STALE_VERSION"


def test_a_lone_surrogate_is_refused_and_nothing_is_created(hand, workspace):
    error = hand.failure("write", file_path="a", content="x\ud99c")
    assert error.code == "INVALID_ARGS"
    assert not (workspace / "a").exists()


def test_a_cancelled_write_changes_nothing(hand, workspace, leftovers):
    hand.cancelled.set()
    assert hand.failure("write", file_path="a", content="x").code == "ABORTED"
    assert os.listdir(workspace) == []


def test_an_empty_file_can_be_written(hand, workspace):
    assert "0 lines, 0 bytes" in hand.write("a", "").text
    assert (workspace / "a").read_bytes() == b""
