"""Writing to a disk that fails at any call, and to one that loses what was not synced."""

from __future__ import annotations

import errno
import json

import pytest

from dsh_persistence.failures import StoreError
from dsh_persistence.jsonl import JsonlStore

FAULTS = {
    "no space": OSError(errno.ENOSPC, "No space left on device"),
    "input/output": OSError(errno.EIO, "Input/output error"),
    "no permission": OSError(errno.EACCES, "Permission denied"),
    "short": 3,
}


async def write_three_turns(store, kit):
    """What a writer does: on failure it asks how far it came, and goes on from there."""
    acknowledged, failures = 0, 0
    for turns in (1, 2, 3):
        log = kit.log(turns)
        for flush in (False, True):
            for _ in range(4):
                try:
                    count = await store.count(kit.header())
                    await store.append(kit.header(), log[count:], flush=flush)
                except StoreError:
                    failures += 1
                    continue
                if flush:
                    acknowledged = len(log)
                break
    return acknowledged, failures


async def calls_of_a_healthy_run(root, kit, faulty):
    store = JsonlStore(root, disk=faulty)
    assert await write_three_turns(store, kit) == (24, 0)
    await store.close()
    return faulty.calls


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("lasts", [1, 2], ids=["once", "twice"])
async def test_a_fault_at_any_call_loses_nothing(tmp_path, kit, faulty, kind, lasts):
    total = await calls_of_a_healthy_run(tmp_path / "healthy", kit, faulty)
    assert total > 15
    for position in range(1, total + 1):
        root = tmp_path / f"at-{position}"
        faulty.calls = 0
        faulty.fail = lambda name, n, p=position: (
            FAULTS[kind] if p <= n < p + lasts and (kind != "short" or name == "write") else None
        )
        store = JsonlStore(root, disk=faulty)
        acknowledged, _ = await write_three_turns(store, kit)
        faulty.fail = lambda name, n: None
        await store.close()

        assert acknowledged == 24, position
        assert list((await JsonlStore(root).load("one")).events) == kit.log(3), position
        (path,) = root.glob("*/*.jsonl")
        for line in path.read_bytes().splitlines():
            json.loads(line)


@pytest.mark.parametrize("name", ["write", "sync", "truncate"])
async def test_a_fault_that_stays_harms_nothing_that_is_stored(root, kit, faulty, name):
    store, log = JsonlStore(root, disk=faulty), kit.log(3)
    await store.append(kit.header(), log[:8])
    (path,) = root.glob("*/*.jsonl")
    events = path.read_bytes().partition(b'{"type":"dsh/flushed"')[0]
    broken = {name, "write"} if name == "truncate" else {name}
    faulty.fail = lambda called, n: FAULTS["input/output"] if called in broken else None
    for _ in range(3):
        with pytest.raises(StoreError, match=r"one\.jsonl: .*Input/output error"):
            await store.append(kit.header(), log[8:])
    assert list((await JsonlStore(root).load("one")).events)[:8] == log[:8]
    assert path.read_bytes().startswith(events)
    faulty.fail = lambda called, n: None
    count = await store.count(kit.header())
    await store.append(kit.header(), log[count:])

    assert list((await JsonlStore(root).load("one")).events) == log
    await store.close()


async def test_after_a_failed_sync_everything_unsynced_is_written_again(root, kit, faulty):
    store, log = JsonlStore(root, disk=faulty), kit.log(2)
    await store.append(kit.header(), log[:8])
    (path,) = root.glob("*/*.jsonl")
    safe = path.stat().st_size
    await store.append(kit.header(), log[8:12], flush=False)
    faulty.fail = lambda name, n: FAULTS["input/output"] if name == "sync" else None
    with pytest.raises(StoreError):
        await store.append(kit.header(), log[12:])

    assert path.stat().st_size <= safe
    assert await store.count(kit.header()) == 8
    faulty.fail = lambda name, n: None
    await store.append(kit.header(), log[8:])
    assert list((await JsonlStore(root).load("one")).events) == log
    await store.close()


async def test_a_leftover_that_cannot_be_removed_is_no_failure(root, kit, faulty):
    faulty.fail = lambda name, n: FAULTS["no permission"] if name == "remove" else None
    store = JsonlStore(root, disk=faulty)
    await store.append(kit.header(), kit.log(1))
    await store.append(kit.header(), kit.log(2))

    assert list((await JsonlStore(root).load("one")).events) == kit.log(2)
    await store.close()


@pytest.mark.parametrize(
    ("sync", "synced"),
    [("flush", [False, True]), ("checkpoint", [True, True]), ("never", [False] * 2)],
)
async def test_when_files_are_synced_is_the_users_choice(root, kit, faulty, sync, synced):
    calls = []
    faulty.fail = lambda name, n: calls.append(name)
    store, log = JsonlStore(root, disk=faulty, sync=sync), kit.log(2)
    await store.append(kit.header(), log[:8])
    seen = []
    for end, flush in ((12, False), (16, True)):
        calls.clear()
        await store.append(kit.header(), log[:end], flush=flush)
        seen.append("sync" in calls)

    assert seen == synced
    await store.close()


async def test_a_flush_with_nothing_new_costs_nothing(root, kit, faulty):
    store = JsonlStore(root, disk=faulty)
    await store.append(kit.header(), kit.log(1))
    faulty.calls = 0
    await store.append(kit.header(), [])

    assert faulty.calls == 0
    await store.close()
