"""Sandboxes as root and as an ordinary user, under each backend that this system has."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pluggy
import pytest

from dsh_core import Command, LocalExecutor
from dsh_sandbox.executor import Outcome, SandboxExecutor
from dsh_sandbox.settings import Settings
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import zone_of

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import confined  # noqa: E402 - a script beside this file

REPOSITORY = HERE.parents[2]
NOBODY = 65534
BACKENDS = ("bubblewrap", "landlock")


def interpreter_for(user: int) -> str | None:
    """A Python that the user may start: the environment of the tests may be root's own."""
    for candidate in (os.path.realpath(sys.executable), shutil.which("python3", path=os.defpath)):
        if candidate is None:
            continue
        wanted = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
        argv = [candidate, "-I", "-c", wanted]
        try:
            if subprocess.run(argv, user=user, group=user, cwd="/", check=False).returncode == 0:
                return candidate
        except OSError:
            continue
    return None


@functools.cache
def user_named(name: str) -> tuple[int, str]:
    """The user's id, and a Python for it. Skips the test where there is none."""
    if name == "me":
        return os.geteuid(), sys.executable
    if os.geteuid() != 0:
        pytest.skip("only root can become nobody; the tests run as an ordinary user already")
    python = interpreter_for(NOBODY)
    if python is None:
        pytest.skip("nobody can start no Python of this version here")
    return NOBODY, python


def as_user(name: str, order: dict[str, Any]) -> Any:
    """Run `confined.py` as a user."""
    user, python = user_named(name)
    paths = [REPOSITORY, HERE.parent, Path(pluggy.__file__).parents[1]]
    environment = {
        "PATH": os.environ["PATH"] if name == "me" else os.defpath,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "DSH_USER_DIR": "/nonexistent",
        "HOME": order.get("home", "/nonexistent"),
    }
    done = subprocess.run(
        [python, str(HERE / "confined.py"), json.dumps(order)],
        user=user,
        group=user if name == "nobody" else None,
        extra_groups=[] if name == "nobody" else None,
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@functools.cache
def problem_of(backend: str, user: str) -> str:
    """Why a backend does not work for a user here; "" where it does."""
    return str(as_user(user, {"backend": backend})["problem"])


@dataclass
class Place:
    """A workspace and what is around it, all of which the user owns."""

    folder: Path
    user: str
    backend: str

    @property
    def root(self) -> Path:
        return self.folder / "workspace"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    def own(self) -> None:
        """Give everything to the user."""
        user, _ = user_named(self.user)
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)

    def run(self, command: str, **order: Any) -> dict[str, Any]:
        """Run a command in the sandbox of the workspace."""
        (told,) = self.run_all([(str(self.root), command)], **order)
        return told

    def run_all(self, commands: list[tuple[str, str]], **order: Any) -> list[dict[str, Any]]:
        """Run commands in the sandboxes of their folders, all at once."""
        self.own()
        order = {"backend": self.backend, "visible": [str(self.folder)], **order}
        told: list[dict[str, Any]] = as_user(self.user, {**order, "commands": commands})
        return told


@pytest.fixture(params=[f"{backend}-{user}" for backend in BACKENDS for user in ("me", "nobody")])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of each user, under each backend; skipped where that does not work here."""
    backend, _, user = request.param.partition("-")
    user_named(user)
    if problem := problem_of(backend, user):
        pytest.skip(f"{backend} does not work here for {user}: {problem}")
    with tempfile.TemporaryDirectory(prefix="dsh-place-") as name:
        place = Place(Path(name).resolve(), user, backend)
        place.root.mkdir()
        place.outside.write_text("outside\n")
        furnish(place.root)
        yield place


def furnish(root: Path) -> None:
    """Put what looks like a repository with a hook into a folder."""
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    (root / ".git/config").write_text("[core]\n")


class Stage:
    """An executor of one backend in this process."""

    def __init__(self, backend: Any, root: Path, **settings: Any):
        self.root = root
        self.local, self.workshop = LocalExecutor(), Workshop()
        self.outcomes: list[Outcome] = []
        zone = zone_of(root, Settings(**settings))
        self.executor = SandboxExecutor(
            self.local, backend, zone, self.workshop, self.outcomes.append
        )

    async def start(self, command: str, **environment: str) -> Any:
        argv = ("bash", "-c", command)
        env = {"PATH": os.environ["PATH"], **environment}
        return await self.executor.start(Command(argv, self.root, env))

    async def run(self, command: str, **environment: str) -> tuple[int, str, str]:
        process = await self.start(command, **environment)
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        code = await process.wait()
        await process.survivors()
        return code, out.decode(), err.decode()

    @property
    def running(self) -> dict[int, str]:
        """Whatever the commands left."""
        return self.local._leftovers.family.members()


@pytest.fixture(params=BACKENDS)
async def make_stage(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Callable[..., Stage]]:
    """Make stages with the settings given; afterwards nothing may be left of them."""
    if problem := problem_of(request.param, "me"):
        pytest.skip(f"{request.param} does not work here: {problem}")
    backend = confined.backend_named(request.param)
    root = tmp_path / "workspace"
    root.mkdir()
    stages: list[Stage] = []

    def make(**settings: Any) -> Stage:
        stages.append(Stage(backend, root, **settings))
        return stages[-1]

    yield make
    for stage in stages:
        await stage.local.close(grace_seconds=0)
        folders = [*stage.workshop._folders]
        stage.workshop.close()
        assert stage.running == {}
        assert not [folder for folder in folders if folder.exists()]


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """A stage with the default settings."""
    return make_stage()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Any]:
    """Wait until a condition holds."""

    async def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            await asyncio.sleep(0.01)

    return wait
