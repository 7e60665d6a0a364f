"""Background jobs: started, read in pieces, ended, and told of once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dsh_core.errors import AgentDisposedError, ToolError
from dsh_core.messages import PluginSource
from dsh_shell.tools import JOBS

Eventually = Callable[[Callable[[], object]], Awaitable[None]]


async def start(shell: Any, command: str, **arguments: Any) -> str:
    output = await shell(command, run_in_background=True, **arguments)
    assert not output.is_error
    job_id: str = output.meta["job_id"]
    assert output.text.startswith(f"Started background job {job_id} (pid ")
    return job_id


def status(shell: Any, job_id: str) -> str:
    job_status: str = shell.agent.stash[JOBS].find(job_id).status
    return job_status


async def test_jobs_are_counted_per_agent(make_shell: Callable[..., Any]) -> None:
    one, two = make_shell(), make_shell()
    assert [await start(one, "true"), await start(one, "true")] == ["bash-1", "bash-2"]
    assert await start(two, "true") == "bash-1"


async def test_reading_returns_only_what_is_new(shell: Any, eventually: Eventually) -> None:
    job_id = await start(
        shell, "echo one; until [ -e go ]; do sleep 0.01; done; echo two; echo three >&2; exit 4"
    )
    first = await shell.output_until(job_id, "one")
    assert re.fullmatch(
        r"(\(no new output\)\n\[status: running\]\n)*one\n\[status: running\]\n", first
    )
    again = await shell.call("bash_output", job_id=job_id)
    assert again.text == "(no new output)\n[status: running]"
    (shell.agent.cwd / "go").touch()
    await eventually(lambda: status(shell, job_id) == "failed")
    rest = await shell.call("bash_output", job_id=job_id)
    assert rest.text == "two\n[stderr]\nthree\n[status: failed, exit code: 4]"
    after = await shell.call("bash_output", job_id=job_id)
    assert after.text == "(no new output)\n[status: failed, exit code: 4]"
    assert after.meta["status"] == "failed"
    assert after.meta["exit_code"] == 4


async def test_a_job_that_went_well_is_completed(shell: Any, eventually: Eventually) -> None:
    job_id = await start(shell, "echo ok")
    await eventually(lambda: status(shell, job_id) == "completed")
    output = await shell.call("bash_output", job_id=job_id)
    assert output.text == "ok\n[status: completed, exit code: 0]"


async def test_a_progress_bar_is_read_as_it_stands(shell: Any) -> None:
    job_id = await start(shell, r"printf '\r10%%\r55%%'; sleep 300")
    said = await shell.output_until(job_id, "55%")
    assert "10%" not in said


async def test_unread_output_is_bounded_and_says_what_is_missing(
    make_shell: Callable[..., Any], eventually: Eventually
) -> None:
    shell = make_shell(output_limit_bytes=1000)
    job_id = await start(shell, "seq 1 100000")
    await eventually(lambda: status(shell, job_id) == "completed")
    output = await shell.call("bash_output", job_id=job_id)
    assert output.text.startswith("1\n2\n")
    assert output.text.endswith("\n100000\n[status: completed, exit code: 0]")
    assert len(output.text) < 1500
    (path,) = shell.spill.iterdir()
    assert f"bytes left out; the whole output is in {path}" in output.text
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 100001))


async def test_a_kill_ends_everything_and_returns_the_rest(
    shell: Any, eventually: Eventually
) -> None:
    job_id = await start(
        shell, """bash -c 'trap "" TERM; exec sleep 300' & echo up; touch started; wait"""
    )
    await eventually((shell.agent.cwd / "started").exists)
    output = await shell.call("bash_kill", job_id=job_id)
    assert output.text == (f"Requested the end of {job_id}.\nup\n[status: killed, signal: SIGTERM]")
    assert shell.running == {}
    again = await shell.call("bash_kill", job_id=job_id)
    assert again.text.startswith(f"{job_id} has already finished.\n")
    assert shell.agent.injected == []


async def test_the_end_is_told_once(shell: Any, eventually: Eventually) -> None:
    job_id = await start(shell, "exit 3", description="Run the tests")
    await eventually(lambda: shell.agent.injected)
    (notice, source), *more = shell.agent.injected
    assert notice == (
        f"Background job {job_id} ended: Run the tests\n[status: failed, exit code: 3]\n"
        f'Read its output with bash_output(job_id="{job_id}").'
    )
    assert source == PluginSource("shell", form="job")
    await shell.call("bash_output", job_id=job_id)
    assert more == []
    assert len(shell.agent.injected) == 1


async def test_a_notice_names_the_command_in_one_short_line(
    shell: Any, eventually: Eventually
) -> None:
    await start(shell, "true &&\n  " + "echo a-long-argument " * 50)
    await eventually(lambda: shell.agent.injected)
    first_line = shell.agent.injected[0][0].splitlines()[0]
    assert first_line.startswith("Background job bash-1 ended: true && echo a-long-argument")
    assert len(first_line) < 120


async def test_a_cancelled_kill_still_ends_the_job_and_the_notice_comes(
    shell: Any, eventually: Eventually
) -> None:
    job_id = await start(shell, """trap "" TERM; touch started; while :; do sleep 0.01; done""")
    await eventually((shell.agent.cwd / "started").exists)
    kill = asyncio.create_task(shell.call("bash_kill", job_id=job_id))
    await eventually(lambda: status(shell, job_id) == "stopping")
    kill.cancel()
    with pytest.raises(asyncio.CancelledError):
        await kill
    await eventually(lambda: shell.agent.injected)
    assert "[status: killed, signal: SIGKILL]" in shell.agent.injected[0][0]
    assert len(shell.agent.injected) == 1


async def test_one_job_too_many_is_refused_before_it_starts(
    make_shell: Callable[..., Any], eventually: Eventually
) -> None:
    shell = make_shell(max_jobs=2, grace_seconds=1)
    await start(shell, """trap "" TERM; touch started; while :; do sleep 0.01; done""")
    await start(shell, "sleep 300")
    with pytest.raises(ToolError, match=r"2 .* running already \(bash-1, bash-2\)") as caught:
        await start(shell, "touch made")
    assert caught.value.code == "TOO_MANY_JOBS"
    await eventually((shell.agent.cwd / "started").exists)
    kill = asyncio.create_task(shell.call("bash_kill", job_id="bash-1"))
    await eventually(lambda: status(shell, "bash-1") == "stopping")
    with pytest.raises(ToolError, match="running already"):
        await start(shell, "touch made")
    await kill
    assert not (shell.agent.cwd / "made").exists()
    assert await start(shell, "true") == "bash-3"


async def test_a_job_that_cannot_start_takes_no_place(make_shell: Callable[..., Any]) -> None:
    shell = make_shell(max_jobs=1, shell="no-such-shell")
    for _ in range(3):
        with pytest.raises(ToolError, match="no such program"):
            await start(shell, "true")


async def test_a_job_has_no_timeout_and_says_so(make_shell: Callable[..., Any]) -> None:
    shell = make_shell(timeout_seconds=0.1, max_timeout_seconds=0.1)
    output = await shell("sleep 0.3; echo through", run_in_background=True, timeout=0.1)
    assert output.text.endswith("\n[timeout does not apply in the background]")
    assert "through" in await shell.output_until("bash-1", "through")


async def test_a_cancelled_call_does_not_end_the_job_it_started(shell: Any) -> None:
    job_id = await start(shell, "sleep 300")
    other = asyncio.create_task(shell("sleep 300"))
    await asyncio.sleep(0)
    other.cancel()
    with pytest.raises(asyncio.CancelledError):
        await other
    assert status(shell, job_id) == "running"


async def test_an_unknown_job_is_refused_and_the_known_are_named(shell: Any) -> None:
    with pytest.raises(ToolError, match="no job 'bash-9'; jobs: none") as caught:
        await shell.call("bash_output", job_id="bash-9")
    assert caught.value.code == "JOB_NOT_FOUND"
    await start(shell, "true")
    with pytest.raises(ToolError, match="jobs: bash-1"):
        await shell.call("bash_kill", job_id="bash-9")


async def test_survivors_of_a_job_are_told_and_end_with_the_agent(
    shell: Any, eventually: Eventually
) -> None:
    job_id = await start(shell, "sleep 300 > /dev/null 2>&1 & echo left")
    await eventually(lambda: status(shell, job_id) == "completed")
    text = (await shell.call("bash_output", job_id=job_id)).text
    assert re.search(r"still running in the background, until the session ends: \S+ \(pid", text)
    shell.shell_tools.end_agent(shell.agent)
    await eventually(lambda: not shell.running)


async def test_jobs_end_with_the_agent_and_nobody_is_told(
    shell: Any, eventually: Eventually
) -> None:
    for _ in range(3):
        await start(shell, """trap "" TERM; sleep 300 & wait; sleep 300""")
    shell.shell_tools.end_agent(shell.agent)
    await shell.shell_tools.close()
    assert shell.running == {}
    assert shell.agent.injected == []


async def test_a_notice_to_an_agent_that_is_gone_is_dropped(
    shell: Any, eventually: Eventually
) -> None:
    def refuse(content: str, *, source: Any) -> None:
        raise AgentDisposedError("gone")

    shell.agent.inject = refuse
    job_id = await start(shell, "true")
    await eventually(lambda: status(shell, job_id) == "completed")


async def test_a_job_started_while_the_agent_ends_ends_too(
    shell: Any, eventually: Eventually
) -> None:
    await start(shell, "true")
    shell.shell_tools.end_agent(shell.agent)
    await shell("sleep 300", run_in_background=True)
    await eventually(lambda: not shell.running)


async def test_reading_a_job_counts_as_reading(shell: Any) -> None:
    assert shell.tools["bash_output"].read_only
    assert not shell.tools["bash_kill"].read_only
