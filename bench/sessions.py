"""Stored sessions beside their raw bytes: loading, resuming, appending, listing.

    python bench/sessions.py [--events 100000] [--sessions 10000]

Prints ratios of processor time, so that machines compare, busy ones too. The floor of reading is `json.loads` of each line of the same file, that of
writing `write` of the same bytes and one `fdatasync`, that of listing `os.scandir` and `stat` of the same files. Needs
dsh-core and dsh-persistence; standard library otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from dsh_core import Event, Harness, HarnessConfig, SessionHeader, Text, TextDelta, Usage
from dsh_core.events import AssistantChunk, AssistantMessage, Completed, MessageTrigger, StepEnd, StepStart
from dsh_core.events import TurnEnd, TurnStart, UsageEvent, UserMessage
from dsh_persistence.jsonl import JsonlStore
from dsh_persistence.sql.store import SqlStore

WORDS = "the quick brown fox jumps over the lazy dog and goes on "
CHUNKS_PER_TURN = 92


def log_of(count: int) -> list[Event]:
    """Return a log as streaming makes it: a hundred events a turn, most of them pieces of text."""
    data, turn = [], 0
    while len(data) < count:
        turn += 1
        data += [TurnStart(turn, MessageTrigger()), UserMessage((Text(f"Question {turn}: {WORDS}"),)), StepStart(turn, 1)]
        data += [AssistantChunk(turn, 1, TextDelta(0, WORDS[i % 40 : i % 40 + 6])) for i in range(CHUNKS_PER_TURN)]
        data += [AssistantMessage(turn, 1, (Text(WORDS * 10),), "m/model"), UsageEvent(turn, 1, Usage(900, 90), "m/model")]
        data += [StepEnd(turn, 1), TurnEnd(turn, Completed())]
    return [Event(seq, 1.796e9 + seq / 64, each) for seq, each in enumerate(data)]


def timed(name: str, seconds: float, floor: float, note: str = "") -> None:
    print(f"{name:28} {seconds * 1e3:10.1f} ms   {seconds / floor:6.2f} x floor   {note}", flush=True)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(name: str, store, header: SessionHeader, log: list[Event], floor_read: float, floor_write: float) -> None:
    start = time.process_time()
    await store.append(header, log)
    timed(f"{name} append all", time.process_time() - start, floor_write, f"{len(log)} events, one flush")
    before = peak_mb()
    start = time.process_time()
    stored = await store.load(header.id)
    loaded = time.process_time() - start
    timed(f"{name} load", loaded, floor_read, f"peak +{peak_mb() - before:.0f} MB")
    async with Harness(HarnessConfig(autoload=False)) as harness:
        start = time.process_time()
        harness.sessions.create(header.id, seed=stored.events, header=stored.header)
        timed(f"{name} load and resume", loaded + time.process_time() - start, floor_read)
    one = Event(len(log), 1.8e9, TurnStart(log[-2].data.turn + 1, MessageTrigger()))
    start = time.process_time()
    await store.append(header, [one])
    print(f"{name + ' append one':28} {(time.process_time() - start) * 1e3:10.1f} ms", flush=True)
    await store.close()


def floors(path: Path) -> tuple[float, float]:
    start = time.process_time()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    read = time.process_time() - start
    data = path.read_bytes()
    start = time.process_time()
    with path.with_suffix(".floor").open("wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())
    return read, time.process_time() - start


async def listing(root: Path, count: int) -> None:
    store = JsonlStore(root, sync="never")
    log = log_of(50)[:99]
    for number in range(count):
        header = SessionHeader(f"s{number:06}", 1.796e9, cwd=f"/project/{number % 20}")
        await store.append(header, log)
        if number % 100 == 99:
            await store.close()
    await store.close()
    start = time.process_time()
    found = [entry.stat() for folder in os.scandir(root) for entry in os.scandir(folder)]
    floor = time.process_time() - start
    assert len(found) == count
    start = time.process_time()
    await store.list(limit=50)
    timed(f"list 50 of {count}", time.process_time() - start, floor)
    start, cursor, seen = time.process_time(), None, 0
    while True:
        page = await store.list(limit=1000, cursor=cursor)
        seen, cursor = seen + len(page.sessions), page.cursor
        if cursor is None:
            break
    assert seen == count
    timed(f"list all {count}", time.process_time() - start, floor)
    await store.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, header = log_of(arguments.events), SessionHeader("long", 1.796e9, cwd="/project")
        scratch = JsonlStore(folder / "scratch")
        await scratch.append(header, log)
        await scratch.close()
        (path,) = (folder / "scratch").glob("*/*.jsonl")
        read, write = floors(path)
        print(f"{len(log)} events, {path.stat().st_size / 1e6:.1f} MB; floors: read {read * 1e3:.0f} ms, write {write * 1e3:.0f} ms")
        await measure("jsonl", JsonlStore(folder / "jsonl"), header, log, read, write)
        await measure("sqlite", SqlStore(f"sqlite:///{folder / 'sessions.db'}"), header, log, read, write)
        await listing(folder / "many", arguments.sessions)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
