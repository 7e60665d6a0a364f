"""Writes sessions into SQLite while every single call to the system fails once, in one process.

Started by test_sql_faults.py with the preloaded library; prints one line of JSON per fault.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import sys
from pathlib import Path

from dsh_core import Event, SessionHeader, Text
from dsh_core.events import Completed, MessageTrigger, TurnEnd, TurnStart, UserMessage
from dsh_persistence.failures import StoreError
from dsh_persistence.sql.store import SqlStore

FAULTS = {"space": errno.ENOSPC, "io": errno.EIO, "short": errno.EIO}
TURNS = 3


def log_of(turns: int) -> list[Event]:
    data = [
        one
        for turn in range(1, turns + 1)
        for one in (
            TurnStart(turn, MessageTrigger()),
            UserMessage((Text("word " * 2000),)),
            TurnEnd(turn, Completed()),
        )
    ]
    return [Event(seq, 1.0 + seq, each) for seq, each in enumerate(data)]


async def write(store: SqlStore, header: SessionHeader) -> int:
    """Write turn by turn as a writer does; return how many failures were reported."""
    failures = 0
    for turns in range(1, TURNS + 1):
        for _ in range(4):
            try:
                count = await store.count(header)
                await store.append(header, log_of(turns)[count:])
            except StoreError:
                failures += 1
                continue
            break
    return failures


async def main(folder: Path) -> None:
    library = ctypes.CDLL(None)
    header = SessionHeader("one", 1.0)

    async def attempt(name: str, at: int, lasts: int, number: int, is_short: int) -> int:
        url = f"sqlite:///{folder / name}.db"
        store = SqlStore(url)
        library.dsh_fault(ctypes.c_long(at), ctypes.c_long(lasts), number, is_short)
        failures = await write(store, header)
        library.dsh_calls.restype = ctypes.c_long
        calls = library.dsh_calls()
        library.dsh_fault(ctypes.c_long(0), ctypes.c_long(0), 0, 0)
        await store.close()
        reader = SqlStore(url)
        stored = await reader.load("one")
        await reader.close()
        is_whole = list(stored.events) == log_of(TURNS)
        print(json.dumps({"name": name, "failures": failures, "whole": is_whole, "calls": calls}))
        return calls

    total = await attempt("healthy", 0, 0, 0, 0)
    for kind, number in FAULTS.items():
        for at in range(1, total + 1):
            await attempt(f"{kind}-{at}", at, 1, number, int(kind == "short"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
