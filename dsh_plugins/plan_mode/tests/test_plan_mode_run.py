"""`dsh run --plan` through the installed command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Shell

PLAN = "# Plan\n\n1. Write made.txt."
WRITE = {"calls": [{"name": "write", "arguments": {"file_path": "made.txt", "content": "x"}}]}
EXIT = {"calls": [{"name": "exit_plan_mode", "arguments": {"plan": PLAN}}]}
REFUSED = {"expect": {"last_contains": "plan mode: write made.txt would change something"}}
UNANSWERED = {"expect": {"last_contains": "the plan is the result"}}


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)


def scripted(dsh: Shell, *replies: object, **plugins: object) -> None:
    offline = {"adapter": "scripted", "replies": replies, "models": {"m": {}}}
    dsh.write("mine.yaml", json.dumps({"providers": {"offline": offline}, "plugins": plugins}))


@pytest.mark.parametrize("options", [[], ["--yes"]])
def test_the_plan_is_the_answer_and_nothing_was_written(dsh: Shell, options: list[str]) -> None:
    scripted(dsh, WRITE, {**EXIT, **REFUSED}, {"text": PLAN, **UNANSWERED})

    done = dsh("run", "-c", "mine.yaml", "--plan", *options, "Write it.")

    assert (done.returncode, done.stdout.strip()) == (0, PLAN), done.stderr
    assert not (dsh.work / "made.txt").exists()


def test_without_the_option_it_writes(dsh: Shell) -> None:
    scripted(dsh, WRITE, "Written.")

    done = dsh("run", "-c", "mine.yaml", "-p", "no:permission", "Write it.")

    assert done.stdout.strip() == "Written.", done.stderr
    assert (dsh.work / "made.txt").read_text() == "x"


def test_the_setting_begins_every_run_in_plan_mode(dsh: Shell) -> None:
    scripted(dsh, WRITE, {"text": "No.", **REFUSED}, plan_mode={"start": True})

    done = dsh("run", "-c", "mine.yaml", "Write it.")

    assert done.stdout.strip() == "No.", done.stderr
    assert not (dsh.work / "made.txt").exists()


def test_the_log_says_when_it_began(dsh: Shell) -> None:
    scripted(dsh, "Nothing to do.")

    done = dsh("run", "-c", "mine.yaml", "--plan", "--json", "Look.")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    data = [event["data"] for event in events if event.get("type") == "plan_mode/changed"]
    assert [(one["active"], one["by"]) for one in data] == [(True, "start")]


@pytest.mark.parametrize("value", ["false", "{start: false, read_only_tools: [write]}"])
def test_a_folder_that_is_not_trusted_cannot_loosen_it(dsh: Shell, value: str) -> None:
    scripted(dsh, WRITE, {"text": "No.", **REFUSED})
    user = dsh.home / "config" / "dsh-core"
    user.mkdir(parents=True)
    (dsh.work / "mine.yaml").rename(user / "config.yaml")
    dsh.write("dsh.yaml", f"plugins:\n  plan_mode: {value}\n")

    done = dsh("run", "--plan", "Write it.")

    assert done.stdout.strip() == "No.", done.stderr
    assert "ignored" in done.stderr
    assert not (dsh.work / "made.txt").exists()
