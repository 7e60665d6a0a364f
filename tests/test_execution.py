"""The local executor: real processes, and nothing of them left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_core.errors import ToolError
from dsh_core.execution import Command, Process, readable, system_bytes, system_text
from dsh_core.execution.family import MARK_VARIABLE, Family, group_lives
from dsh_core.execution.local import LocalExecutor

STUBBORN = """bash -c 'trap "" INT TERM; echo $$ > kid; exec sleep 300'"""
"""Ignores TERM, and leaves its process id in a file."""


@pytest.fixture
async def executor() -> AsyncIterator[LocalExecutor]:
    executor = LocalExecutor()
    yield executor
    await executor.close(grace_seconds=0)
    assert executor._leftovers.family.members() == {}


def shell(command: str, cwd: Path, **environment: str) -> Command:
    return Command(("bash", "-c", command), cwd, {"PATH": os.environ["PATH"], **environment})


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def pid_in(path: Path) -> int:
    return int(path.read_text().strip() or 0) if path.exists() else 0


async def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.01)


# ------------------------------------------------------------------------------------ running


async def test_both_streams_and_the_exit_code_come_back(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("echo out; echo err >&2; exit 3", tmp_path))
    assert await process.stdout.read() == b"out\n"
    assert await process.stderr.read() == b"err\n"
    assert await process.wait() == 3
    assert await process.wait() == 3


async def test_a_signal_that_kills_is_a_negative_exit_code(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("kill -KILL $$", tmp_path))
    assert await process.wait() == -signal.SIGKILL


async def test_it_gets_the_environment_given_and_a_mark_and_no_more(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    program = (sys.executable, "-c", "import os; print(sorted(os.environ))")
    process = await executor.start(Command(program, tmp_path, {"LC_ALL": "C.UTF-8", "A": "1"}))
    assert await process.stdout.read() == f"{['A', MARK_VARIABLE, 'LC_ALL']}\n".encode()


async def test_it_leads_a_session_without_input(executor: LocalExecutor, tmp_path: Path) -> None:
    process = await executor.start(shell("cat; ps -o sid=,pgid= -p $$", tmp_path))
    assert (await process.stdout.read()).split() == [str(process.pid).encode()] * 2


async def test_the_end_of_the_leader_does_not_wait_for_the_pipes(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("sleep 300 & exit 4", tmp_path))
    assert await process.wait() == 4
    assert not process.stdout.at_eof()


async def test_output_that_nobody_reads_waits_in_the_pipe(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("yes", tmp_path))
    assert len(await process.stdout.read(100)) == 100
    await eventually(lambda: not reads_more(process))
    assert len(process.stdout._buffer) < 2**20  # type: ignore[attr-defined]


def reads_more(process: Process) -> bool:
    transport: Any = process._streams._transport  # type: ignore[attr-defined]
    reading: bool = transport.get_pipe_transport(1).is_reading()
    return reading


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (("no-such-program",), ".", "no-such-program: there is no such program on PATH"),
        (("/etc/passwd",), ".", "cannot start /etc/passwd: permission denied"),
        (("true",), "missing", "missing: no such file or directory"),
        (("true",), "file", "file: not a directory"),
        (("bash", "-c", "a\0b"), ".", "NUL character"),
        (("bash", "-c", "x" * 200_000), ".", r"too long for the system \(200006 bytes\)"),
    ],
)
async def test_a_command_that_cannot_start_says_why(
    executor: LocalExecutor, tmp_path: Path, argv: tuple[str, ...], cwd: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolError, match=reason) as caught:
        await executor.start(Command(argv, tmp_path / cwd, {"PATH": os.environ["PATH"]}))
    assert caught.value.code == "SPAWN_FAILED"


# ------------------------------------------------------------------------------------- ending


async def test_a_command_that_obeys_term_ends_at_once(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("sleep 300 | sleep 300", tmp_path))
    started = time.monotonic()
    await process.stop(grace_seconds=60)
    assert time.monotonic() - started < 30
    assert await process.wait() == -signal.SIGTERM
    assert await process.stdout.read() == b""


async def test_a_shell_hears_of_its_end_before_its_children_die(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    for _ in range(20):
        command = "trap 'exit 7' TERM; echo up; sleep 300 & sleep 300 & wait; exit 8"
        process = await executor.start(shell(command, tmp_path))
        await process.stdout.readline()
        await process.stop(grace_seconds=30)
        assert await process.wait() == 7


async def test_one_that_ignores_term_is_killed_after_the_grace(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell(f"{STUBBORN} & wait", tmp_path))
    await eventually(lambda: pid_in(tmp_path / "kid"))
    started = time.monotonic()
    await process.stop(grace_seconds=0.3)
    assert 0.3 <= time.monotonic() - started < 30
    assert not is_running(pid_in(tmp_path / "kid"))


ESCAPES = {
    "group": f"{STUBBORN} & exit",
    "job control": f"set -m; {STUBBORN} & exit",
    "setsid": f"setsid {STUBBORN} & exit",
    "double fork": f"(setsid {STUBBORN} &) ; exit",
    "child without environment": f"setsid env -i PATH=$PATH {STUBBORN}; sleep 300",
}


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
async def test_the_end_reaches_processes_that_went_away(
    executor: LocalExecutor, tmp_path: Path, command: str
) -> None:
    process = await executor.start(shell(f"({command}) > /dev/null 2>&1", tmp_path))
    await eventually(lambda: pid_in(tmp_path / "kid"))
    await process.stop(grace_seconds=0.1)
    assert not is_running(pid_in(tmp_path / "kid"))


async def test_survivors_are_those_that_outlived_the_leader(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell("sleep 300 & setsid sleep 300 & exit", tmp_path))
    await process.wait()
    survivors = await process.survivors()
    assert len(survivors) == 2
    assert all(is_running(survivor.pid) and survivor.name for survivor in survivors)
    await process.stop(grace_seconds=5)
    assert await process.survivors() == ()


async def test_the_end_of_one_command_is_not_the_end_of_another(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    processes = [await executor.start(shell("exec sleep 300", tmp_path)) for _ in range(12)]
    await processes[0].stop(grace_seconds=5)
    assert [is_running(process.pid) for process in processes] == [False] + [True] * 11


async def test_stopping_again_is_harmless_and_the_shortest_grace_counts(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(shell(STUBBORN, tmp_path))
    await eventually(lambda: pid_in(tmp_path / "kid"))
    started = time.monotonic()
    patient = asyncio.create_task(process.stop(grace_seconds=60))
    await asyncio.sleep(0)
    await process.stop(grace_seconds=0)
    await patient
    assert time.monotonic() - started < 30
    await process.stop(grace_seconds=60)


async def test_a_cancelled_stop_goes_on(executor: LocalExecutor, tmp_path: Path) -> None:
    process = await executor.start(shell(STUBBORN, tmp_path))
    await eventually(lambda: pid_in(tmp_path / "kid"))
    stopping = asyncio.create_task(process.stop(grace_seconds=0.2))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert is_running(process.pid)
    await eventually(lambda: not is_running(process.pid))


async def test_what_was_written_before_the_end_can_be_read_after_it(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    process = await executor.start(
        shell("trap 'seq 9999; exit' TERM; echo up; sleep 9 & wait", tmp_path)
    )
    assert await process.stdout.readline() == b"up\n"
    await process.stop(grace_seconds=5)
    assert (await process.stdout.read()).endswith(b"\n9999\n")


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancelled_start_leaves_nothing(
    executor: LocalExecutor, tmp_path: Path, steps: int
) -> None:
    starting = asyncio.create_task(executor.start(shell("sleep 300 & sleep 300", tmp_path)))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await (await starting).stop(grace_seconds=0)
    await eventually(lambda: not executor._leftovers.family.members())


async def test_close_ends_what_runs_and_what_escaped(tmp_path: Path) -> None:
    executor = LocalExecutor()
    await executor.start(shell("exec sleep 300", tmp_path))
    await executor.start(shell(f"setsid {STUBBORN} & exit", tmp_path))
    await eventually(lambda: pid_in(tmp_path / "kid"))
    family = executor._leftovers.family
    assert len(family.members()) == 2
    await executor.close(grace_seconds=0.1)
    assert family.members() == {}
    await executor.close()


async def test_an_executor_that_nobody_holds_ends_what_it_started(tmp_path: Path) -> None:
    executor = LocalExecutor()
    process = await executor.start(shell("setsid sleep 300 > /dev/null 2>&1 &", tmp_path))
    await process.wait()
    await process.stdout.read()
    family = executor._leftovers.family
    assert family.members()
    del executor, process

    def is_gone() -> bool:
        gc.collect()  # the loop's own references go a little later
        return not family.members()

    await eventually(is_gone)


async def test_a_group_that_is_gone_is_forgotten(executor: LocalExecutor, tmp_path: Path) -> None:
    gone = await executor.start(shell("true", tmp_path))
    await gone.wait()
    await eventually(lambda: not group_lives(gone.pid))
    process = await executor.start(shell("sleep 300 &", tmp_path))
    await process.wait()
    assert executor._leftovers._groups == {process.pid}


async def test_a_killed_guardian_does_not_keep_commands_from_running(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    await (await executor.start(shell("true", tmp_path))).wait()
    guardian = executor._leftovers._guardian
    assert guardian is not None
    guardian.kill()
    guardian.wait()
    assert await (await executor.start(shell("exit 2", tmp_path))).wait() == 2


# ------------------------------------------------------------------- the end of the harness

HARNESS = """
import asyncio, os, signal, sys
from pathlib import Path
from dsh_core.execution import Command
from dsh_core.execution.local import LocalExecutor

async def main():
    cwd = Path(sys.argv[2])
    executor = LocalExecutor()
    for command in sys.argv[3:]:
        await executor.start(Command(("bash", "-c", command), cwd, dict(os.environ)))
    for name in ("kid", "lead"):
        while not ((cwd / name).exists() and (cwd / name).read_text().strip()):
            await asyncio.sleep(0.01)
    (cwd / "guardian").write_text(str(executor._leftovers._guardian.pid))
    exec(sys.argv[1])

asyncio.run(main())
"""

WAYS_OUT = {
    "returns": "pass",
    "raises": "raise SystemExit(3)",
    "leaves at once": "os._exit(0)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "crashes": "os.abort()",
}


@pytest.mark.parametrize("way", WAYS_OUT.values(), ids=WAYS_OUT.keys())
async def test_no_process_outlives_the_harness_however_it_goes(tmp_path: Path, way: str) -> None:
    commands = [f"setsid {STUBBORN} & exit", "echo $$ > lead; exec env -i sleep 300"]
    harness = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", HARNESS, way, str(tmp_path), *commands),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await asyncio.wait_for(harness.wait(), 20)
    pids = [pid_in(tmp_path / name) for name in ("kid", "lead", "guardian")]
    assert all(pids)
    await eventually(lambda: not any(map(is_running, pids)))


async def test_a_fork_of_the_harness_that_exits_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "kid").write_text("0")
    way = """
if os.fork() == 0:
    sys.exit(0)
os.wait()
pid = int((cwd / "lead").read_text())
os.kill(pid, 0)
(cwd / "alive").touch()
"""
    command = "echo $$ > lead; exec sleep 300"
    harness = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", HARNESS, way, str(tmp_path), command),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    await asyncio.wait_for(harness.wait(), 20)
    assert (tmp_path / "alive").exists()


# --------------------------------------------------------------------------------- encoding


@pytest.mark.parametrize("text", ["plain", "✓ 北京 🌍", "\udce9 by os.fsdecode in 北京"])
def test_text_of_the_system_makes_a_round_trip(text: str) -> None:
    assert system_text(system_bytes(text)) == text


def test_half_a_pair_is_replaced() -> None:
    assert system_bytes("A\ud99cB") == "A\ufffdB".encode()
    assert readable("A\ud99cB\udce9") == "A\ufffdB\ufffd"


async def test_bytes_that_are_no_utf_8_reach_the_command_as_they_are(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    odd = tmp_path / system_text(b"caf\xe9")
    odd.mkdir()
    command = shell('printf %s "$1$ODD"; pwd', odd, ODD=system_text(b"\xff"))
    process = await executor.start(
        Command((*command.argv, "bash", system_text(b"\xfe")), odd, command.env)
    )
    assert await process.stdout.read() == b"\xfe\xff" + os.fsencode(odd) + b"\n"


# ----------------------------------------------------------------------------------- family


def test_a_family_without_members_is_empty() -> None:
    assert Family((), "no-such-mark").members() == {}
    assert not Family((), "no-such-mark").signal(0)


async def test_a_name_with_blanks_and_parentheses_is_read_right(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    odd = tmp_path / "a) R (b"
    odd.symlink_to("/bin/sleep")
    process = await executor.start(Command((str(odd), "300"), tmp_path, {}))
    assert list(process._family.members().values()) == ["a) R (b"]  # type: ignore[attr-defined]
