"""A shell without a harness: real bash, a fake agent, and a check that nothing is left running."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_core.agents import Stash
from dsh_core.outcome import ToolOutput
from dsh_core.policy import Call
from dsh_core.secrets import Secrets
from dsh_core.tools import Tool, ToolContext
from dsh_shell.settings import Settings
from dsh_shell.tools import ShellTools


class FakeHooks:
    """Hooks that nobody implements, unless a test, or a plugin of pytest, says who executes."""

    def __init__(self, wrap: Callable[[Any], Any] = lambda executor: executor) -> None:
        self.executor: Any = None
        self._wrap = wrap

    async def waterfall(self, spec: Any, answer: Any, /, **arguments: Any) -> Any:
        assert spec.__name__ == "shell_executor"
        return self.executor or self._wrap(await answer(**arguments))


class FakeAgent:
    """What the shell uses of an agent."""

    def __init__(self, cwd: Path):
        self.id = "session-1"
        self.cwd = cwd
        self.stash = Stash()
        self.hooks = FakeHooks()
        self.injected: list[tuple[str, Any]] = []

    def inject(self, content: str, *, source: Any) -> None:
        self.injected.append((content, source))


class Shell:
    """The tools of one plugin instance, called as the pipeline calls them."""

    def __init__(self, settings: Settings, cwd: Path, spill: Path, secrets: frozenset[str]):
        self.shell_tools = ShellTools(settings)
        self.agent = FakeAgent(cwd)
        self.spill = spill
        self.progress: list[str] = []
        built = self.shell_tools.build(Secrets(secrets).found_in)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in built}

    async def __call__(self, command: str, **arguments: Any) -> ToolOutput:
        return await self.call("bash", command=command, **arguments)

    async def call(self, name: str, **arguments: Any) -> ToolOutput:
        tool = self.tools[name]
        values = tool.parameters.validate(arguments).values
        output: ToolOutput = await tool.function(**values, ctx=self.context(name, arguments))
        return output

    def context(self, name: str, arguments: dict[str, Any]) -> ToolContext:
        return ToolContext(
            agent=self.agent,
            cwd=self.agent.cwd,
            call=Call("call-1", name, arguments, "{}", 0, 0),
            readable_roots=(),
            spill_dir=lambda: self.spill,
            report_progress=self.progress.append,
            cancelled=threading.Event(),
        )

    async def output_until(self, job_id: str, text: str) -> str:
        """Read a job until it said `text`; return all it said."""
        said = ""
        deadline = time.monotonic() + 10
        while text not in said:
            assert time.monotonic() < deadline, said
            said += (await self.call("bash_output", job_id=job_id)).text + "\n"
            await asyncio.sleep(0.01)
        return said

    @property
    def running(self) -> dict[int, str]:
        """Whatever any command of this shell left running."""
        return self.shell_tools._local._leftovers.family.members()


@pytest.fixture
async def make_shell(
    tmp_path: Path, pytestconfig: pytest.Config
) -> AsyncIterator[Callable[..., Shell]]:
    """Make shells with the settings given; at the end nothing that they started may be there.

    A plugin of pytest that sets `config.wrap_executor` runs these tests with an executor of its
    own around the local one: a function of that and the workspace.
    """
    shells: list[Shell] = []
    wrap = getattr(pytestconfig, "wrap_executor", lambda executor, cwd: executor)

    def make(*, secrets: frozenset[str] = frozenset(), **settings: Any) -> Shell:
        cwd, spill = tmp_path / "workspace", tmp_path / "spill"
        cwd.mkdir(exist_ok=True)
        spill.mkdir(mode=0o700, exist_ok=True)
        shells.append(Shell(Settings(**settings), cwd, spill, secrets))
        shells[-1].agent.hooks = FakeHooks(lambda executor: wrap(executor, cwd))
        return shells[-1]

    yield make
    for shell in shells:
        await shell.shell_tools.close()
        assert shell.running == {}


@pytest.fixture
def shell(make_shell: Callable[..., Shell]) -> Shell:
    """A shell with the default settings, less patience when it kills."""
    return make_shell(grace_seconds=0.3)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until a condition holds."""

    async def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            await asyncio.sleep(0.01)

    return wait


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process is there, zombies excepted."""

    def check(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] not in "ZX"

    assert os.path.exists("/proc/self/stat")
    return check
