"""A tiny agent and a hand that calls the tools as the harness would, on real files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dsh_core.agents import Stash
from dsh_core.errors import ToolError
from dsh_core.outcome import ToolOutput
from dsh_core.policy import Call
from dsh_core.tools import ToolContext
from dsh_files.effects import effects_of
from dsh_files.settings import Settings
from dsh_files.tools import FileTools


@dataclass
class FakeAgent:
    cwd: Path
    stash: Stash = field(default_factory=Stash)


class Hand:
    """Calls tools by name; failures raise `ToolError`, as from a body."""

    def __init__(self, cwd: Path, spill: Path, **settings: Any) -> None:
        self.cwd = cwd
        self.spill = spill
        self.agent = FakeAgent(cwd)
        self.tools = FileTools(Settings(**settings))
        self.cancelled = threading.Event()
        self.readable_roots: tuple[Path, ...] = (spill,)

    def set(self, **settings: Any) -> None:
        """Go on as the same agent with other settings."""
        self.tools = FileTools(Settings(**settings))

    def starts_for_nobody(self) -> bool:
        """Whether `as_nobody` leaves the search engine startable, wherever root keeps it."""
        if os.geteuid() != 0:
            return True
        if self.tools._settings.engine == "python":
            return False
        found = shutil.which("rg", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        path = Path(found or "/nowhere")
        return found is not None and all(
            each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents)
        )

    def call(self, name: str, /, **arguments: Any) -> ToolOutput:
        tool = next(tool for tool in self.tools.all() if tool.name == name)
        call = Call("c1", name, arguments, json.dumps(arguments), 1, 1)
        call = replace(call, effects=tuple(effects_of(call, self.cwd) or ()))
        return self.run(tool.function, call)

    def run(self, body: Callable[..., Any], call: Call) -> ToolOutput:
        context = ToolContext(
            self.agent,  # type: ignore[arg-type]
            self.cwd,
            call,
            self.readable_roots,
            lambda: self.spill,
            lambda text: None,
            self.cancelled,
        )
        result = body(**call.arguments, ctx=context)
        return ToolOutput.of(result) if isinstance(result, str) else result

    def read(self, file_path: str, **arguments: Any) -> str:
        return self.call("read", file_path=file_path, **arguments).text

    def write(self, file_path: str, content: str) -> ToolOutput:
        return self.call("write", file_path=file_path, content=content)

    def edit(self, file_path: str, old: str, new: str, **arguments: Any) -> ToolOutput:
        return self.call("edit", file_path=file_path, old_string=old, new_string=new, **arguments)

    def glob(self, pattern: str, **arguments: Any) -> str:
        return self.call("glob", pattern=pattern, **arguments).text

    def grep(self, pattern: str, **arguments: Any) -> str:
        return self.call("grep", pattern=pattern, **arguments).text

    def failure(self, name: str, /, **arguments: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.call(name, **arguments)
        return caught.value


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may use; pytest's own are the user's only."""
    folder = Path(tempfile.mkdtemp(prefix="dsh-files-test-")).resolve()
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    folder = tmp_path / "spill"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def hand(workspace: Path, spill: Path) -> Hand:
    return Hand(workspace, spill)


@pytest.fixture(params=["ripgrep", "python"])
def searching(request: pytest.FixtureRequest, workspace: Path, spill: Path) -> Hand:
    """A hand for each engine; without ripgrep on the machine only ours."""
    from dsh_files.engine import find_ripgrep

    if request.param == "ripgrep" and find_ripgrep() is None:
        pytest.skip("ripgrep is not installed")
    return Hand(workspace, spill, engine=request.param)


@pytest.fixture
def new_hand(workspace: Path, spill: Path) -> Callable[..., Hand]:
    """Makes further agents in the same workspace, or agents with other settings."""
    return lambda **settings: Hand(workspace, spill, **settings)


@pytest.fixture
def leftovers() -> Callable[[Path], list[str]]:
    return lambda folder: [name for name in os.listdir(folder) if name.startswith(".dsh-files-")]


@pytest.fixture
def as_nobody() -> Callable[[], Any]:
    """Root may do everything; inside this block the process may not."""
    if os.geteuid() != 0:
        return _unchanged
    return _as_nobody


@contextmanager
def _as_nobody() -> Iterator[None]:
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


@contextmanager
def _unchanged() -> Iterator[None]:
    yield
