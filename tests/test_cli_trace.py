"""`dsh trace` answers "which plugin did that?", from a stored session or from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from distributions import distribution
from program import Shell

PLUGIN = """
from dsh_core import ToolOutput, Verdict, hookimpl

@hookimpl
async def agent_request(request):
    request.system += "\\nBe polite."

@hookimpl
async def tools_execute(call):
    return ToolOutput.of("changed my mind")

@hookimpl
async def tools_authorize(call):
    return Verdict("allow")
"""
REPLIES = [{"calls": [{"name": "no_tool", "arguments": {}}]}, "Done."]


@pytest.fixture
def dsh(dsh: Shell) -> Shell:
    site = dsh.work / "site"
    distribution(site, "dsh-mind", {"mind": "dsh_mind"}, dsh_mind=PLUGIN)
    dsh.env["PYTHONPATH"] = str(site)
    provider = {"adapter": "scripted", "replies": REPLIES, "models": {"m": {}}}
    dsh.write("dsh.json", json.dumps({"providers": {"offline": provider}}))
    return dsh


def run(dsh: Shell, *options: str) -> str:
    done = dsh("run", "-c", "dsh.json", *options, "Hi")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_last_session_says_which_plugin_changed_what(dsh: Shell) -> None:
    run(dsh, "--trace")

    done = dsh("trace", "-c", "dsh.json", "--last")

    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert text.startswith("session ")
    step = text.partition("turn 1, step 1\n")[2].partition("turn 1, step 2")[0]
    lines = [line.strip() for line in step.splitlines()]
    assert any(line.startswith("mind") and "changed system" in line for line in lines)
    assert "system + Be polite." in lines


def test_a_file_of_json_lines_is_a_session_too(dsh: Shell) -> None:
    dsh.write("run.jsonl", run(dsh, "--trace", "--json"))

    entries = json.loads(dsh("trace", "run.jsonl", "--json").stdout)

    first = next(entry for entry in entries if entry["hook"] == "agent_request")
    mine = next(one for one in first["ran"] if one["plugin"] == "mind")
    assert (first["turn"], first["step"]) == (1, 1)
    assert mine["diff"] == {"system": ["+ Be polite."]}
    assert mine["seconds"] > 0


def test_a_stored_session_is_named_by_its_id(dsh: Shell) -> None:
    header = json.loads(run(dsh, "--trace", "--json").splitlines()[0])

    done = dsh("trace", "-c", "dsh.json", header["session"]["id"])

    assert "Be polite." in done.stdout


def test_verdicts_are_shown_with_who_gave_them(dsh: Shell) -> None:
    dsh.write("mine.txt", "x")
    script = [{"calls": [{"name": "read", "arguments": {"file_path": "mine.txt"}}]}, "Done."]
    provider = {"adapter": "scripted", "replies": script, "models": {"m": {}}}
    dsh.write("dsh.json", json.dumps({"providers": {"offline": provider}}))
    run(dsh, "--trace", "-p", "no:permission")

    text = dsh("trace", "-c", "dsh.json", "--last").stdout

    assert "tools_authorize  read: allow by mind" in text
    assert "content: changed my mind" in text


def test_nothing_is_recorded_when_nobody_asked(dsh: Shell) -> None:
    lines = run(dsh, "--json")
    dsh.write("run.jsonl", lines)

    done = dsh("trace", "run.jsonl")

    assert "plugin/trace" not in lines
    assert done.returncode == 2
    assert "dsh run --trace" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which session?"),
        (["x", "--last"], "which session?"),
        (["nobody"], "nobody"),
        (["broken.jsonl"], "broken.jsonl:2: is no JSON"),
        (["other.jsonl"], "other.jsonl:2: is no event of a session"),
        (["empty.jsonl"], "holds no session"),
    ],
)
def test_what_is_no_session_is_said(dsh: Shell, arguments: list[str], said: str) -> None:
    dsh.write("broken.jsonl", '{"type": "dsh/header"}\n{"type": \n{}\n')
    dsh.write("other.jsonl", '{"type": "dsh/header"}\n{"a": 1}\n')
    dsh.write("empty.jsonl", "")

    done = dsh("trace", *arguments)

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_line_that_a_crash_cut_off_is_passed_over(dsh: Shell) -> None:
    whole = run(dsh, "--trace", "--json")
    cut: Path = dsh.write("cut.jsonl", "\n".join(whole.splitlines()[:-3]) + '\n{"type": "ass')

    assert dsh("trace", cut.name).returncode == 0
