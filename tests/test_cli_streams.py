"""The standard streams of `dsh`: closed, full, left by their reader, or shown hostile text."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator

import pytest
from distributions import distribution
from program import Shell
from terminal import Terminal

from dsh_core.testing import behaviours as model
from dsh_core.testing.model_server import ModelServer

OFFLINE = "providers:\n  offline: {adapter: scripted, replies: [Hello.], models: {m: {}}}\n"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J\x7f\u202e"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

COMMANDS = {
    "version": ["--version"],
    "help": ["--help"],
    "help of a command": ["plugins", "--help"],
    "help of run": ["run", "--help"],
    "plugins": ["plugins"],
    "hooks": ["hooks"],
    "config show": ["config", "show"],
    "config schema": ["config", "schema"],
    "config check": ["config", "check"],
    "run": ["run", "-c", "offline.yaml", "Hi"],
    "run --json": ["run", "-c", "offline.yaml", "--json", "Hi"],
}


@pytest.fixture
def offline(dsh: Shell) -> Shell:
    dsh.write("offline.yaml", OFFLINE)
    return dsh


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_output_that_is_lost_is_one_line_and_a_failure(
    offline: Shell, arguments: list[str]
) -> None:
    done = offline.script('dsh "$@" > /dev/full', *arguments)

    assert done.returncode == 1
    assert done.stderr.count("dsh: the output could not be written: No space") == 1
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_failure_to_tell_changes_nothing_else(offline: Shell) -> None:
    done = offline.script('dsh "$@" 2> /dev/full', *COMMANDS["run"])

    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert offline.script("dsh rnu 2> /dev/full").returncode == 2


@pytest.mark.parametrize("command", ["plugins", "config schema", "hooks", "help", "run --json"])
def test_a_reader_that_has_enough_is_no_error(offline: Shell, command: str) -> None:
    done = offline.script('dsh "$@" | true', *COMMANDS[command])

    assert done.stderr.count("\n") == done.stderr.count("note: ")
    both = offline.script('dsh "$@" 2>&1 | true', *COMMANDS[command])
    assert both.stderr == ""


def test_a_closed_output_is_a_failure_and_nothing_else_is_written_there(offline: Shell) -> None:
    done = offline.script('dsh "$@" >&-', *COMMANDS["run"])

    assert done.returncode == 1
    assert "could not be written" in done.stderr
    assert offline.script("dsh --version >&-").returncode == 1


def test_notes_do_not_go_where_the_answer_goes(offline: Shell) -> None:
    done = offline.script('dsh "$@" 2>&-', *COMMANDS["run"])

    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert offline.script("dsh rnu 2>&-").stdout == ""


def test_a_closed_input_holds_no_prompt(offline: Shell) -> None:
    closed = offline.script("dsh run <&-")
    asked = offline.script('dsh "$@" <&-', *COMMANDS["run"])
    none = offline.script('dsh "$@" <&- >&- 2>&-', *COMMANDS["run"])
    unreadable = offline.script("dsh run 0> written")

    assert closed.returncode == 2
    assert "there is no prompt" in closed.stderr
    assert (asked.returncode, asked.stdout) == (0, "Hello.\n")
    assert none.returncode == 1
    assert unreadable.returncode == 2
    assert "standard input cannot be read" in unreadable.stderr
    assert "Traceback" not in closed.stderr + unreadable.stderr


def test_a_deleted_working_directory_is_named(offline: Shell) -> None:
    gone = 'mkdir gone; cd gone; rmdir ../gone; dsh "$@"'

    for arguments in (["plugins"], ["run", "Hi"], ["config", "check"]):
        done = offline.script(gone, *arguments)
        assert done.returncode == 2
        assert "the working directory cannot be used" in done.stderr
        assert done.stderr.count("\n") <= 2
    assert offline.script(gone, "--version").returncode == 0
    assert offline.script(gone, "--help").returncode == 0


def test_a_command_of_a_plugin_gets_the_same_care(dsh: Shell) -> None:
    site = dsh.work / "site"
    info = distribution(site, "loud", {}, loud="def shout(argv, context):\n    print('x' * 99)\n")
    (info / "entry_points.txt").write_text("[dsh.commands]\nshout = loud:shout\n")
    dsh.env["PYTHONPATH"] = str(site)
    done = dsh.script("dsh shout > /dev/full")

    assert done.returncode == 1
    assert done.stderr == "dsh: the output could not be written: No space left on device\n"


# ---------------------------------------------------------------------------------- hostile text


@pytest.fixture
def hostile(dsh: Shell) -> Iterator[Shell]:
    """A model, a tool and a provider that send escape sequences, and a plugin that logs them."""
    site = dsh.work / "site"
    body = (
        "import logging\n"
        "from dsh_core import hookimpl\n"
        f"HOSTILE = {HOSTILE!r} + 'X' * 5000\n"
        "@hookimpl\n"
        "async def agent_turn_start(turn):\n"
        "    logging.getLogger('dsh').error('said %s\\n2026 9 ERROR forged', HOSTILE)\n"
        "    logging.getLogger('somebody').error('said %s', HOSTILE)\n"
        "@hookimpl\n"
        "async def agent_turn_end(agent, turn, reason):\n"
        "    raise ValueError(HOSTILE)\n"
    )
    distribution(site, "hostile", {"hostile": "hostile"}, hostile=body)
    dsh.env["PYTHONPATH"] = str(site)
    command = {"command": f"printf '{HOSTILE}'", HOSTILE: HOSTILE}
    script = [
        model.reply(f"I say {HOSTILE}", calls=[model.call("bash", command)]),
        model.reply(calls=[model.call(HOSTILE + "n" * 9_000, {})]),
        model.invalid_request(HOSTILE + "m" * 9_000),
    ]
    with ModelServer.in_thread(script, default=model.reply(HOSTILE)) as server:
        dsh.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        yield dsh


def test_no_hostile_text_reaches_a_terminal_or_the_log(hostile: Shell) -> None:
    plain = ("-p", "no:permission", "-p", "no:terminal")
    with Terminal(hostile, "run", *plain, "Go.") as terminal:
        assert terminal.wait() == 1
        shown = terminal.shown
    log = "".join(path.read_text() for path in hostile.home.rglob("*.log"))

    assert "\\x1b]0;owned" in shown
    assert RAW.search(shown) is None
    assert "n" * 100 not in shown
    assert "m" * 2_000 not in shown
    assert "\\x1b]0;owned" in log
    assert RAW.search(log) is None
    assert all(line.startswith(("20", "    ")) for line in log.splitlines())


def test_what_commands_list_is_escaped_and_stays_json(dsh: Shell) -> None:
    prompt = json.dumps(HOSTILE + "Ü")
    dsh.write("c.yaml", f"agents: {{a: {{system_prompt: {prompt}}}}}\n")
    shown = dsh("config", "show", "-c", "c.yaml", "--json")

    assert RAW.search(shown.stdout) is None
    assert json.loads(shown.stdout)["agents"]["a"]["system_prompt"] == HOSTILE + "Ü"
    info = distribution(dsh.work / "site", "bad", {"bad": "bad"}, bad="")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: bad\nVersion: 1{HOSTILE[:9]}\n")
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    assert RAW.search(dsh("plugins").stdout) is None


def test_the_log_is_its_owners(dsh: Shell) -> None:
    site = dsh.work / "site"
    raises = "from dsh_core import hookimpl\n@hookimpl\ndef session_created(session):\n    1 / 0\n"
    distribution(site, "bad", {"bad": "bad"}, bad=raises)
    dsh.write("offline.yaml", OFFLINE)
    folder = dsh.home / "state" / "dsh-core" / "log"
    folder.mkdir(parents=True, mode=0o755)
    dsh.env["PYTHONPATH"] = str(site)
    dsh("run", "-c", "offline.yaml", "Hi")
    (folder / "dsh.log").chmod(0o644)
    dsh("run", "-c", "offline.yaml", "Hi")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "dsh.log").stat().st_mode) == 0o600

    named = dsh.work / "shared" / "own.log"
    named.parent.mkdir(mode=0o755)
    dsh.env["DSH_LOG"] = str(named)
    dsh("run", "-c", "offline.yaml", "Hi")
    assert stat.S_IMODE(named.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(named.stat().st_mode) == 0o600

    null = os.stat("/dev/null").st_mode
    dsh.env["DSH_LOG"] = "/dev/null"
    assert dsh("run", "-c", "offline.yaml", "Hi").returncode == 0
    assert os.stat("/dev/null").st_mode == null
