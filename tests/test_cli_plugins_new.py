"""`dsh plugins new` writes a plugin that works: its own tests pass and an agent uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from distributions import distribution
from program import Shell

from dsh_core.cli.new_plugin import check_name, new_plugin, renamed
from dsh_core.errors import UserError


def suite(folder: Path) -> str:
    """Run a plugin's own tests from its folder, and return what pytest printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout + done.stderr


def all_text(folder: Path) -> str:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(f"{path.relative_to(folder)}\n{path.read_text()}" for path in files)


@pytest.mark.parametrize("name", ["word_count", "x2"])
def test_a_new_plugin_passes_its_own_tests(dsh: Shell, name: str) -> None:
    done = dsh("plugins", "new", name, "--into", "made")

    folder = dsh.work / "made" / f"dsh-{name.replace('_', '-')}"
    assert done.returncode == 0, done.stderr
    assert "hello" not in all_text(folder).lower()
    assert "12 passed" in suite(folder)


def test_the_word_is_the_same_in_its_four_places(tmp_path: Path) -> None:
    folder = new_plugin("word_count", tmp_path)

    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert folder == tmp_path / "dsh-word-count"
    assert project["project"]["name"] == "dsh-word-count"
    assert project["project"]["entry-points"]["dsh"] == {"word_count": "dsh_word_count:WordCount"}
    assert (folder / "dsh_word_count" / "py.typed").exists()


def test_an_agent_uses_an_installed_new_plugin(dsh: Shell) -> None:
    folder = new_plugin("word_count", dsh.work)
    distribution(folder, "dsh-word-count", {"word_count": "dsh_word_count:WordCount"})
    dsh.env["PYTHONPATH"] = str(folder)
    replies = [
        {"calls": [{"name": "word_count", "arguments": {"name": "Ada"}}]},
        {"text": "Greeted.", "expect": {"last_contains": "Ahoy, Ada!"}},
    ]
    offline = {"adapter": "scripted", "replies": replies, "models": {"m": {}}}
    config = {"providers": {"offline": offline}, "plugins": {"word_count": {"greeting": "Ahoy"}}}
    dsh.write("mine.yaml", json.dumps(config))

    listed = json.loads(dsh("plugins", "-c", "mine.yaml", "--json").stdout)
    done = dsh("run", "-c", "mine.yaml", "Greet Ada.")

    assert [row["state"] for row in listed if row["name"] == "word_count"] == ["on"]
    assert done.stdout.strip() == "Greeted.", done.stderr


def test_it_says_the_next_three_commands(dsh: Shell) -> None:
    said = dsh("plugins", "new", "mine", "--into", "a b").stdout.splitlines()

    assert [line.split()[0] for line in said[1:]] == ["cd", "python", "python"]
    assert subprocess.run(["bash", "-c", said[1]], cwd="/").returncode == 0


@pytest.mark.parametrize(
    "name",
    ["Word", "word-count", "_x", "x_", "x__y", "2x", "", "a b", "../x", "import", "ä", "x\n"],
)
def test_what_cannot_be_a_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a plugin's name"):
        new_plugin(name, tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["files", "retry"])
def test_the_name_of_another_plugin_is_refused(dsh: Shell, name: str) -> None:
    done = dsh("plugins", "new", name)

    assert (done.returncode, "already" in done.stderr) == (2, True)
    assert list(dsh.work.iterdir()) == []


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "dsh-mine" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")

    with pytest.raises(UserError, match="is not empty"):
        new_plugin("mine", tmp_path)

    assert [path.name for path in tmp_path.rglob("*")] == ["dsh-mine", "mine.txt"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "dsh-mine").mkdir()

    assert (new_plugin("mine", tmp_path) / "pyproject.toml").exists()


def test_a_place_that_is_a_file_is_one_clear_message(dsh: Shell) -> None:
    dsh.write("taken", "")

    done = dsh("plugins", "new", "mine", "--into", "taken")

    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_form_of_the_word_is_replaced() -> None:
    template = "dsh-hello dsh_hello Hello HELLO_X hello"

    assert renamed(template, "a_b") == "dsh-a-b dsh_a_b AB A_B_X a_b"


def test_a_taken_name_is_said() -> None:
    with pytest.raises(UserError, match="there is a plugin 'mine' already"):
        check_name("mine", frozenset({"mine"}))
