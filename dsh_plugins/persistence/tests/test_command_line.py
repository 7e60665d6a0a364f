"""`dsh run` going on with stored sessions, as a user does."""

from __future__ import annotations

import json

import pytest
from program import Shell

CONFIG = """
providers:
  script:
    adapter: scripted
    models: {m: {}}
    replies:
      - {text: "Noted."}
"""


@pytest.fixture
def dsh(tmp_path):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    shell = Shell(work, home)
    shell.write("config.yaml", CONFIG)
    return shell


def run(dsh, *arguments):
    done = dsh("run", "-c", str(dsh.work / "config.yaml"), "--json", *arguments)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def said(lines):
    return [
        block["text"]
        for line in lines
        if line["type"] == "user/message"
        for block in line["data"]["content"]
    ]


def test_continue_goes_on_with_the_last_session_of_the_folder(dsh):
    _, first = run(dsh, "Remember PINEAPPLE.")
    done, second = run(dsh, "--continue", "Which word?")

    assert done.returncode == 0, done.stderr
    assert said(second) == ["Remember PINEAPPLE.", "Which word?"]
    assert second[0]["session"] == first[0]["session"]
    assert len(list(dsh.home.rglob("*.jsonl"))) == 1


def test_resume_takes_the_session_it_is_told(dsh):
    _, first = run(dsh, "The first.")
    run(dsh, "The second.")
    done, lines = run(dsh, "--resume", first[0]["session"]["id"], "Go on.")

    assert done.returncode == 0, done.stderr
    assert said(lines) == ["The first.", "Go on."]


def test_continue_knows_its_folder(dsh, tmp_path):
    run(dsh, "Here.")
    dsh.work = tmp_path / "elsewhere"
    dsh.work.mkdir()
    dsh.write("config.yaml", CONFIG)
    done, lines = run(dsh, "--continue", "There?")

    assert done.returncode == 2
    assert "there is no stored session of" in lines[0]["message"]


def test_a_session_that_is_not_there_is_named(dsh):
    done, _ = run(dsh, "--resume", "nobody", "Go on.")

    assert done.returncode == 2
    assert "there is no session 'nobody'" in done.stderr


def test_without_a_store_there_is_nothing_to_go_on_with(dsh):
    for option in (["--continue"], ["--resume", "x"]):
        done, _ = run(dsh, "-p", "no:persistence", *option, "Go on.")

        assert done.returncode == 2
        assert "nothing stores sessions here" in done.stderr
        assert "pip install dsh-persistence" in done.stderr


def test_resume_and_continue_exclude_each_other(dsh):
    done, _ = run(dsh, "--continue", "--resume", "x", "Go on.")

    assert done.returncode == 2
    assert "not allowed with" in done.stderr


def test_another_model_can_go_on(dsh):
    run(dsh, "Hello.")
    config = CONFIG + "  other:\n    adapter: scripted\n    models: {n: {}}\n    replies: [Mine.]\n"
    dsh.write("config.yaml", config)
    done, lines = run(dsh, "--continue", "--model", "other/n", "Who are you?")

    assert done.returncode == 0, done.stderr
    assert lines[-1]["text"] == "Mine."


def test_an_agent_that_is_gone_is_named(dsh):
    agents = CONFIG + "agents: {coder: {}}\n"
    dsh.write("config.yaml", agents)
    run(dsh, "Hello.")
    dsh.write("config.yaml", agents.replace("coder", "writer"))
    done, _ = run(dsh, "--continue", "Go on.")
    assert done.returncode == 2
    assert "there is no agent 'coder'" in done.stderr

    done, lines = run(dsh, "-a", "writer", "--continue", "Go on.")
    assert done.returncode == 0, done.stderr
    assert said(lines) == ["Hello.", "Go on."]
