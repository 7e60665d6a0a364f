"""What every store must do, whatever it stores in."""

from __future__ import annotations

import asyncio

import pytest

from dsh_core import Event, HarnessError, Text, UserError
from dsh_core.events import AssistantMessage, EventData, UnknownEvent, UserMessage
from dsh_persistence.failures import (
    InUseError,
    NoSessionError,
    StoreError,
    TakenError,
)


async def listed(store, **options):
    page = await store.list(**options)
    return [row.header.id for row in page.sessions]


async def test_what_is_appended_is_loaded_again(new_store, kit):
    header, log = kit.header(parent="mother", agent="coder", seed_length=3), kit.log(3)
    writer = new_store()
    await writer.append(header, log[:5])
    await writer.append(header, log[5:])

    stored = await new_store().load("one")

    assert (stored.header, list(stored.events)) == (header, log)


async def test_every_text_survives(store, kit):
    odd = 'línea\u2028\u0085 北京 🦊 \x00\x1b[31m "quoted" \\n \r\n\t'
    log = kit.log(1, said=odd, answer=odd)
    await store.append(kit.header(cwd='/påth with "all"\nof it'), log)

    stored = await store.load("one")

    assert list(stored.events) == log
    assert stored.header.cwd == '/påth with "all"\nof it'


async def test_events_of_a_plugin_that_is_gone_survive_a_round_trip(new_store, kit):
    data = [*kit.turn(1)]
    strange = UnknownEvent("gone/thing", {"deep": {"er": [1, None, 2.5, "x"]}, "type": "own"})
    data.insert(3, strange)
    first, second = new_store(), new_store()
    await first.append(kit.header(), kit.numbered(data))
    loaded = await first.load("one")
    await second.append(kit.header("two"), loaded.events)

    again = await second.load("two")

    assert again.events == loaded.events
    assert again.events[3].to_json()["data"] == strange.fields


async def test_a_session_that_is_not_there_is_named(store):
    with pytest.raises(NoSessionError, match="'nobody'"):
        await store.load("nobody")
    with pytest.raises(NoSessionError, match="'nobody'"):
        await store.delete("nobody")
    with pytest.raises(NoSessionError, match="'nobody'"):
        await store.lock("nobody")


async def test_nothing_is_stored_before_there_are_events(store, kit):
    await store.append(kit.header(), [])

    assert await store.count(kit.header()) == 0
    assert await listed(store) == []


async def test_events_that_are_stored_already_are_skipped(store, kit):
    log = kit.log(2)
    await store.append(kit.header(), log[:6])
    await store.append(kit.header(), log[2:])
    await store.append(kit.header(), log)

    assert list((await store.load("one")).events) == log
    assert await store.count(kit.header()) == len(log)


async def test_a_gap_is_refused_and_nothing_is_written(store, kit):
    log = kit.log(2)
    await store.append(kit.header(), log[:4])
    with pytest.raises(StoreError, match="events from 4 on are missing"):
        await store.append(kit.header(), log[6:])
    with pytest.raises(StoreError, match="events from 0 on are missing"):
        await store.append(kit.header("new"), log[6:])

    assert list((await store.load("one")).events) == log[:4]
    assert await listed(store) == ["one"]


async def test_an_id_that_another_stored_session_has_is_refused(new_store, kit):
    first, second = new_store(), new_store()
    await first.append(kit.header(), kit.log(1))
    await first.close()
    other = kit.header(created_at=1.0)
    with pytest.raises(TakenError, match="another session is stored as 'one'"):
        await second.append(other, kit.log(2))

    assert len((await second.load("one")).events) == 8


async def test_one_writes_and_others_are_told_who(new_store, kit):
    first, second = new_store(), new_store()
    await first.append(kit.header(), kit.log(1))

    with pytest.raises(InUseError, match=r"in use by process \d+ on .+ since 20\d\d-") as refused:
        await second.lock("one")
    with pytest.raises(InUseError):
        await second.append(kit.header(), kit.log(2))
    with pytest.raises(InUseError):
        await second.delete("one")

    assert "dsh sessions fork one" in str(refused.value)
    assert len((await second.load("one")).events) == 8


async def test_a_lock_goes_round(new_store, kit):
    first, second = new_store(), new_store()
    await first.append(kit.header(), kit.log(1))
    await first.close()
    held = await second.lock("one")
    with pytest.raises(InUseError):
        await second.lock("one")
    with pytest.raises(InUseError):
        await first.lock("one")
    await held.release()
    await held.release()

    again = await first.lock("one")
    await held.release()  # a late release of an old lock takes nothing away
    with pytest.raises(InUseError):
        await second.lock("one")
    await again.release()


async def test_the_locks_of_different_sessions_do_not_meet(new_store, kit):
    first, second = new_store(), new_store()
    await first.append(kit.header("a"), kit.log(1))
    await second.append(kit.header("b"), kit.log(1))
    await first.append(kit.header("a"), kit.log(2))
    await second.append(kit.header("b"), kit.log(3))

    assert len((await second.load("a")).events) == 16
    assert len((await first.load("b")).events) == 24


async def test_what_was_resumed_goes_on(new_store, kit):
    log = kit.log(3)
    first, second = new_store(), new_store()
    await first.append(kit.header(), log[:12])
    await first.close()
    held = await second.lock("one")
    stored = await second.load("one")
    assert await second.count(stored.header) == 12
    await second.append(stored.header, log[12:])
    await held.release()

    assert list((await first.load("one")).events) == log


async def test_a_deleted_session_is_gone_and_its_id_free(store, kit):
    await store.append(kit.header(), kit.log(1))
    await store.append(kit.header("two"), kit.log(1))
    await store.close()
    await store.delete("one")

    assert await listed(store) == ["two"]
    await store.append(kit.header(created_at=5.0), kit.log(1))
    assert (await store.load("one")).header.created_at == 5.0


async def test_a_list_says_what_one_chooses_by(store, kit):
    log = kit.log(3, said="\n  Fix the\tfailing test.\nPlease.")
    await store.append(kit.header(agent="coder"), log)

    (row,) = (await store.list()).sessions

    assert row.header == kit.header(agent="coder")
    assert (row.title, row.turns) == ("Fix the failing test.", 3)
    assert row.usage.total_tokens == 45
    assert row.problem is None
    assert row.updated_at > 1_600_000_000


async def test_a_list_says_the_same_of_a_session_that_was_cut_off(store, kit):
    log = kit.log(2)
    await store.append(kit.header(), log[:8])
    await store.append(kit.header(), log[8:14], flush=False)

    (row,) = (await store.list()).sessions

    assert (row.title, row.turns, row.usage.total_tokens) == ("Hello.", 2, 30)


async def test_the_last_written_session_comes_first(store, kit):
    for name in ("a", "b", "c"):
        await store.append(kit.header(name), kit.log(1))
        await asyncio.sleep(0.02)  # a file system's clock ticks slowly
    await store.append(kit.header("a"), kit.log(2))

    assert await listed(store) == ["a", "c", "b"]


async def test_pages_hold_every_session_once(store, kit):
    names = [f"s{number:02}" for number in range(23)]
    for name in names:
        await store.append(kit.header(name), kit.log(1))
    seen, cursor = [], None
    while True:
        page = await store.list(cursor=cursor, limit=5)
        assert len(page.sessions) <= 5
        seen += [row.header.id for row in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break

    assert sorted(seen) == names


async def test_a_cursor_of_somebody_else_is_refused(store, kit):
    await store.append(kit.header(), kit.log(1))
    with pytest.raises(StoreError, match="no place in a list"):
        await store.list(cursor="nonsense")


async def test_a_list_can_be_of_one_folder(store, kit):
    await store.append(kit.header("a", cwd="/x/y"), kit.log(1))
    await store.append(kit.header("b", cwd="/x-y"), kit.log(1))
    await store.append(kit.header("c", cwd=None), kit.log(1))

    assert await listed(store, cwd="/x/y") == ["a"]
    assert await listed(store, cwd="/x-y") == ["b"]
    assert await listed(store, cwd="/nowhere") == []
    assert sorted(await listed(store)) == ["a", "b", "c"]


async def test_what_does_not_fit_the_log_is_no_event(store, kit):
    class Foreign(EventData):
        type = "foreign"

    log = [*kit.log(1), Event(8, 1.0, Foreign())]
    with pytest.raises((HarnessError, TypeError)):
        await store.append(kit.header(), log)


async def test_two_appends_at_once_do_not_mix(store, kit):
    log = kit.log(20)
    await store.append(kit.header(), log[:1])
    await asyncio.gather(*(store.append(kit.header(), log[: 8 * n]) for n in range(1, 21)))

    assert list((await store.load("one")).events) == log


async def test_a_cancelled_append_leaves_whole_events(new_store, kit):
    store, log = new_store(), kit.log(200)
    await store.append(kit.header(), log[:1])
    task = asyncio.create_task(store.append(kit.header(), log))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    count = await store.count(kit.header())
    await store.append(kit.header(), log[count:])

    assert list((await new_store().load("one")).events) == log


async def test_a_cancelled_lock_is_given_back(new_store, kit):
    first, second = new_store(), new_store()
    await first.append(kit.header(), kit.log(1))
    await first.close()
    task = asyncio.create_task(first.lock("one"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await first.count(kit.header("other"))  # what the writer's thread was given before is done

    async with asyncio.timeout(10):
        while True:
            try:
                held = await second.lock("one")
            except InUseError:
                await asyncio.sleep(0.01)
                continue
            break
    await held.release()


async def test_readers_see_whole_events_while_one_writes(new_store, kit):
    writer, reader = new_store(), new_store()
    log = kit.log(60)
    await writer.append(kit.header(), log[:8])

    async def write():
        for end in range(16, len(log) + 1, 8):
            await writer.append(kit.header(), log[:end], flush=end % 16 == 0)

    task = asyncio.create_task(write())
    while not task.done():
        events = list((await reader.load("one")).events)
        assert events == log[: len(events)]
        assert await listed(reader) == ["one"]
    await task
    assert list((await reader.load("one")).events) == log


async def test_errors_are_for_people(store):
    with pytest.raises(UserError) as error:
        await store.load("nobody")
    assert "dsh sessions list" in str(error.value)


async def test_long_messages_are_kept_whole(store, kit):
    text = "0123456789abcdef" * 200_000
    data = kit.turn(1, said=text)
    await store.append(kit.header(), kit.numbered(data))
    events = (await store.load("one")).events

    assert isinstance(events[1].data, UserMessage)
    assert events[1].data.content == (Text(text),)
    assert isinstance(events[4].data, AssistantMessage)
