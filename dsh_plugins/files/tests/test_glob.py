import os
import socket
import time

import pytest

from dsh_core import hide_files


def put(path, *, age_seconds=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    when = 1_700_000_000 - age_seconds
    os.utime(path, (when, when))


def test_files_are_listed_newest_first_and_by_path_where_equally_old(searching, workspace):
    put(workspace / "old.py", age_seconds=50)
    put(workspace / "b.py", age_seconds=10)
    put(workspace / "a/c.py", age_seconds=10)
    put(workspace / "new.py")
    put(workspace / "new.txt")
    assert searching.glob("*.py") == "new.py\na/c.py\nb.py\nold.py"


def test_beyond_the_limit_the_newest_are_shown_and_that_is_said(searching, workspace):
    for number in range(30):
        put(workspace / f"{number:02}.txt", age_seconds=number)
    searching.set(engine=searching.tools._settings.engine, glob_limit_files=3)
    output = searching.call("glob", pattern="*")
    assert output.text == (
        "00.txt\n01.txt\n02.txt\n"
        "(The newest 3 of 30 files. Narrow the pattern or the path to see others.)"
    )
    assert output.meta == {"files": 30, "shown": 3, "stopped": None}


def test_nothing_found_is_said(searching, workspace):
    assert searching.glob("*.py") == "No files found."
    assert searching.glob("no/such/*.py") == "No files found.\n(./no/such does not exist.)"


def test_hidden_and_ignored_files_are_listed_and_version_control_is_not(searching, workspace):
    (workspace / ".gitignore").write_text("build/\n*.log\n")
    for name in [".git/config", ".hg/store", "build/out.js", "a.log", ".hidden/x", ".env"]:
        put(workspace / name)
    assert set(searching.glob("**").split("\n")) == {
        ".gitignore",
        "build/out.js",
        "a.log",
        ".hidden/x",
        ".env",
    }


def test_links_and_what_is_no_regular_file_are_left_out(searching, workspace, tmp_path):
    put(tmp_path / "outside/secret")
    put(workspace / "real/f")
    (workspace / "link-file").symlink_to("real/f")
    (workspace / "link-folder").symlink_to("real")
    (workspace / "link-out").symlink_to(tmp_path / "outside")
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
    assert searching.glob("**") == "real/f"


def test_a_path_is_the_folder_to_search(searching, workspace):
    put(workspace / "src/a.py")
    put(workspace / "lib/b.py")
    assert searching.glob("*.py", path="src") == "src/a.py"
    assert searching.glob("*.py", path=str(workspace / "lib")) == "lib/b.py"
    assert searching.glob("*.py", path="") in ("src/a.py\nlib/b.py", "lib/b.py\nsrc/a.py")


def test_patterns_may_be_absolute_or_begin_with_folders(searching, workspace):
    put(workspace / "src/deep/a.py")
    put(workspace / "src/b.py")
    put(workspace / "b.py")
    assert searching.glob(f"{workspace}/src/*.py") == "src/b.py"
    assert searching.glob("src/**/*.py").split("\n") == ["src/b.py", "src/deep/a.py"]
    assert searching.glob("src/deep/a.py") == "src/deep/a.py"
    assert searching.glob("./src/*.py") == "src/b.py"


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "~root/*"])
def test_patterns_do_not_leave_the_workspace(searching, pattern):
    assert searching.failure("glob", pattern=pattern).code == "FS_OUTSIDE_WORKSPACE"


def test_files_outside_the_working_directory_are_named_in_full(searching, tmp_path):
    put(tmp_path / "side/a.py")
    searching.readable_roots = (tmp_path / "side",)
    assert searching.glob("*.py", path="../side") == f"{tmp_path}/side/a.py"


def test_odd_names_are_listed_one_in_a_line(searching, workspace):
    for name in ["-rf", "a b", "日本", os.fsdecode(b"bad\xff"), "two\nlines", "--files"]:
        put(workspace / name)
    assert set(searching.glob("*").split("\n")) == {
        "-rf",
        "a b",
        "日本",
        "bad\\udcff",
        "two\\nlines",
        "--files",
    }
    assert searching.glob("-*").split("\n") == ["--files", "-rf"]


def test_a_missing_folder_and_a_file_as_folder_say_so(searching, workspace):
    put(workspace / "f")
    assert searching.failure("glob", pattern="*", path="missing").code == "FS_NOT_FOUND"
    assert searching.failure("glob", pattern="*", path="f").code == "FS_NOT_DIRECTORY"


def test_an_invalid_pattern_says_so(searching):
    assert searching.failure("glob", pattern="[z-a]").code == "SEARCH_INVALID_PATTERN"


def test_folders_that_cannot_be_read_are_said(searching, open_folder, as_nobody):
    put(open_folder / "open/a")
    put(open_folder / "closed/b")
    (open_folder / "closed").chmod(0)
    if not searching.starts_for_nobody():
        pytest.skip("nobody may not start root's engine; test_fallback does this in the process")
    searching.set(engine=searching.tools._settings.engine, allow=(str(open_folder),))
    with as_nobody():
        text = searching.glob("*", path=str(open_folder))
    if os.geteuid() == 0:
        (open_folder / "closed").chmod(0o755)
    assert text == f"{open_folder}/open/a\n(Some files or folders could not be read.)"


def test_a_cancelled_search_stops(searching, workspace):
    searching.cancelled.set()
    assert searching.failure("glob", pattern="*").code == "ABORTED"


def test_many_files_take_little_time(searching, workspace):
    for folder in range(50):
        (workspace / str(folder)).mkdir()
        for number in range(100):
            (workspace / str(folder) / f"{number}.txt").touch()
    begin = time.monotonic()
    assert "of 5,000 files" in searching.glob("**/*.txt")
    assert time.monotonic() - begin < 5


def test_what_policy_hides_is_not_listed(searching, workspace):
    put(workspace / "a.py")
    put(workspace / "secrets/b.py")
    hide_files(searching.agent, lambda path: "secrets" in path.parts)
    assert searching.glob("*.py") == "a.py"
