"""`dsh sessions` as a user types it."""

from __future__ import annotations

import json

import pytest
from program import Shell

from dsh_core import Event

CONFIG = """
providers:
  script:
    adapter: scripted
    models: {m: {}}
    replies:
      - {text: "I look.", calls: [{name: bash, arguments: {command: "echo made > made.txt"}}]}
      - {text: "It is done."}
"""


@pytest.fixture
def backend():
    return "jsonl"


@pytest.fixture
def dsh(tmp_path, backend):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    shell = Shell(work, home)
    shell.write("config.yaml", CONFIG + f"plugins: {{persistence: {{backend: {backend}}}}}\n")
    return shell


def run(dsh, *arguments):
    return dsh(*arguments, "-c", str(dsh.work / "config.yaml"))


def sessions(dsh, *arguments, code=0):
    done = run(dsh, "sessions", *arguments)
    assert done.returncode == code, done.stderr
    return done


def made(dsh, prompt="Make it."):
    assert run(dsh, "run", prompt).returncode == 0
    return json.loads(sessions(dsh, "list", "--json").stdout)["sessions"][0]["id"]


@pytest.mark.parametrize("backend", ["jsonl", "sql"])
def test_a_list_a_look_a_fork_and_an_end(dsh):
    assert "no sessions are stored" in sessions(dsh, "list").stderr
    one = made(dsh)

    table = sessions(dsh, "list").stdout.splitlines()
    assert table[0].split() == ["SESSION", "AGE", "TURNS", "TOKENS", "FOLDER", "TITLE"]
    assert table[1].startswith(one)
    assert table[1].endswith("Make it.")
    (row,) = json.loads(sessions(dsh, "list", "--here", "--json").stdout)["sessions"]
    assert (row["turns"], row["cwd"], row["title"]) == (1, str(dsh.work), "Make it.")
    assert row["tokens"] > 0

    told = sessions(dsh, "show", one).stdout
    assert "**bash**" in told
    assert "It is done." in told
    header, *events = map(json.loads, sessions(dsh, "show", one, "--json").stdout.splitlines())
    assert header["id"] == one
    assert [Event.from_json(event).seq for event in events] == list(range(len(events)))

    fork = json.loads(sessions(dsh, "fork", one, "--at-turn", "1", "--json").stdout)
    assert (fork["parent"], fork["events"]) == (one, len(events))
    assert sessions(dsh, "fork", one, "--id", "my-fork").stdout == "my-fork\n"
    assert run(dsh, "run", "--resume", "my-fork", "Again.").returncode == 0
    after = sessions(dsh, "show", one, "--json").stdout
    assert after == sessions(dsh, "export", one, "--json").stdout
    assert len(after.splitlines()) == len(events) + 1

    removed = json.loads(sessions(dsh, "rm", one, fork["id"], "--json").stdout)
    assert removed == {"removed": [one, fork["id"]]}
    assert "there is no session" in sessions(dsh, "show", one, code=2).stderr
    left = json.loads(sessions(dsh, "list", "--json").stdout)["sessions"]
    assert [each["id"] for each in left] == ["my-fork"]


def test_a_list_goes_on_where_it_ended(dsh):
    ids = [made(dsh, f"Number {number}.") for number in range(3)]
    first = json.loads(sessions(dsh, "list", "--limit", "2", "--json").stdout)
    rest = json.loads(
        sessions(dsh, "list", "--limit", "2", "--cursor", first["cursor"], "--json").stdout
    )

    assert [row["id"] for row in (*first["sessions"], *rest["sessions"])] == ids[::-1]
    assert rest["cursor"] is None
    assert first["cursor"] in sessions(dsh, "list", "--limit", "2").stderr


def test_mistakes_are_named(dsh):
    one = made(dsh)
    assert "no completed turn 7" in sessions(dsh, "fork", one, "--at-turn", "7", code=2).stderr
    assert "cannot be a session id" in sessions(dsh, "fork", one, "--id", "a b", code=2).stderr
    assert "is stored as" in sessions(dsh, "fork", one, "--id", one, code=2).stderr
    assert "one of the arguments" in sessions(dsh, "export", one, code=2).stderr
    assert "there is no session" in sessions(dsh, "repair", "nobody", code=2).stderr
    assert "there is no session" in sessions(dsh, "rm", "nobody", code=2).stderr
    assert "nothing is wrong" in sessions(dsh, "repair", one).stderr
    assert "VERB" in sessions(dsh, code=2).stderr


def test_the_end_of_a_long_session_can_be_looked_at(dsh):
    one = made(dsh)
    assert run(dsh, "run", "--continue", "The second.").returncode == 0
    told = sessions(dsh, "show", one, "--last", "1").stdout

    assert "The second." in told
    assert "Turn 1" not in told
    assert "(1 earlier turns are left out.)" in told


def test_control_characters_of_a_title_move_no_cursor(dsh):
    made(dsh, "Clear \x1b[2J the screen.")

    assert "\x1b" not in sessions(dsh, "list").stdout
    assert "\\x1b[2J" in sessions(dsh, "list").stdout


def test_a_document_is_written_where_one_wants_it(dsh):
    one = made(dsh)
    for form, begins in (("markdown", "# Make it."), ("html", "<!doctype html>"), ("json", "{")):
        printed = sessions(dsh, "export", one, f"--{form}").stdout
        sessions(dsh, "export", one, f"--{form}", "-o", "out")
        assert printed.startswith(begins)
        assert (dsh.work / "out").read_text() == printed
    no = sessions(dsh, "export", one, "--html", "-o", "no/where", code=2)
    assert "no/where: it cannot be written" in no.stderr


def test_without_a_store_there_is_nothing_to_list(dsh):
    done = run(dsh, "-p", "no:persistence", "sessions", "list")

    assert done.returncode == 2
    assert "nothing stores sessions here" in done.stderr
