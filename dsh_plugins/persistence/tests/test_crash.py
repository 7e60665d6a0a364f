"""Killing a real `dsh run` while its tools write to files, again and again, on one session.

`make crash` kills 200 times per store; `make test` 8 times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter

import pytest
from program import Shell

from dsh_core import Event, Harness, HarnessConfig, Secrets
from dsh_core.events import ToolCallEvent, ToolResultEvent
from dsh_core.testing import assert_balanced
from dsh_persistence import Persistence
from dsh_persistence.contract import SessionStore
from dsh_persistence.stores import open_store

SESSIONS = 4
KILLS = int(os.environ.get("CRASH_KILLS", "8")) // SESSIONS
"""Per session; for each store."""
STEPS = 6


class Crashing:
    """One session that is gone on with by one process after the other."""

    def __init__(self, dsh: Shell, place: dict[str, str], seed: int):
        self.dsh = dsh
        self.place = place
        self.random = random.Random(seed)
        self.runs = 0
        self.session_id = ""

    def settings(self) -> dict[str, object]:
        return {**self.place, "window_seconds": self.random.choice([0.0, 0.01, 0.2])}

    def store(self) -> SessionStore:
        return open_store(Persistence.Settings(**self.place), Secrets())

    def start(self):
        """Begin another run: a reply per step, each with a call that leaves its number."""
        self.runs += 1
        replies = [
            {
                "text": f"Step {step} of many words that come one by one.",
                "calls": [
                    {
                        "name": "bash",
                        "arguments": {"command": f"echo {self.runs}-{step} >> ran.txt"},
                    }
                ],
            }
            for step in range(STEPS)
        ]
        provider = {"adapter": "scripted", "replies": [*replies, "Done."], "models": {"m": {}}}
        config = {"providers": {"script": provider}, "plugins": {"persistence": self.settings()}}
        self.dsh.write("config.yaml", json.dumps(config))
        more = ["--resume", self.session_id] if self.session_id else []
        options = ["run", "-c", str(self.dsh.work / "config.yaml"), "--json", "--yes", *more]
        return self.dsh.start(*options, f"Go {self.runs}.")

    def run(self, *, lines: int | None) -> bool:
        """Run until so many lines were printed, then kill; return whether it ended before."""
        process = self.start()
        try:
            for printed, line in enumerate(process.stdout):
                value = json.loads(line)
                if value["type"] == "dsh/header":
                    self.session_id = value["session"]["id"]
                if lines is not None and printed >= lines:
                    time.sleep(self.random.choice([0, 0, 0.002, 0.02]))
                    break
            else:
                assert process.wait() == 0, process.stderr.read()
                return True
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        return False


async def check(crashing: Crashing, before: tuple[Event, ...]) -> tuple[Event, ...]:
    """What was stored before is there, in its place, and the session can be gone on with."""
    store = crashing.store()
    try:
        stored = await store.load(crashing.session_id)
    finally:
        await store.close()
    assert stored.events[: len(before)] == before
    async with Harness(HarnessConfig(autoload=False)) as harness:
        session = harness.sessions.create("check", seed=stored.events)
        assert_balanced(session.events)
    called = Counter(
        json.loads(event.data.arguments)["command"].split()[1]
        for event in stored.events
        if isinstance(event.data, ToolCallEvent)
    )
    file = crashing.dsh.work / "ran.txt"
    ran = Counter(file.read_text().split()) if file.exists() else Counter()
    assert [number for number, times in ran.items() if times > 1] == [], "a call ran twice"
    assert [number for number in ran if number not in called] == [], "a call ran unrecorded"
    return stored.events


@pytest.mark.parametrize("seed", range(SESSIONS))
async def test_a_killed_run_leaves_a_session_that_goes_on(tmp_path, place, seed):
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    crashing = Crashing(Shell(tmp_path / "work", tmp_path / "home"), place, seed)
    assert crashing.run(lines=None)
    events = await check(crashing, ())
    whole = len(events)
    for _ in range(KILLS):
        crashing.run(lines=len(events) + crashing.random.randint(1, whole + 10))
        events = await check(crashing, events)
    assert crashing.run(lines=None)
    events = await check(crashing, events)

    ran = (tmp_path / "work" / "ran.txt").read_text().split()
    assert len(ran) >= 2 * STEPS, "the runs that were not killed did nothing"
    codes = {e.data.code for e in events if isinstance(e.data, ToolResultEvent)}
    assert codes <= {None, "TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"}
