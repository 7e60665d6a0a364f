"""A command in the foreground: what the model reads, and what front ends get."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_core.errors import ToolError
from dsh_core.execution import Command
from dsh_core.tools import InvalidArgumentsError
from dsh_shell.settings import Settings

PROGRESS = r"""
for i in $(seq 1 2000); do printf '\r\033[32mprogress %d%%\033[0m' $((i/20)); done
printf '\n\033[2K\033[1Gfinal line\n'
printf 'draft\rsecond-try\nwhole\r\nlast\n'
"""


async def test_output_comes_first_then_stderr_then_the_exit_code(shell: Any) -> None:
    output = await shell("echo out; echo err >&2; exit 3")
    assert output.text == "out\n[stderr]\nerr\n[exit code: 3]"
    assert not output.is_error
    assert output.meta["exit_code"] == 3


async def test_success_shows_no_exit_code(shell: Any) -> None:
    output = await shell("echo hi")
    assert output.text == "hi\n"
    assert output.meta == {
        "timed_out": False,
        "exit_code": 0,
        "signal": None,
        "duration_seconds": output.meta["duration_seconds"],
        "survivors": [],
        "truncated": False,
        "cwd": str(shell.agent.cwd),
        "job_id": None,
    }


async def test_silence_is_said(shell: Any) -> None:
    assert (await shell("true")).text == "(no output)"
    assert (await shell("exit 1")).text == "(no output)\n[exit code: 1]"


async def test_a_signal_is_named(shell: Any) -> None:
    output = await shell("kill -SEGV $$")
    assert output.text == "(no output)\n[killed by signal: SIGSEGV]"
    assert (output.meta["exit_code"], output.meta["signal"]) == (None, "SIGSEGV")


async def test_leading_blanks_stay(shell: Any) -> None:
    assert (await shell(r"printf '\n  indented\n\n'")).text == "\n  indented\n\n"


async def test_a_cd_does_not_carry_over_and_the_model_is_told(shell: Any) -> None:
    assert (await shell("mkdir d && cd d && pwd")).text == f"{shell.agent.cwd / 'd'}\n"
    assert (await shell("pwd")).text == f"{shell.agent.cwd}\n"
    assert "`cd`" in shell.tools["bash"].description


async def test_a_vanished_working_directory_falls_back_with_a_notice(shell: Any) -> None:
    workspace = shell.agent.cwd
    shell.agent.cwd = workspace / "d" / "e"
    shell.agent.cwd.mkdir(parents=True)
    await shell("cd ..; rmdir e; cd ..; rmdir d")
    output = await shell("pwd; echo alive")
    gone = f"[working directory {workspace}/d/e is gone; ran in {workspace}]"
    assert output.text == f"{workspace}\nalive\n{gone}"
    assert output.meta["cwd"] == str(workspace)


async def test_standard_input_is_empty(shell: Any) -> None:
    output = await shell("read -p 'name? ' x; echo got:$x; cat; python3 -c 'input()'; echo rc=$?")
    assert output.text.startswith("got:\nrc=1\n[stderr]\n")
    assert "EOFError" in output.text


async def test_the_terminal_of_the_harness_is_out_of_reach(shell: Any) -> None:
    assert (await shell("echo x > /dev/tty")).meta["exit_code"] == 1


async def test_progress_bars_are_shown_as_a_terminal_would_at_the_end(shell: Any) -> None:
    output = await shell(PROGRESS)
    assert output.text == "progress 100%\nfinal line\nsecond-try\nwhole\nlast\n"


async def test_output_that_is_no_text_stays_valid_text(shell: Any) -> None:
    output = await shell(r"printf 'caf\xe9 \xf0 \xff\x00\xd6\xd0 end\n'; head -c 2000 /dev/urandom")
    assert output.text.startswith("caf\ufffd \ufffd \ufffd\\x00\ufffd\ufffd end\n")
    output.text.encode()
    assert "\0" not in output.text


async def test_a_huge_line_shows_head_and_tail_and_keeps_the_exit_code(shell: Any) -> None:
    output = await shell("python3 -c \"print('HEAD-MARK'+'x'*3000000+'TAIL-MARK')\"; exit 7")
    assert len(output.text) < 66_000
    assert output.text.startswith("HEAD-MARK")
    assert output.text.endswith("TAIL-MARK\n[exit code: 7]")
    missing, path = re.findall(r"(\d+) bytes left out; the whole output is in (\S+)", output.text)[
        0
    ]
    assert int(missing) == 3_000_019 - 64_000
    assert Path(path).stat().st_size == 3_000_019
    assert Path(path).parent == shell.spill
    assert output.meta["truncated"]
    assert not output.is_error


async def test_each_stream_has_its_own_limit(make_shell: Callable[..., Any]) -> None:
    shell = make_shell(output_limit_bytes=1000)
    output = await shell("seq 10000; seq 20000 30000 >&2")
    assert "\n10000\n[stderr]\n20000\n" in output.text
    assert output.text.endswith("\n30000\n")
    assert len(list(shell.spill.iterdir())) == 2
    assert all(tool.inline_limit_bytes >= len(output.text) for tool in shell.tools.values())


async def test_short_output_leaves_no_file(shell: Any) -> None:
    await shell(PROGRESS + "; " + PROGRESS)
    assert list(shell.spill.iterdir()) == []


async def test_progress_reports_lines_and_not_bytes(shell: Any) -> None:
    await shell("for i in 1 2 3; do printf 'step %d\\n' $i; sleep 0.05; done")
    assert set(shell.progress) <= {"step 1", "step 2", "step 3"}
    assert shell.progress[-1] == "step 3"
    assert len(shell.progress) <= 3


async def test_a_command_that_cannot_start_is_an_error(make_shell: Callable[..., Any]) -> None:
    shell = make_shell(shell="no-such-shell")
    with pytest.raises(ToolError, match="no such program on PATH") as caught:
        await shell("true")
    assert caught.value.code == "SPAWN_FAILED"


@pytest.mark.parametrize("command", ["", "  \n "])
async def test_an_empty_command_is_refused(shell: Any, command: str) -> None:
    with pytest.raises(ToolError, match="`command` is empty"):
        await shell(command)


@pytest.mark.parametrize("timeout", [0, -1])
async def test_a_timeout_that_is_none_is_refused(shell: Any, timeout: float) -> None:
    with pytest.raises(ToolError, match="more than 0"):
        await shell("true", timeout=timeout)


async def test_a_timeout_above_the_most_is_the_most(make_shell: Callable[..., Any]) -> None:
    shell = make_shell(max_timeout_seconds=0.2, grace_seconds=0.1)
    assert "[timed out after 0.2 s]" in (await shell("sleep 60", timeout=3600)).text
    assert "[timed out after 0.2 s]" in (await shell("sleep 60")).text


async def test_no_key_of_the_harness_reaches_a_command(
    make_shell: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-test-1234567")
    monkeypatch.setenv("INNOCENT", "sk-test-1234567")
    monkeypatch.setenv("NPM_TOKEN", "npm-token")
    shell = make_shell(secrets=frozenset({"sk-test-1234567"}), keep_env=("NPM_TOKEN",))
    output = await shell("env; tr '\\0' '\\n' < /proc/self/environ; ps axww -o args= | grep sk-")
    assert "sk-test" not in output.text.replace("grep sk-", "")
    assert "NPM_TOKEN=npm-token" in output.text
    assert "DSH_SESSION_ID=session-1" in output.text
    assert f"DSH_CWD={shell.agent.cwd}" in output.text


async def test_the_executor_is_asked_for_at_every_call(shell: Any) -> None:
    class Recorder:
        name = "recorder"
        commands: list[Command] = []  # noqa: RUF012

        async def start(self, command: Command) -> Any:
            self.commands.append(command)
            changed = Command(("bash", "-c", "echo sandboxed"), command.cwd, command.env)
            return await shell.shell_tools._local.start(changed)

    shell.agent.hooks.executor = Recorder()
    assert (await shell("echo hi")).text == "sandboxed\n"
    assert [command.argv for command in Recorder.commands] == [("bash", "-c", "echo hi")]


async def test_commands_run_side_by_side(shell: Any) -> None:
    fifo = shell.agent.cwd / "fifo"
    os.mkfifo(fifo)
    one, two = await asyncio.gather(shell(f"echo met > {fifo}"), shell(f"cat {fifo}"))
    assert (one.text, two.text) == ("(no output)", "met\n")


def test_without_background_it_is_neither_offered_nor_accepted(
    make_shell: Callable[..., Any],
) -> None:
    tools = make_shell(enable_background=False).tools
    assert set(tools) == {"bash"}
    schema = tools["bash"].schema
    assert set(schema.parameters["properties"]) == {"command", "timeout", "description"}
    assert "background" not in schema.description
    with pytest.raises(InvalidArgumentsError, match="run_in_background"):
        tools["bash"].parameters.validate({"command": "true", "run_in_background": True})


def test_the_model_is_told_the_limits_that_hold(make_shell: Callable[..., Any]) -> None:
    bash = make_shell(timeout_seconds=7, max_timeout_seconds=99).tools["bash"]
    assert "after 7 seconds" in bash.description
    assert "at most 99" in bash.description
    properties = bash.schema.parameters["properties"]
    assert set(properties) == {"command", "timeout", "run_in_background", "description"}
    assert all(properties[name]["description"] for name in properties)
    assert bash.schema.parameters["required"] == ["command"]


@pytest.mark.parametrize("name", ["timeout_seconds", "output_limit_bytes", "max_jobs"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be greater than 0"):
        Settings(**{name: 0})
