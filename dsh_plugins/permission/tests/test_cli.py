"""`dsh permission check` and `replay`, through the installed command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from program import Shell

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)


def checked(dsh: Shell, *lines: Any, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    done = dsh(*options, "permission", "check", stdin=text.encode())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "arguments": {"command": command}, **more}


def test_each_line_gets_its_decision_its_effects_and_its_reasons(dsh: Shell) -> None:
    rules = {"allow": ["Bash(git:*)"], "deny": ["Bash(git push:*)"]}
    allowed, denied, asked = checked(
        dsh,
        bash("git log", id=1, rules=rules),
        bash("git -C x push", id="two", rules=rules),
        bash("ls; npm test\u2028", rules=rules),
    )

    assert (allowed["id"], allowed["decision"], allowed["effects"]) == (1, "allow", [])
    assert (denied["id"], denied["decision"]) == ("two", "deny")
    assert ("Bash(git push:*)", "the input") in [(r["rule"], r["file"]) for r in denied["reasons"]]
    assert denied["effects"][0]["kind"] == "run"
    assert asked["decision"] == "ask"
    assert asked["message"].startswith("no permission rule allows this. part:")


def test_nobody_to_ask_makes_a_denial(dsh: Shell) -> None:
    (answer,) = checked(dsh, bash("npm test", interactive=False))

    assert answer["decision"] == "deny"
    wanted = 'denied: no permission rule allows this and no user is attached. part: "npm test"'
    assert answer["message"].startswith(wanted)


def test_without_rules_in_the_line_the_configuration_holds(dsh: Shell) -> None:
    text = "plugins:\n  permission:\n    deny:\n    - Bash(ls:*)\n    allow: [Bash(make:*)]\n"
    dsh.write("mine.yaml", text)
    denied, allowed = checked(dsh, bash("ls"), bash("make x"), options=("-c", "mine.yaml"))

    reason = denied["reasons"][0]
    assert reason["rule"] == "Bash(ls:*)"
    assert reason["file"].endswith("mine.yaml:4")
    assert allowed["decision"] == "allow"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "property name"),
        ("[]", "one JSON object"),
        (bash("ls", mode="yolo"), "there is no mode 'yolo'"),
        (bash("ls", rules=[]), "`rules` must be an object"),
        ({"tool": "bash", "arguments": "ls"}, "`arguments` must be an object"),
        (bash("ls", workspace=1), "`workspace` must be a text"),
    ],
)
def test_a_line_that_cannot_be_judged_is_denied_with_the_reason(
    dsh: Shell, line: Any, error: str
) -> None:
    answers = checked(dsh, line, bash("ls"))

    assert answers[0]["decision"] == "deny"
    assert error in answers[0]["error"]
    assert answers[1]["decision"] == "allow", "the next line is judged"


def test_a_rule_that_cannot_be_used_never_loosens(dsh: Shell) -> None:
    (answer,) = checked(dsh, bash("ls", rules={"deny": ["Bash(a && b)"]}))

    assert answer["decision"] == "ask"
    assert "can never match" in answer["message"]


def test_replay_shows_what_other_rules_would_have_decided(dsh: Shell) -> None:
    calls = [{"calls": [{"name": "bash", "arguments": {"command": c}}]} for c in ("ls", "touch x")]
    model = {"adapter": "scripted", "replies": [*calls, "Done."], "models": {"m": {}}}
    dsh.write("mine.yaml", json.dumps({"providers": {"offline": model}}))
    run = dsh("run", "-c", "mine.yaml", "--json", "Go.")
    dsh.write("session.jsonl", run.stdout)
    dsh.write("rules.yaml", "deny: [Bash(ls:*)]\nallow: [Bash(touch:*)]\n")

    done = dsh("permission", "replay", "session.jsonl", "--rules", "rules.yaml")
    first, second, summary = (json.loads(line) for line in done.stdout.splitlines())

    assert (first["recorded"], first["decision"]) == ("allow", "deny")
    assert (second["recorded"], second["decision"]) == ("deny", "allow")
    assert summary == {"summary": {"calls": 2, "decided_otherwise": 2}}


def test_replay_says_what_it_cannot_read(dsh: Shell) -> None:
    dsh.write("rules.yaml", "alow: []\n")
    wrong = dsh("permission", "replay", "none", "--rules", "rules.yaml")

    assert wrong.returncode == 2
    assert "rules.yaml" in wrong.stderr
    assert "allow, ask, deny" in wrong.stderr


def test_the_example_in_the_readme_is_true(dsh: Shell) -> None:
    line, start = re.findall(r"^\$ echo '(.*)' \| dsh permission check\n(.*) …$", README, re.M)[0]
    done = dsh("permission", "check", stdin=line.encode())

    assert done.stdout.startswith(start)


def test_a_rule_on_the_command_line_allows(dsh: Shell) -> None:
    call = {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]}
    model = {"adapter": "scripted", "replies": [call, "Done."], "models": {"m": {}}}
    dsh.write("mine.yaml", json.dumps({"providers": {"offline": model}}))

    dsh("run", "-c", "mine.yaml", "Go.")
    assert not (dsh.work / "made").exists()
    dsh("run", "-c", "mine.yaml", "--allow", "Bash(touch made)", "Go.")
    assert (dsh.work / "made").exists()
    wrong = dsh("run", "-c", "mine.yaml", "--allow", "Bash(a && b)", "Go.")
    assert (wrong.returncode, "--allow" in wrong.stderr) == (2, True)
