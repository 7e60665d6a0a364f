"""The fixtures that pytest finds where dsh-core is installed, and the offline harness they give."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from dsh_core import AgentDefinition, LlmFailure, hookimpl, tool
from dsh_core.events import InjectionTrigger, TurnStart
from dsh_core.testing import ModelServer, calling, offline_harness, request_text
from dsh_core.testing.behaviours import reply

PLUGIN_TEST = """
import asyncio
import os
import sys
from pathlib import Path

from dsh_core import hookimpl, tool
from dsh_core.testing import calling


class Words:
    @tool(read_only=True)
    def count_words(self, path: Path, ctx) -> str:
        return str(len((ctx.cwd / path).read_text().split()))

    @hookimpl
    def tools_register(self):
        return [self.count_words]


def test_words_are_counted(dsh_offline, tmp_path):
    async def main():
        answer = {"text": "3", "expect": {"last_contains": "3"}}
        replies = calling("count_words", path="a.txt"), answer
        async with dsh_offline(*replies, plugin=Words()) as offline:
            (offline.agent.cwd / "a.txt").write_text("one two three")
            assert (await offline.agent.run("Count.")).text == "3"
            assert offline.agent.cwd.is_relative_to(tmp_path)

    asyncio.run(main())


def test_nothing_of_the_user_is_seen(dsh_home):
    assert not [name for name in os.environ if name.startswith(("DSH_", "OPENAI_"))]
    assert Path.home() == dsh_home


def test_the_server_is_there(dsh_model_server):
    assert dsh_model_server.__name__ == "ModelServer"
"""


def run_pytest(folder, *arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_authors_tests_get_the_fixtures_without_any_set_up(tmp_path):
    (tmp_path / "test_words.py").write_text(PLUGIN_TEST)

    done = run_pytest(tmp_path, DSH_MODEL="x/y", OPENAI_API_KEY="sk-mine")

    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_pytest_runs_without_them_when_told_so(tmp_path):
    (tmp_path / "test_words.py").write_text("def test_it(dsh_home): ...")

    assert "fixture 'dsh_home' not found" in run_pytest(tmp_path, "-p", "no:dsh").stdout


def test_a_run_that_uses_no_fixture_imports_none_of_the_harness(tmp_path):
    seen = "import sys\ndef test_it(): assert 'dsh_core.harness' not in sys.modules"
    (tmp_path / "test_other.py").write_text(seen)

    assert "1 passed" in run_pytest(tmp_path).stdout


async def test_every_request_is_kept_whoever_asks():
    async with offline_harness("one", lambda request: "two") as offline:
        await offline.agent.run("first")
        other = offline.harness.agents.create(AgentDefinition("other", model="offline/script"))
        assert (await other.run("second")).text == "one"
        assert (await offline.agent.run("third")).text == "two"

    assert ["first" in request_text(r) for r in offline.requests] == [True, False, True]


async def test_a_log_that_does_not_balance_fails_the_test():
    class Opens:
        """Leaves a turn open when everything ends."""

        @hookimpl
        async def harness_stop(self):
            agent.session.append(TurnStart(agent.session.last_turn + 1, InjectionTrigger()))

    staged = offline_harness("hello", plugin=Opens())
    agent = (await staged.__aenter__()).agent
    await agent.run("hi")

    with pytest.raises(AssertionError, match="turn"):
        await staged.__aexit__(None, None, None)


async def test_a_block_that_hangs_fails():
    with pytest.raises(TimeoutError):
        async with offline_harness(hangs_seconds=0.05):
            await asyncio.Event().wait()


async def test_a_reply_may_fail():
    def refuse(request):
        raise LlmFailure("QUOTA", "no money")

    async with offline_harness(refuse) as offline:
        assert (await offline.agent.run("hi")).reason.code == "QUOTA"


async def test_loose_tools_are_offered():
    @tool
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    async with offline_harness(calling("shout", text="hey"), "done", tools=[shout]) as offline:
        await offline.agent.run("hi")

    assert "HEY" in request_text(offline.requests[-1])


async def test_the_fixtures_work_together(dsh_offline, dsh_model_server):
    assert dsh_model_server is ModelServer
    async with dsh_model_server([reply("from the server")]) as server, dsh_offline("x") as offline:
        assert server.base_url.startswith("http://127.0.0.1:")
        assert (await offline.agent.run("hi")).text == "x"
