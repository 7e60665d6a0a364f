"""Runs one command in a sandbox, or the probe, as whoever starts it: a script of the tests.

`python confined.py ORDER`, JSON in and out. It needs dsh_core and dsh_sandbox on the path and no
other package, so that a user who cannot see the environment of the tests can run it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dsh_core.execution import Command
from dsh_core.execution.local import LocalExecutor
from dsh_sandbox.backend import Backend
from dsh_sandbox.bubblewrap import find_bubblewrap
from dsh_sandbox.choice import interpreter
from dsh_sandbox.executor import Outcome, SandboxExecutor
from dsh_sandbox.landlock import Landlock
from dsh_sandbox.launch import landlock_version
from dsh_sandbox.probe import probe
from dsh_sandbox.seccomp import machine
from dsh_sandbox.settings import Settings
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import zone_of


class Unconfined:
    """A backend that confines nothing: against it every attempt must succeed."""

    name = "unconfined"
    blurs = False
    missing = ()
    covers = ()

    def protect(self, zone: Any) -> Any:
        return self

    def end(self) -> Any:
        return ()

    def wrap(self, command: Command, zone: Any, protection: Any, bench: Any) -> Command:
        bench.write("orders", b"\nstarted\n")
        return command


def backend_named(name: str) -> Backend | None:
    """Return a backend where the system has it; whether it works is another question."""
    numbers = machine()
    if name == "unconfined":
        return Unconfined()
    if numbers is None:
        return None
    if name == "bubblewrap":
        return find_bubblewrap(numbers, interpreter())
    return Landlock(numbers, interpreter()) if landlock_version() else None


async def run_all(order: dict[str, Any], backend: Backend) -> list[dict[str, Any]]:
    """Run each command in its folder, all at once."""
    local, workshop = LocalExecutor(), Workshop()
    try:
        return await asyncio.gather(
            *(
                run(Path(root), command, order, (local, backend, workshop))
                for root, command in order["commands"]
            )
        )
    finally:
        await local.close(grace_seconds=0)
        workshop.close()


async def run(root: Path, command: str, order: dict[str, Any], parts: Any) -> dict[str, Any]:
    local, backend, workshop = parts
    outcomes: list[Outcome] = []
    zone = zone_of(root, Settings(**order.get("settings", {})))
    # Else the command would see an empty `/tmp`, and could not even try.
    zone = replace(zone, visible=(*zone.visible, *(Path(each) for each in order["visible"])))
    executor: Any = SandboxExecutor(local, backend, zone, workshop, outcomes.append)
    if order.get("read_only"):
        executor = executor.read_only()
    process = await executor.start(Command(("bash", "-c", command), root, dict(os.environ)))
    stdout, stderr = await asyncio.gather(process.stdout.read(), process.stderr.read())
    code = await process.wait()
    await process.survivors()
    return {
        "code": code,
        "stdout": stdout.decode(),
        "stderr": stderr.decode(),
        "restored": [path for outcome in outcomes for path in outcome.restored],
    }


def main(order: dict[str, Any]) -> Any:
    backend = backend_named(order["backend"])
    if backend is None:
        return {"problem": "the system does not have it", "escaped": []}
    if "commands" not in order:
        return asdict(probe(backend, python=interpreter()))
    return asyncio.run(run_all(order, backend))


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
