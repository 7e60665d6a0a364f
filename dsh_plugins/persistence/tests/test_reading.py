"""What is read of a file that a crash or a fault has changed."""

from __future__ import annotations

import json
import logging

import pytest

from dsh_core.events import AssistantMessage
from dsh_persistence.failures import DamageError, NewerFormatError, NoSessionError
from dsh_persistence.jsonl import JsonlStore


@pytest.fixture
async def path(root, kit):
    """A session of three turns, flushed after each."""
    store = JsonlStore(root)
    for turns in (1, 2, 3):
        await store.append(kit.header(), kit.log(turns))
    await store.close()
    (path,) = root.glob("*/*.jsonl")
    return path


async def loaded(root):
    return (await JsonlStore(root).load("one")).events


async def test_a_file_is_for_people_too(path):
    lines = path.read_text().splitlines()

    assert lines[0].startswith('{"type":"dsh/session","version":1,"id":"one",')
    assert [json.loads(line)["type"] for line in lines].count("dsh/flushed") == 3
    assert path.parent.name.startswith("project-")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_every_prefix_of_a_file_loads(path, root, kit):
    whole, log = path.read_bytes(), kit.log(3)
    header = whole.index(b"\n")
    for size in range(header, len(whole), 7):
        path.write_bytes(whole[:size])
        events = list(await loaded(root))
        assert events == log[: len(events)], size
        complete = whole[:size].count(b"\n") - 1 - whole[:size].count(b'{"type":"dsh/flushed"')
        assert len(events) >= complete, size


async def test_what_is_appended_after_a_torn_end_never_merges_with_it(path, root, kit, caplog):
    whole, log = path.read_bytes(), kit.log(3)
    start = whole.rindex(b'{"type":"turn/start"')
    for size in (start + 10, start, start - 1, whole.index(b"\n"), len(whole) - 5):
        path.write_bytes(whole[:size])
        caplog.clear()
        store = JsonlStore(root)
        count = await store.count(kit.header())
        await store.append(kit.header(), log[count:])
        await store.close()

        assert list(await loaded(root)) == log
        is_torn = not whole[:size].endswith(b"}") and not whole[:size].endswith(b"\n")
        said = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert len(said) == is_torn, size
        for line in path.read_bytes().splitlines():
            json.loads(line)
    torn = path.with_suffix(".torn").read_bytes()
    assert whole[start : start + 10] + b"\n" in torn


async def test_looking_at_a_torn_file_leaves_it_as_it_is(path, root):
    path.write_bytes(path.read_bytes()[:-20])
    before = path.read_bytes()
    await loaded(root)
    await JsonlStore(root).list()

    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["one.jsonl"]


async def test_a_whole_last_line_without_its_newline_counts(path, root, kit):
    text = path.read_text()
    path.write_text(text[: text.rindex('{"type":"dsh/flushed"')].rstrip("\n"))

    assert list(await loaded(root)) == kit.log(3)


def nul_block(lines):
    lines.insert(len(lines) - 2, b"\0" * 400)
    return len(lines) - 2


def half_a_line(lines):
    lines[5] = lines[5][: len(lines[5]) // 2]
    return 6


def two_lines_in_one(lines):
    lines[5:7] = [lines[5][:20] + lines[6]]
    return 6


def a_line_is_missing(lines):
    del lines[5]
    return 6


def a_line_twice(lines):
    lines.insert(5, lines[5])
    return 7


def two_lines_swapped(lines):
    lines[5], lines[6] = lines[6], lines[5]
    return 6


def no_object(lines):
    lines[4] = b'"a text"'
    return 5


def a_field_of_another_kind(lines):
    lines[4] = lines[4].replace(b'"turn":1', b'"turn":"one"')
    return 5


def deep(lines):
    lines[4] = b"[" * 100_000 + b"]" * 100_000
    return 5


def a_mark_that_counts_too_many(lines):
    lines[9] = lines[9].replace(b'"events":8', b'"events":9')
    return 10


@pytest.mark.parametrize(
    "harm",
    [
        nul_block,
        half_a_line,
        two_lines_in_one,
        a_line_is_missing,
        a_line_twice,
        two_lines_swapped,
        no_object,
        a_field_of_another_kind,
        deep,
        a_mark_that_counts_too_many,
    ],
)
async def test_damage_is_refused_with_file_and_line_and_left_alone(path, root, kit, harm):
    lines = path.read_bytes().splitlines()
    number = harm(lines)
    damaged = b"\n".join(lines) + b"\n"
    path.write_bytes(damaged)
    store = JsonlStore(root)

    with pytest.raises(DamageError) as refused:
        await store.load("one")
    assert refused.value.where == f"{path}:{number}"
    assert "dsh sessions repair one" in str(refused.value)
    with pytest.raises(DamageError):
        await store.append(kit.header(), kit.log(4))
    assert path.read_bytes() == damaged
    (row,) = (await store.list()).sessions
    assert row.header.id == "one"
    await store.close()


@pytest.mark.parametrize("size", [0, 30])
async def test_a_file_without_a_whole_header_is_damage(path, root, kit, size):
    path.write_bytes(path.read_bytes()[:size])
    store = JsonlStore(root)
    with pytest.raises(DamageError, match=r"one\.jsonl:1: the session is damaged"):
        await store.load("one")
    with pytest.raises(DamageError):
        await store.append(kit.header(), kit.log(1))
    (row,) = (await store.list()).sessions
    assert row.problem
    assert path.stat().st_size == size
    await store.close()


async def test_what_was_lost_before_any_flush_is_a_torn_end(root, kit):
    store, log = JsonlStore(root), kit.log(1)
    await store.append(kit.header(), log[:2], flush=True)
    await store.append(kit.header(), log[2:], flush=False)
    await store.close()
    (path,) = root.glob("*/*.jsonl")
    lines = path.read_bytes().splitlines()
    lines[5] = b"\0" * len(lines[5])  # a page that never reached the disk
    path.write_bytes(b"\n".join(lines) + b"\n")

    assert list(await loaded(root)) == log[:3]


async def test_a_newer_format_is_refused_before_its_body_is_read(path, root, kit):
    header = path.read_bytes().partition(b"\n")[0]
    newer = header.replace(b'"version":1', b'"version":1001') + b"\nnot even JSON\n"
    path.write_bytes(newer)
    store = JsonlStore(root)
    with pytest.raises(NewerFormatError, match="format 1001; this dsh knows 1"):
        await store.load("one")
    with pytest.raises(NewerFormatError):
        await store.append(kit.header(), kit.log(4))
    (row,) = (await store.list()).sessions
    assert "format 1001" in row.problem
    assert path.read_bytes() == newer
    await store.close()


async def test_a_file_under_another_name_is_refused(path, root):
    path.rename(path.with_name("two.jsonl"))
    with pytest.raises(DamageError, match="header of 'one'"):
        await JsonlStore(root).load("two")
    with pytest.raises(NoSessionError):
        await JsonlStore(root).load("one")


async def test_a_session_in_two_folders_is_refused(path, root):
    other = root / "other"
    other.mkdir()
    (other / "one.jsonl").write_bytes(path.read_bytes())
    with pytest.raises(DamageError, match="stored twice"):
        await JsonlStore(root).load("one")


async def test_a_byte_order_mark_and_windows_line_ends_are_read_over(path, root, kit):
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert list(await loaded(root)) == kit.log(3)


async def test_a_lone_surrogate_in_an_old_file_is_mended(path, root):
    path.write_bytes(path.read_bytes().replace(b'"text":"Hi."', b'"text":"Hi\\ud83d."'))
    events = await loaded(root)

    message = events[4].data
    assert isinstance(message, AssistantMessage)
    assert message.content[0].text == "Hi\ufffd."


async def test_foreign_files_are_no_sessions(path, root):
    (path.parent / "notes.txt").write_text("mine")
    (root / "loose.jsonl").write_text("{}")
    (path.parent / "one.jsonl.new").write_text("half")

    page = await JsonlStore(root).list()
    assert [row.header.id for row in page.sessions] == ["one"]
