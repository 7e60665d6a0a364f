import os
import socket
import time

import pytest

from dsh_core import hide_files
from dsh_files.grep import Matches, excerpt
from dsh_files.settings import Settings


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def test_matches_are_grouped_by_file_in_the_order_of_paths(searching, workspace):
    put(workspace / "b.py", "x\nfoo = 1\n")
    put(workspace / "a/c.py", "foo\nbar\nfoo()\n")
    output = searching.call("grep", pattern="foo")
    assert output.text == (
        "Found 3 matches in 2 files.\n"
        "\na/c.py:\n  Line 1: foo\n  Line 3: foo()\n"
        "\nb.py:\n  Line 2: foo = 1"
    )
    assert output.meta == {"matches": 3, "files": 2, "stopped": None}


def test_nothing_found_is_a_success(searching, workspace):
    put(workspace / "a", "x\n")
    assert searching.grep("foo") == "No matches found."


def test_a_single_file_can_be_searched(searching, workspace):
    put(workspace / "src/a.py", "one\ntwo\n")
    put(workspace / "src/b.py", "two\n")
    text = "Found 1 match in 1 file.\n\nsrc/a.py:\n  Line 2: two"
    assert searching.grep("two", path="src/a.py") == text
    assert searching.grep("two", path="src/a.py", include="*.py") == text
    assert searching.grep("two", path="src/a.py", include="*.txt") == "No matches found."


@pytest.mark.parametrize(
    ("include", "files"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/d.py"]),
        ("*.{ts,tsx}", ["src/c.ts", "src/c.tsx"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**", ["src/b.py", "src/c.ts", "src/c.tsx", "src/deep/d.py"]),
        ("{a.py,src/c.ts}", ["a.py", "src/c.ts"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("", ["a.py", "src/b.py", "src/c.ts", "src/c.tsx", "src/deep/d.py"]),
    ],
)
def test_include_narrows_by_path(searching, workspace, include, files):
    for name in ["a.py", "src/b.py", "src/c.ts", "src/c.tsx", "src/deep/d.py"]:
        put(workspace / name, "foo\n")
    text = searching.grep("foo", include=include)
    assert [line[:-1] for line in text.split("\n") if line.endswith(":")] == files


@pytest.mark.parametrize("include", ["*.ts,*.tsx", "!*.py", "[z-a]"])
def test_include_is_one_positive_glob(searching, include):
    error = searching.failure("grep", pattern="x", include=include)
    assert error.code == "SEARCH_INVALID_PATTERN"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(foo", "un(closed|terminated)"),
        ("foo[", "un(closed|terminated)"),
        ("*", "(repetition|repeat)"),
        ("a\nb", "(not allowed|never found)"),
        ("", "empty"),
        ("a\0", "NUL at position 1"),
        ("x" * 40_000, "longer than 30,000"),
        ("(" * 20_000, "(nest|recursion|terminated|unclosed)"),
    ],
)
def test_an_invalid_pattern_is_refused_with_what_is_wrong(searching, workspace, pattern, words):
    error = searching.failure("grep", pattern=pattern)
    assert error.code == "SEARCH_INVALID_PATTERN"
    with pytest.raises(type(error), match=words):
        raise error


def test_an_invalid_pattern_shows_where(searching, workspace):
    assert "at position 4" in str(searching.failure("grep", pattern="good(bad"))
    assert "at position 6" in str(searching.failure("grep", pattern=r"a\([(]("))
    assert "at position 1" in str(searching.failure("grep", pattern="a)b"))
    bracket = str(searching.failure("grep", pattern="good["))
    assert "at position 4" in bracket or "    (?:good[)\n           ^\n" in bracket


@pytest.mark.parametrize("pattern", ["-foo", "--files", "-e", "--pre=touch pwned"])
def test_patterns_that_look_like_options_are_patterns(searching, workspace, pattern):
    put(workspace / "a", f"x {pattern}\n")
    assert f"Line 1: x {pattern}" in searching.grep(pattern)
    assert os.listdir(workspace) == ["a"]


def test_ignore_files_are_respected(searching, workspace):
    put(workspace / ".gitignore", "*.log\n!keep.log\nbuild/\n/top.txt\n")
    put(workspace / "src/.gitignore", "local.txt\n!*.log\n")
    put(workspace / ".ignore", "data.csv\n")
    for name in [
        "a.log", "keep.log", "build/out.js", "top.txt", "src/top.txt", "src/local.txt",
        "src/b.log", "local.txt", "data.csv", "a.py",
    ]:  # fmt: skip
        put(workspace / name, "foo\n")
    text = searching.grep("foo")
    files = [line[:-1] for line in text.split("\n") if line.endswith(":")]
    assert files == ["a.py", "keep.log", "local.txt", "src/b.log", "src/top.txt"]


def test_include_does_not_bring_ignored_files_back(searching, workspace):
    put(workspace / ".gitignore", "gen.py\n")
    put(workspace / "gen.py", "foo\n")
    put(workspace / "a.py", "foo\n")
    assert "gen.py" not in searching.grep("foo", include="*.py")


def test_ignore_files_above_count_up_to_the_repository(searching, workspace):
    put(workspace / "outer/.gitignore", "*.py\n")
    put(workspace / "outer/repo/.git/config", "")
    put(workspace / "outer/repo/.gitignore", "*.log\n")
    put(workspace / "outer/repo/src/a.py", "foo\n")
    put(workspace / "outer/repo/src/a.log", "foo\n")
    text = searching.grep("foo", path="outer/repo/src")
    assert "a.py" in text
    assert "a.log" not in text


def test_a_repository_inside_another_has_its_own_rules(searching, workspace):
    put(workspace / ".git/config", "")
    put(workspace / ".gitignore", "*.log\n")
    put(workspace / "vendor/.git/config", "")
    put(workspace / "vendor/a.log", "foo\n")
    put(workspace / "a.log", "foo\n")
    assert searching.call("grep", pattern="foo").meta["files"] == 1


def test_hidden_files_are_searched_and_version_control_is_not(searching, workspace):
    put(workspace / ".github/workflows/ci.yml", "foo\n")
    put(workspace / ".git/config", "foo\n")
    put(workspace / "sub/.hg/store", "foo\n")
    text = searching.grep("foo")
    assert "Found 1 match in 1 file" in text
    assert ".github/workflows/ci.yml" in text


def test_binary_files_links_and_special_files_are_skipped(searching, workspace, tmp_path):
    put(workspace / "binary", b"foo\n\0\nfoo\n")
    put(workspace / "late", b"foo\n" * 50_000 + b"\0")
    put(tmp_path / "outside", "foo\n")
    put(workspace / "plain.txt", "foo\n")
    (workspace / "link").symlink_to("../outside")
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
    begin = time.monotonic()
    assert searching.grep("foo") == "Found 1 match in 1 file.\n\nplain.txt:\n  Line 1: foo"
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("name", ["pipe", "socket"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_special_file_as_path_is_refused_at_once(searching, workspace, name):
    os.mkfifo(workspace / "pipe")
    socket.socket(socket.AF_UNIX).bind(str(workspace / "socket"))
    assert searching.failure("grep", pattern="x", path=name).code == "FS_NOT_REGULAR_FILE"


def test_a_binary_file_as_path_is_skipped(searching, workspace):
    put(workspace / "binary", b"foo\0\n")
    assert searching.grep("foo", path="binary") == "No matches found."


def test_line_ends_and_the_byte_order_mark_do_not_hide_matches(searching, workspace):
    put(workspace / "a.txt", b"\xef\xbb\xbfstart\r\nend\r\n")
    text = searching.grep("^start$|^end$")
    assert "Line 1: start\n  Line 2: end" in text
    assert "\r" not in text


def test_text_that_is_not_utf8_is_searched_and_shown_with_replacement(searching, workspace):
    put(workspace / "latin1", b"total caf\xe9\n")
    assert "Line 1: total caf\ufffd" in searching.grep("total")


def test_utf16_is_searched(searching, workspace):
    put(workspace / "wide", "foo bär\n".encode("utf-16"))
    assert "Line 1: foo bär" in searching.grep("foo")


def test_unicode_is_matched_as_characters(searching, workspace):
    put(workspace / "a", "größe 日本\n")
    assert "Line 1" in searching.grep("gr..e 日.$")
    assert "Line 1" in searching.grep(r"\bgröße\b")


def test_beyond_the_limit_the_first_by_path_are_shown_and_that_is_said(searching, workspace):
    for number in range(30):
        put(workspace / f"{number:02}.txt", "foo\n" * 3)
    searching.set(engine=searching.tools._settings.engine, grep_limit_matches=4)
    text = searching.grep("foo")
    assert text.startswith("Found 90 matches in 30 files.\n\n00.txt:")
    assert text.count("  Line ") == 4
    assert "01.txt:\n  Line 1: foo\n\n(The first 4 of 90 matches" in text


def test_a_long_line_is_cut_around_its_match(searching, workspace):
    put(workspace / "min.js", "a" * 100_000 + "NEEDLE" + "b" * 100_000 + "\n")
    text = searching.grep("NEEDLE")
    assert "aaaNEEDLEbbb" in text
    assert "… [cut: the line has 200,006 bytes]" in text
    assert len(text) < 3_000


def test_too_much_output_stops_the_search_and_says_so(searching, workspace):
    put(workspace / "a", "foo bar\n" * 20_000)
    searching.set(engine=searching.tools._settings.engine, search_output_limit_bytes=1_000_000)
    output = searching.call("grep", pattern="foo")
    assert output.meta["stopped"] == "output"
    assert "  Line 250: foo bar\n\n(The first 250 of " in output.text
    assert "(The search was stopped after 1,000,000 bytes of matches: there is more." in output.text


def test_one_match_larger_than_the_limit_is_no_silent_success(searching, workspace):
    put(workspace / "a", "x" * 2_000_000 + "foo\n")
    searching.set(engine=searching.tools._settings.engine, search_output_limit_bytes=1_000_000)
    assert searching.failure("grep", pattern="foo").code == "SEARCH_OUTPUT_TOO_LARGE"


def test_a_search_that_takes_too_long_is_stopped(new_hand, workspace):
    put(workspace / "a", "a" * 30 + "!\n")
    hand = new_hand(engine="python", search_timeout_seconds=0.5)
    begin = time.monotonic()
    error = hand.failure("grep", pattern="(a+)+$")
    assert error.code == "SEARCH_TIMEOUT"
    assert "after 0.5 s" in str(error)
    assert time.monotonic() - begin < 5


def test_a_search_that_takes_too_long_shows_what_it_found(new_hand, workspace):
    put(workspace / "a", "aa\n")
    put(workspace / "b", "a" * 30 + "!\n")
    hand = new_hand(engine="python", search_timeout_seconds=1.5)
    text = hand.grep("^(a+)+$")
    assert "a:\n  Line 1: aa" in text
    assert "(The search was stopped after 1.5 s: there is more." in text


def test_a_configuration_file_of_the_user_changes_nothing(searching, workspace, monkeypatch):
    put(workspace / "rc", "--max-count=1\n--pre=/bin/false\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(workspace / "rc"))
    put(workspace / "a", "foo\nfoo\n")
    assert "Found 2 matches" in searching.grep("foo")


def test_files_that_cannot_be_read_are_said(searching, open_folder, as_nobody):
    put(open_folder / "open", "foo\n")
    put(open_folder / "closed", "foo\n")
    (open_folder / "closed").chmod(0)
    if not searching.starts_for_nobody():
        pytest.skip("nobody may not start root's engine; test_fallback does this in the process")
    searching.set(engine=searching.tools._settings.engine, allow=(str(open_folder),))
    with as_nobody():
        text = searching.grep("foo", path=str(open_folder))
    assert "Found 1 match" in text
    assert text.endswith("\n\n(Some files or folders could not be read.)")


@pytest.mark.parametrize("path", ["missing", "../x", "a\0"])
def test_places_that_cannot_be_searched_say_why(searching, path):
    assert searching.failure("grep", pattern="x", path=path).code in (
        "FS_NOT_FOUND",
        "FS_OUTSIDE_WORKSPACE",
        "FS_INVALID_PATH",
    )


def test_an_excerpt_never_cuts_a_character_in_two():
    line = "é".encode() * 3_000
    for start in (0, 1_501, 3_000, 5_999):
        for limit in (100, 101):
            text = excerpt(line, start, limit)
            assert "\ufffd" not in text
            assert text.endswith(" [cut: the line has 6,000 bytes]")


def test_matches_kept_are_bounded_whatever_the_order_of_files():
    matches = Matches(Settings(grep_limit_matches=5))
    for name in ["e", "c", "a", "d", "b"]:
        matches.begin(name)
        for number in range(1, 101):
            matches.add(number, b"x\n", 0)
        matches.end(is_binary=False)
        assert sum(len(file.lines) for file in matches.files) <= 10
    assert matches.total == 500
    assert matches.files[0].path == "a"


def test_what_policy_hides_is_not_searched(searching, workspace):
    (workspace / "secrets").mkdir()
    (workspace / "a.txt").write_text("key = 1\n")
    (workspace / "secrets/b.txt").write_text("key = 2\n")
    hide_files(searching.agent, lambda path: path == workspace / "secrets/b.txt")
    assert searching.grep("key") == "Found 1 match in 1 file.\n\na.txt:\n  Line 1: key = 1"
