"""`dsh run` ends when it is done: in time, whole, and without leaving anything behind."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from distributions import distribution
from program import Shell
from terminal import Terminal
from test_cli_approval import ASKS

from dsh_core.testing import behaviours as model
from dsh_core.testing.model_server import ModelServer

OFFLINE = "providers:\n  offline: {adapter: scripted, replies: [Hello.], models: {m: {}}}\n"
HANGS_SECONDS = 120
"""Longer than any test may take, shorter than a machine's patience."""

HANGING = (
    "import asyncio, os, threading, time\n"
    "from dsh_core import hookimpl\n"
    "async def deaf():\n"
    f"    for _ in range({HANGS_SECONDS}):\n"
    "        try:\n"
    "            await asyncio.sleep(1)\n"
    "        except asyncio.CancelledError:\n"
    "            pass\n"
    "@hookimpl\n"
    "async def harness_start(harness):\n"
    "    global kept\n"
    "    kept = asyncio.create_task(deaf(), name='deaf')\n"
    f"    asyncio.get_running_loop().run_in_executor(None, time.sleep, {HANGS_SECONDS})\n"
    f"    threading.Thread(target=time.sleep, args=({HANGS_SECONDS},)).start()\n"
)
INTERRUPTED = "@hookimpl\nasync def agent_turn_start(turn):\n    os.kill(os.getpid(), 2)\n"
ENDS = {
    "completed": (["run", "-c", "offline.yaml", "Hi"], 0),
    "failed": (["run", "-c", "offline.yaml", "-s", "providers.offline.replies=[]", "Hi"], 1),
    "misconfigured": (["run", "-c", "offline.yaml", "--model", "nobody/m", "Hi"], 2),
    "interrupted": (["run", "-c", "offline.yaml", "Hi"], 130),
}


@pytest.fixture
def plugged(dsh: Shell) -> Shell:
    dsh.write("offline.yaml", OFFLINE)
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    return dsh


@pytest.mark.parametrize("end", ENDS)
def test_threads_and_tasks_that_hang_do_not_hold_up_the_exit(plugged: Shell, end: str) -> None:
    arguments, code = ENDS[end]
    body = HANGING + (INTERRUPTED if end == "interrupted" else "")
    distribution(plugged.work / "site", "hangs", {"hangs": "hangs"}, hangs=body)
    begun = time.monotonic()
    done = plugged(*arguments, timeout=HANGS_SECONDS)

    assert time.monotonic() - begun < HANGS_SECONDS / 2
    assert done.returncode == code
    assert done.stdout == ("Hello.\n" if code == 0 else "")
    assert "note: still running after their cancellation: deaf" in done.stderr


def test_a_question_that_nobody_answers_does_not_crash_the_exit(plugged: Shell) -> None:
    distribution(plugged.work / "site", "asks", {"asks": "asks"}, asks=ASKS)
    script = [model.reply(calls=[model.call("bash", {"command": "true"})])]
    with ModelServer.in_thread(script) as server:
        plugged.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        with Terminal(plugged, "run", "-s", "plugins.limits.max_seconds=8", "Go.") as terminal:
            terminal.read_until("[n]")
            code = terminal.wait()

    assert code == 1
    assert "stopped: " in terminal.shown
    assert "Fatal" not in terminal.shown


# -------------------------------------------------------------------------------------- hanging up

HANGS_UP = (
    "import os, signal\n"
    "from dsh_core import hookimpl\n"
    "@hookimpl\n"
    "async def agent_turn_start(turn):\n"
    "    os.kill(os.getpid(), signal.SIGHUP)\n"
)


def test_a_terminal_that_goes_ends_the_run_in_good_order(plugged: Shell) -> None:
    distribution(plugged.work / "site", "up", {"up": "up"}, up=HANGS_UP)
    done = plugged("run", "-c", "offline.yaml", "--json", "Hi")
    last = json.loads(done.stdout.splitlines()[-1])

    assert done.returncode == 129
    assert (last["type"], last["reason"]["type"]) == ("dsh/result", "aborted")


def test_nohup_is_respected(plugged: Shell) -> None:
    distribution(plugged.work / "site", "up", {"up": "up"}, up=HANGS_UP)
    done = plugged.script("trap '' HUP; dsh run -c offline.yaml Hi")

    assert (done.returncode, done.stdout) == (0, "Hello.\n")


def test_a_closed_window_is_an_end_as_well(plugged: Shell) -> None:
    with ModelServer.in_thread([model.stall("begun")]) as server:
        plugged.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        with Terminal(plugged, "run", "-p", "no:terminal", "Go.") as terminal:
            terminal.read_until("begun")
            terminal.hang_up()
            terminal.program.send_signal(signal.SIGHUP)

            assert terminal.program.wait(30) == 129


# --------------------------------------------------------------------------------- spilled output

HOLDS = (
    "import time\n"
    "from pathlib import Path\n"
    "from dsh_core import Tool, hookimpl\n"
    "@hookimpl\n"
    "def tools_register(harness):\n"
    "    return [Tool('talks', 'Talk.', lambda: 'x' * 200_000)]\n"
    "@hookimpl\n"
    "async def agent_step_end(agent):\n"
    "    Path('held').touch()\n"
    f"    time.sleep({HANGS_SECONDS})\n"
)


def spilled(dsh: Shell) -> list[Path]:
    return list((dsh.work / "tmp").iterdir())


@pytest.mark.parametrize("ending", ["second Ctrl-C", "SIGKILL"])
def test_spilled_output_does_not_outlive_the_run(plugged: Shell, ending: str) -> None:
    distribution(plugged.work / "site", "holds", {"holds": "holds"}, holds=HOLDS)
    (plugged.work / "tmp").mkdir()
    plugged.env["TMPDIR"] = str(plugged.work / "tmp")
    script = [model.reply(calls=[model.call("talks", {})])]
    with ModelServer.in_thread(script) as server:
        plugged.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        with plugged.start("run", "-p", "no:permission", "Go.") as run:
            deadline = time.monotonic() + 60
            while not (plugged.work / "held").exists():
                assert time.monotonic() < deadline
                assert run.poll() is None
                time.sleep(0.02)
            assert len(spilled(plugged)) == 1
            if ending == "SIGKILL":
                run.kill()
            while run.poll() is None:
                run.send_signal(signal.SIGINT)
                time.sleep(0.05)
            run.communicate()

    if ending == "SIGKILL":
        assert len(spilled(plugged)) == 1
        plugged("run", "-p", "no:holds", "-c", "offline.yaml", "Hi")
    assert spilled(plugged) == []
