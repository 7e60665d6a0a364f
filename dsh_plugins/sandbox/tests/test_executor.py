"""The executor keeps the contract of the one it wraps, under each backend."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_core import Command, ToolError
from dsh_core.execution import CanBeReadOnly

SHELL = Path(__file__).resolve().parents[2] / "shell/tests"
HERE = Path(__file__).resolve().parent

STUBBORN = """bash -c 'trap "" INT TERM; touch started; exec sleep 300'"""


async def test_both_streams_and_the_exit_code_come_back(stage: Any) -> None:
    assert await stage.run("echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
async def test_a_signal_and_an_exit_code_above_128_are_told_apart(stage: Any, number: int) -> None:
    process = await stage.start(f"kill -{int(number)} $$")
    assert await process.wait() == -number
    assert await process.wait() == -number
    assert (await stage.run(f"exit {128 + number}"))[0] == 128 + number


async def test_it_gets_the_environment_given_a_mark_and_a_folder_for_temporary_files(
    stage: Any,
) -> None:
    _, out, _ = await stage.run("env -u PWD -u SHLVL -u _ env | cut -d= -f1 | sort", A="1")
    assert out.split() == ["A", "DSH_PROCESS_MARK", "PATH", "TMPDIR"]


async def test_what_leads_to_services_or_runs_code_is_left_out(stage: Any) -> None:
    names = ("SSH_AUTH_SOCK", "BASH_ENV", "LD_PRELOAD", "BASH_FUNC_ls%%", "XDG_RUNTIME_DIR")
    _, out, _ = await stage.run("env", **dict.fromkeys(names, "x"))
    assert not [name for name in names if f"{name}=" in out]


async def test_odd_arguments_arrive_as_they_are(stage: Any) -> None:
    words = ["", " ", "a\nb", "ü", "\udcff", "--", "-c", "$HOME", '"', "'"]
    argv = (sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *words)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    process = await stage.executor.start(Command(argv, stage.root, env))
    out = await process.stdout.read()
    assert out.decode().strip() == ascii(words)
    await process.wait()
    await process.survivors()


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (("no-such-program",), ".", "no-such-program: there is no such program on PATH"),
        (("/etc/passwd",), ".", "cannot start /etc/passwd: permission denied"),
        (("true",), "missing", "missing: no such file or directory"),
        (("true",), "file", "file: not a directory"),
        (("bash", "-c", "a\0b"), ".", "NUL character"),
        (("bash", "-c", "x" * 200_000), ".", "too long for the system"),
    ],
)
async def test_a_command_that_cannot_start_says_why(
    stage: Any, argv: tuple[str, ...], cwd: str, reason: str
) -> None:
    (stage.root / "file").touch()
    with pytest.raises(ToolError, match=reason) as caught:
        await stage.executor.start(Command(argv, stage.root / cwd, {"PATH": os.environ["PATH"]}))
    assert caught.value.code == "SPAWN_FAILED"
    assert [each.name for each in stage.root.iterdir()] == ["file"]


async def test_survivors_are_the_command_s_own_and_go_on(
    stage: Any, eventually: Callable[[Any], Any]
) -> None:
    process = await stage.start("(while :; do date +%N > beat; sleep 0.01; done) & exec sleep 0.1")
    assert await process.wait() == 0
    survivors = await process.survivors()
    assert {each.name for each in survivors} <= {"bash", "sleep", "date"}
    beat = stage.root / "beat"
    seen = beat.read_text()
    await eventually(lambda: beat.read_text() not in ("", seen))
    await process.stop(grace_seconds=0)
    assert stage.running == {}


async def test_a_command_may_end_well_when_it_is_told_to(stage: Any) -> None:
    command = "trap 'echo cleaned; exit 5' TERM; touch started; while :; do sleep 0.01; done"
    process = await stage.start(command)
    while not (stage.root / "started").exists():
        await asyncio.sleep(0.01)
    await process.stop(grace_seconds=20)
    assert await process.stdout.read() == b"cleaned\n"
    assert await process.wait() == 5


@pytest.mark.parametrize(
    "command",
    [STUBBORN, f"setsid {STUBBORN} & wait", f"set -m; {STUBBORN} & wait", f"({STUBBORN} &); cat"],
    ids=["trapped", "setsid", "job control", "daemon"],
)
async def test_what_ignores_the_wish_to_end_is_killed(
    stage: Any, eventually: Callable[[Any], Any], command: str
) -> None:
    process = await stage.start(command)
    await eventually((stage.root / "started").exists)
    await process.stop(grace_seconds=0.2)
    assert stage.running == {}


async def test_a_start_cancelled_at_once_leaves_nothing(stage: Any) -> None:
    for steps in range(12):
        starting = asyncio.create_task(stage.start("sleep 300"))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        try:
            process = await starting
        except asyncio.CancelledError:
            continue
        await process.stop(grace_seconds=0)
    await stage.local.close(grace_seconds=0)
    assert stage.running == {}
    assert list(stage.root.iterdir()) == []


async def test_the_death_of_the_harness_ends_everything(
    stage: Any, tmp_path: Path, eventually: Callable[[Any], Any]
) -> None:
    """By KILL, which nothing can catch: the guardian finds what runs in the sandbox."""
    backend = stage.executor._backend.name
    seconds = f"3{os.getpid()}"  # that nobody else sleeps
    program = f"""
import asyncio, os, sys
sys.path.insert(0, {str(HERE)!r})
from pathlib import Path
from confined import *
async def main():
    stage = SandboxExecutor(LocalExecutor(), backend_named({backend!r}),
        zone_of(Path({str(stage.root)!r}), Settings()), Workshop(), print)
    command = "setsid sleep {seconds} & trap '' TERM; touch started; sleep {seconds}"
    await stage.start(Command(("bash", "-c", command), Path({str(stage.root)!r}), dict(os.environ)))
    await asyncio.sleep(300)
asyncio.run(main())
"""
    harness = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    await eventually((stage.root / "started").exists)
    await eventually(lambda: len(sleeping(seconds)) == 2)
    harness.kill()
    harness.wait()
    await eventually(lambda: not sleeping(seconds))
    (tmp_path / "workspace/started").unlink()
    # What stood in for missing names is known by its mode, and goes with the next command.
    await stage.run("true")
    assert list(stage.root.iterdir()) == []


def sleeping(seconds: str) -> list[str]:
    """Who sleeps that long, anywhere on the machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(path.parts[2])
    return found


async def test_files_in_tmp_stay_until_the_harness_stops(stage: Any) -> None:
    await stage.run("echo kept > $TMPDIR/file")
    assert (await stage.run("cat $TMPDIR/file"))[1] == "kept\n"


async def test_it_can_be_made_read_only_whatever_the_settings(make_stage: Any) -> None:
    stage = make_stage(unix_sockets=True)
    assert isinstance(stage.executor, CanBeReadOnly)
    stage.executor = stage.executor.read_only()
    code, _, _ = await stage.run("echo text > file")
    assert code != 0
    assert list(stage.root.iterdir()) == []


async def test_commands_side_by_side_do_not_disturb_each_other(stage: Any) -> None:
    results = await asyncio.gather(*(stage.run(f"echo {n}; touch dsh.yaml") for n in range(6)))
    assert [out for _, out, _ in results] == [f"{n}\n" for n in range(6)]
    assert list(stage.root.iterdir()) == []


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_the_tests_of_the_shell_tools_pass_in_it(backend: str, tmp_path: Path) -> None:
    from conftest import problem_of

    if problem := problem_of(backend, "me"):
        pytest.skip(f"{backend} does not work here: {problem}")
    # The rest is about output, which neither touches, and bubblewrap is the one that stays between.
    files = ["test_ending.py", *(("test_tools.py", "test_jobs.py") * (backend == "bubblewrap"))]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *("-p", "through_sandbox", f"--basetemp={tmp_path / 'shell'}"),
            *(str(SHELL / name) for name in files),
        ],
        env={
            **os.environ,
            "DSH_TEST_BACKEND": backend,
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]).strip(":"),
        },
        cwd=SHELL.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
