"""The program in Python, where it differs from what glob and grep show through it."""

import json
import os
import subprocess
import sys

import pytest

from dsh_files import fallback
from dsh_files.engine import Engine
from dsh_files.globs import Glob


def run(argv, folder, **options):
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False, **options)


def test_modules_of_the_searched_folder_are_not_imported(workspace):
    for name in ("json.py", "pathspec.py", "re.py", "sitecustomize.py"):
        (workspace / name).write_text("open('pwned', 'w')")
    result = run(Engine(None).list_files(), workspace, env={"PYTHONPATH": str(workspace)})
    assert result.returncode == 0
    assert not (workspace / "pwned").exists()


def test_it_answers_in_ripgreps_words(workspace):
    (workspace / "a").write_text("x foo\n")
    result = run(Engine(None).search("foo", Glob("*"), workspace, stdin=False), workspace)
    messages = [json.loads(line) for line in result.stdout.splitlines()]
    assert [message["type"] for message in messages] == ["begin", "match", "end", "summary"]
    assert messages[1]["data"] == {
        "path": {"text": "./a"},
        "lines": {"text": "x foo\n"},
        "line_number": 1,
        "submatches": [{"start": 2, "end": 5}],
    }
    assert result.returncode == 0


@pytest.mark.parametrize(("pattern", "code"), [("foo", 0), ("bar", 1), ("(", 2)])
def test_its_exit_codes_are_ripgreps(workspace, pattern, code):
    (workspace / "a").write_text("foo\n")
    argv = Engine(None).search(pattern, None, workspace, stdin=False)
    assert run(argv, workspace).returncode == code


def test_it_works_in_a_c_locale(workspace):
    (workspace / "日本.txt").write_text("größe\n")
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    argv = Engine(None).search("größe", None, workspace, stdin=False)
    result = run(argv, workspace, env=environment)
    assert result.returncode == 0
    assert "日本.txt" in json.loads(result.stdout.splitlines()[0])["data"]["path"]["text"]


def test_lines_longer_than_the_limit_keep_the_numbers_right(tmp_path, monkeypatch):
    monkeypatch.setattr(fallback, "LINE_LIMIT", 4)
    (tmp_path / "a").write_text("123456789\nx\n")
    with fallback.open_regular(str(tmp_path / "a")) as file:
        assert list(fallback.lines_of(file)) == [
            (1, b"1234"),
            (1, b"5678"),
            (1, b"9\n"),
            (2, b"x\n"),
        ]


def test_only_regular_files_are_opened(workspace):
    os.mkfifo(workspace / "pipe")
    (workspace / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=r"not a regular file|symbolic"):
            fallback.open_regular(str(workspace / name))


def test_what_cannot_be_read_is_an_exit_code(open_folder, as_nobody, monkeypatch, capsys):
    (open_folder / "closed").mkdir(mode=0)
    (open_folder / "a").write_text("foo\n")
    (open_folder / "b").touch(mode=0)
    monkeypatch.chdir(open_folder)
    task = {"task": "search", "pattern": "foo", "include": None, "stdin": False, "left_out": ["x"]}
    with as_nobody():
        code = fallback.main(json.dumps(task))
        unread = []
        paths = list(fallback.walk(".", ["x"], None, unread))
    assert code == 2
    assert '"line_number": 1' in capsys.readouterr().out
    assert paths == ["./a", "./b"]
    assert unread == ["./closed"]


def test_it_starts_without_the_package():
    program = f"import runpy, sys; runpy.run_path({fallback.__file__!r}); print(*sys.modules)"
    result = run([sys.executable, "-Ic", program], "/")
    modules = result.stdout.decode().split()
    assert "pathspec" in modules
    assert not any(name.startswith(("dsh_", "pluggy")) for name in modules)
