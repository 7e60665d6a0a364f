"""What a person answers at a real terminal, through the installed `dsh`."""

from __future__ import annotations

import json
from pathlib import Path

import pexpect
import pytest
from program import DSH, Shell


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)


def running(dsh: Shell, *commands: str, last: str = "Done.") -> pexpect.spawn[str]:
    calls = [{"calls": [{"name": "bash", "arguments": {"command": one}}]} for one in commands]
    model = {"adapter": "scripted", "replies": [*calls, last], "models": {"m": {}}}
    config = dsh.write("mine.yaml", json.dumps({"providers": {"offline": model}}))
    return pexpect.spawn(
        str(DSH), ["run", "-c", str(config), "Go."], cwd=dsh.work, env=dsh.environment(),
        encoding="utf-8", timeout=60, dimensions=(40, 200),
    )  # fmt: skip


def answered(child: pexpect.spawn[str], text: str) -> str:
    child.expect_exact("Allow?")
    before = child.before or ""
    child.expect_exact("[n]")
    child.sendline(text)
    return before


def ended(child: pexpect.spawn[str]) -> str:
    child.expect(pexpect.EOF)
    child.close()
    return child.before or ""


def test_yes_is_once(dsh: Shell) -> None:
    child = running(dsh, "touch one", "touch one two")
    shown = answered(child, "y")
    answered(child, "")
    ended(child)

    assert '→ bash\r\n  command: "touch one"\r\n' in shown
    assert 'part: "touch one" (no rule' in shown
    assert sorted(path.name for path in dsh.work.iterdir()) == ["mine.yaml", "one"]


def test_a_session_long_yes_is_not_asked_for_again(dsh: Shell) -> None:
    child = running(dsh, "git init one", "git init two")
    answered(child, "s")
    ended(child)

    assert {"one", "two"} <= {path.name for path in dsh.work.iterdir()}
    assert not (dsh.work / ".dsh").exists()


def test_a_yes_for_the_project_holds_in_the_next_run(dsh: Shell) -> None:
    child = running(dsh, "git init one")
    answered(child, "p")
    ended(child)
    ended(running(dsh, "git init two"))

    assert {"one", "two"} <= {path.name for path in dsh.work.iterdir()}
    assert "Bash(git init:*)" in (dsh.work / ".dsh/permissions.local.yaml").read_text()


def test_other_text_is_a_no_that_the_model_reads(dsh: Shell) -> None:
    said = {"text": "Then not.", "expect": {"last_contains": "the user said no: use mkdir"}}
    child = running(dsh, "touch one", last=said)  # type: ignore[arg-type]
    answered(child, "use mkdir")

    assert "Then not." in ended(child)
    assert not (dsh.work / "one").exists()
