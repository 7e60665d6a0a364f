"""`dsh plugins enable` and `disable` change a line of YAML and nothing else."""

from __future__ import annotations

import json

import pytest
from program import Shell

from dsh_core.cli.plugins_switch import switched
from dsh_core.config.yaml import read_document

FILE = """\
# How we work.
default_agent: "coder"   # the careful one

agents:
  coder:
    system_prompt: |
      Be careful.

      Run the tests.
    tools: [read, bash]  # no more

plugins:
  # Policy comes first.
  permission:
    allow:
      - "Bash(npm run test:*)"   # fast
      - 'Edit(src/**)'
  shell: {timeout_seconds: 60}   # slow machine
  files: false
"""


def changed(before: str, after: str) -> list[str]:
    """The lines that are only in one of both, in order."""
    old, new = before.splitlines(), after.splitlines()
    return [f"-{line}" for line in old if line not in new] + [
        f"+{line}" for line in new if line not in old
    ]


def test_one_line_changes_and_comments_stay() -> None:
    off = switched(FILE, "persistence", on=False)
    on = switched(FILE, "files", on=True)

    assert changed(FILE, off) == ["+  persistence: false"]
    assert changed(FILE, on) == ["-  files: false", "+  files: true"]


def test_settings_come_back_when_it_is_switched_on_again() -> None:
    off = switched(FILE, "shell", on=False)
    again = switched(off, "shell", on=True)

    assert changed(FILE, off)[0].startswith("-  shell")
    assert 'shell: false  # was: {"timeout_seconds": 60}' in off.replace("   #", "  #")
    read = read_document(again.encode(), "again").data
    assert read["plugins"]["shell"] == {"timeout_seconds": 60}
    assert read == read_document(FILE.encode(), "file").data


@pytest.mark.parametrize("text", ["", "# Nothing yet.\n", "default_agent: a\n"])
def test_a_file_that_says_nothing_of_plugins_gets_them(text: str) -> None:
    off = switched(text, "shell", on=False)

    assert off.startswith(text)
    assert read_document(off.encode(), "off").data["plugins"] == {"shell": False}


@pytest.mark.parametrize(("name", "on"), [("files", False), ("shell", True), ("other", True)])
def test_what_is_so_already_is_left_alone(name: str, on: bool) -> None:
    assert switched(FILE, name, on=on) == FILE


def test_where_nothing_is_on_by_itself_a_plugin_is_named() -> None:
    on = switched("autoload: false\n", "shell", on=True)

    assert read_document(on.encode(), "on").data["plugins"] == {"shell": True}
    assert switched("autoload: false\n", "shell", on=False) == "autoload: false\n"


def states(dsh: Shell, *options: str) -> dict[str, str]:
    rows = json.loads(dsh("plugins", *options, "--json").stdout)
    return {row["name"]: row["state"] for row in rows}


def test_a_plugin_is_off_and_on_again(dsh: Shell) -> None:
    done = dsh("plugins", "disable", "shell")
    off = states(dsh)
    dsh("plugins", "enable", "shell")

    assert (done.returncode, "shell is off" in done.stdout) == (0, True), done.stderr
    assert (off["shell"], off["files"]) == ("off", "on")
    assert states(dsh)["shell"] == "on"


def test_a_file_that_was_trusted_stays_trusted_and_another_is_not(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "plugins:\n  files: false\n")

    first = dsh("plugins", "disable", "shell")
    ignored = states(dsh)
    dsh("trust", "--yes")
    dsh("plugins", "enable", "files")

    assert "is not trusted" in first.stderr
    assert ignored["shell"] == "on"
    assert (states(dsh)["shell"], states(dsh)["files"]) == ("off", "on")


def test_the_users_own_file_and_a_named_one_are_written_where_asked(dsh: Shell) -> None:
    dsh.write("mine.yaml", "autoload: true\n")

    dsh("plugins", "disable", "shell", "--user")
    dsh("plugins", "disable", "files", "-c", "mine.yaml")

    assert not (dsh.work / "dsh.yaml").exists()
    assert states(dsh)["shell"] == "off"
    assert states(dsh, "-c", "mine.yaml")["files"] == "off"
    assert states(dsh)["files"] == "on"


def test_an_unknown_plugin_changes_nothing(dsh: Shell) -> None:
    done = dsh("plugins", "disable", "shel")

    assert (done.returncode, "there is no plugin 'shel'" in done.stderr) == (2, True)
    assert list(dsh.work.iterdir()) == []


def test_a_file_that_is_no_yaml_is_left_alone(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "plugins: {\n")

    done = dsh("plugins", "disable", "shell")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert (dsh.work / "dsh.yaml").read_text() == "plugins: {\n"
