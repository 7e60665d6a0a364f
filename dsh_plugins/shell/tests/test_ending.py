"""Timeouts, cancellation, and what a command leaves running."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

STUBBORN = """bash -c 'trap "" INT TERM; echo $$ > kid; exec -a CASE_KID sleep 300'"""


@pytest.fixture
def patient_shell(make_shell: Callable[..., Any]) -> Any:
    """A shell that gives commands all the time to end that they could need."""
    return make_shell(grace_seconds=30)


def pid_in(path: Path) -> int:
    return int(path.read_text().strip() or 0) if path.exists() else 0


async def test_at_the_timeout_the_whole_group_goes_and_the_output_stays(
    shell: Any, is_running: Callable[[int], bool]
) -> None:
    started = time.monotonic()
    output = await shell(f"echo before; {STUBBORN} | cat", timeout=1)
    assert time.monotonic() - started < 20
    assert output.text == "before\n[timed out after 1 s]\n[killed by signal: SIGTERM]"
    assert not output.is_error
    assert not is_running(pid_in(shell.agent.cwd / "kid"))


async def test_a_timeout_is_told_although_the_command_exited_well(patient_shell: Any) -> None:
    command = "trap 'echo cleaned; exit 0' TERM; sleep 300 & wait"
    output = await patient_shell(command, timeout=1)
    assert output.text == "cleaned\n[timed out after 1 s]"
    assert output.meta["timed_out"]
    assert output.meta["exit_code"] == 0


async def test_a_timeout_and_an_exit_code_are_both_told(patient_shell: Any) -> None:
    output = await patient_shell("trap 'exit 5' TERM; sleep 300 & wait", timeout=1)
    assert output.text == "(no output)\n[timed out after 1 s]\n[exit code: 5]"


async def test_what_is_written_while_dying_is_kept(patient_shell: Any) -> None:
    output = await patient_shell("trap 'seq 20000; exit 1' TERM; sleep 300 & wait", timeout=1)
    assert "\n20000\n[timed out" in output.text


@pytest.mark.parametrize(
    "command",
    [
        f"{STUBBORN} & touch started; wait",
        f"setsid {STUBBORN} & touch started; wait",
        f"set -m; {STUBBORN} & touch started; wait",
        f"(setsid {STUBBORN} & ); touch started; sleep 300",
        f"{STUBBORN} | tee log & touch started; exec sleep 300",
    ],
    ids=["trapped", "setsid", "job control", "daemon", "pipeline"],
)
async def test_a_cancelled_call_leaves_nothing_and_stays_cancelled(
    shell: Any,
    command: str,
    eventually: Callable[[Any], Awaitable[None]],
    is_running: Callable[[int], bool],
) -> None:
    call = asyncio.create_task(shell(command))
    cwd = shell.agent.cwd
    await eventually(lambda: (cwd / "started").exists() and pid_in(cwd / "kid"))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert call.cancelled()
    assert not is_running(pid_in(cwd / "kid"))
    assert shell.running == {}


async def test_a_call_cancelled_twice_still_ends_its_processes(
    shell: Any, eventually: Callable[[Any], Awaitable[None]]
) -> None:
    call = asyncio.create_task(shell(STUBBORN))
    await eventually(lambda: pid_in(shell.agent.cwd / "kid"))
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: not shell.running)


async def test_a_call_cancelled_while_it_dies_of_its_timeout_stays_cancelled(
    make_shell: Callable[..., Any], eventually: Callable[[Any], Awaitable[None]]
) -> None:
    shell = make_shell(grace_seconds=1)
    call = asyncio.create_task(
        shell("trap 'touch dying' TERM; while :; do sleep 0.05; done", timeout=1)
    )
    await eventually((shell.agent.cwd / "dying").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert shell.running == {}


async def test_a_call_cancelled_at_once_starts_nothing_that_stays(shell: Any) -> None:
    for steps in range(12):
        call = asyncio.create_task(shell("sleep 300"))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await shell.shell_tools.close()
    assert shell.running == {}


async def test_a_background_process_does_not_hold_the_call_up(shell: Any) -> None:
    started = time.monotonic()
    output = await shell("sleep 300 & echo done")
    assert time.monotonic() - started < 20
    (pid,) = output.meta["survivors"]
    about = f"still running in the background, until the session ends: sleep (pid {pid})"
    assert output.text == f"done\n[{about}]"


async def test_a_chatty_background_process_does_not_hold_the_call_up(shell: Any) -> None:
    started = time.monotonic()
    output = await shell("(while :; do echo tick; sleep 0.1; done) & echo done2")
    assert time.monotonic() - started < 20
    assert output.text.startswith("done2\n") or output.text.startswith("tick\n")
    assert "still running in the background" in output.text


async def test_a_process_without_our_pipes_is_told_too(shell: Any) -> None:
    output = await shell("yes > /dev/null 2>&1 & setsid sleep 300 > /dev/null 2>&1 & echo done3")
    assert re.search(r"\[still running .*: \S+ \(pid \d+\), \S+ \(pid \d+\)\]", output.text)


async def test_a_survivor_goes_on_after_the_call(
    shell: Any, eventually: Callable[[Any], Awaitable[None]]
) -> None:
    await shell("(while :; do echo noise; date +%N > beat; sleep 0.01; done) & ")
    beat = shell.agent.cwd / "beat"
    seen = beat.read_text()
    for _ in range(3):
        await eventually(lambda: beat.read_text() not in ("", seen))  # noqa: B023
        seen = beat.read_text()


async def test_a_survivor_that_floods_its_output_does_not_hold_the_harness_up(shell: Any) -> None:
    await shell("yes &")
    started = time.process_time()
    await asyncio.sleep(0.5)  # what it takes of this time is what is measured
    assert time.process_time() - started < 0.05


async def test_survivors_end_with_the_agent(
    shell: Any, eventually: Callable[[Any], Awaitable[None]]
) -> None:
    await shell("sleep 300 &")
    await shell(f"{STUBBORN} & ")
    await shell("setsid sleep 300 > /dev/null 2>&1 &")
    await eventually(lambda: [*shell.running.values()].count("sleep") == 3)
    shell.shell_tools.end_agent(shell.agent)
    await shell.shell_tools.close()
    assert shell.running == {}


async def test_survivors_that_ended_are_forgotten(
    shell: Any, eventually: Callable[[Any], Awaitable[None]]
) -> None:
    for _ in range(3):
        await shell("(until [ -e go ]; do sleep 0.01; done) > /dev/null 2>&1 &")
    (shell.agent.cwd / "go").touch()
    await eventually(lambda: not shell.running)
    await shell("sleep 300 &")
    jobs = shell.shell_tools._jobs_of(shell.agent)
    assert len(jobs._survivors) == 1
