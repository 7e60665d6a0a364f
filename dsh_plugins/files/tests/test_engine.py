import os
from pathlib import Path

import pytest

from dsh_core.errors import ToolError
from dsh_files import engine
from dsh_files.engine import Engine, choose_engine, find_ripgrep


def script(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "rg"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_ripgrep_on_path_comes_before_the_one_of_a_wheel(workspace, monkeypatch):
    first, second = script(workspace / "path"), script(workspace / "scripts")
    monkeypatch.setattr(engine.sysconfig, "get_path", lambda name: str(workspace / "scripts"))
    monkeypatch.setenv("PATH", str(workspace / "path"))
    assert find_ripgrep() == first
    monkeypatch.setenv("PATH", str(workspace / "empty"))
    assert find_ripgrep() == second


def test_a_program_of_the_project_is_never_taken(workspace, monkeypatch):
    script(workspace / "bin")
    monkeypatch.chdir(workspace)
    monkeypatch.setattr(engine.sysconfig, "get_path", lambda name: str(workspace / "none"))
    monkeypatch.setenv("PATH", "bin:.:")
    assert find_ripgrep() is None


def test_without_ripgrep_our_own_program_searches(workspace, monkeypatch):
    monkeypatch.setattr(engine, "find_ripgrep", lambda: None)
    assert choose_engine("auto") == Engine(None)
    with pytest.raises(ToolError, match="pip install ripgrep"):
        choose_engine("ripgrep")


def test_ripgrep_is_not_looked_for_when_python_is_asked_for(monkeypatch):
    monkeypatch.setattr(engine, "find_ripgrep", lambda: pytest.fail("looked"))
    assert choose_engine("python") == Engine(None)


def test_a_ripgrep_that_does_not_run_is_named(hand, workspace, monkeypatch):
    broken = script(workspace / "path")
    Path(broken).write_text("#!/no/such/shell\n")
    monkeypatch.setenv("PATH", os.path.dirname(broken))
    error = hand.failure("grep", pattern="x")
    assert error.code == "SEARCH_FAILED"
    assert broken in str(error)


@pytest.mark.parametrize(
    "body", ["kill -9 $$", "echo out of luck >&2; exit 2", "echo Traceback >&2; exit 1", "exit 77"]
)
def test_a_ripgrep_that_fails_is_no_empty_result(hand, workspace, monkeypatch, body):
    path = script(workspace / "path")
    Path(path).write_text(f"#!/bin/sh\n{body}\n")
    monkeypatch.setenv("PATH", f"{os.path.dirname(path)}:/bin:/usr/bin")
    for name in ("glob", "grep"):
        error = hand.failure(name, pattern="x")
        assert error.code == "SEARCH_FAILED"
        assert "did not run" in str(error)
