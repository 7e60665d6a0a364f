"""`dsh chat` and `dsh init` as commands: what they need, and what they say where it is missing."""

from __future__ import annotations

import subprocess
import sys

from person import Person, scripted
from program import Shell


def test_without_a_terminal_it_says_what_to_use(dsh: Shell) -> None:
    scripted(dsh, "Never.")

    done = dsh("chat", "-c", "mine.yaml")

    assert done.returncode == 2
    assert 'there is no terminal to chat at\n  Use dsh run "…".' in done.stderr


def test_help_lists_its_options_and_those_of_plugins(dsh: Shell) -> None:
    shown = dsh("chat", "--help").stdout

    assert "--continue" in shown
    assert "--plan" in shown


def test_help_of_the_program_imports_nothing_that_draws() -> None:
    code = (
        "import sys; from dsh_core.cli.main import run; run(['--help']);"
        "print([m for m in ('prompt_toolkit', 'rich', 'dsh_terminal') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "chat         from dsh-terminal" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_imports_nothing_that_draws(dsh: Shell) -> None:
    scripted(dsh, "Plain.")
    dsh.env["PYTHONPROFILEIMPORTTIME"] = "1"

    done = dsh("run", "-c", "mine.yaml", "Speak plainly.")

    assert done.stdout == "Plain.\n"
    assert "dsh_terminal" in done.stderr
    assert "prompt_toolkit" not in done.stderr
    assert "rich.console" not in done.stderr


def test_the_first_start_says_what_is_missing(dsh: Shell) -> None:
    with Person(dsh, "chat") as person:
        person.sees("no model is configured", "DEEPSEEK_API_KEY")

        assert person.waits() == 2


def test_an_unknown_session_is_said_before_anything_is_drawn(dsh: Shell) -> None:
    scripted(dsh, "Never.")
    with Person(dsh, "chat", "-c", "mine.yaml", "--resume", "nowhere") as person:
        person.sees("nowhere")

        assert person.waits() == 2


def test_init_writes_a_file_that_is_right_and_trusted(dsh: Shell) -> None:
    done = dsh("init")

    assert done.returncode == 0, done.stderr
    assert "written: " in done.stdout
    dsh.env["DEEPSEEK_API_KEY"] = "k"
    checked = dsh("config", "check")
    assert checked.returncode == 0, checked.stderr
    assert "not trusted" not in checked.stderr + checked.stdout
    assert "deepseek/deepseek-chat" in dsh("config", "show").stdout


def test_init_overwrites_nothing(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "default_agent: mine\n")

    done = dsh("init")

    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert (dsh.work / "dsh.yaml").read_text() == "default_agent: mine\n"


def test_after_init_the_first_start_says_which_key_is_missing(dsh: Shell) -> None:
    dsh("init")
    with Person(dsh, "chat") as person:
        person.sees("DEEPSEEK_API_KEY")

        assert person.waits() == 2
