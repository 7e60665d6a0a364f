"""A power cut: what was not synced is there, or not, or partly, in any combination.

A model of a disk notes every call and then makes up folders as a power cut could leave them:
content is safe once its file is synced, in pieces of 512 bytes otherwise; a name once its folder
is; names appear in the order in which they were given.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dsh_persistence.disk import Disk
from dsh_persistence.failures import NoSessionError
from dsh_persistence.jsonl import JsonlStore

SECTOR = 512


@dataclass(eq=False)
class File:
    """Content that is safe, and what was done since."""

    safe: bytes = b""
    since: list[tuple[int, bytes] | int] = field(default_factory=list)
    now: bytes = b""


class PowerCutDisk(Disk):
    """Passes calls on, and notes after each what a power cut may leave."""

    def __init__(self) -> None:
        self.files: dict[int, File] = {}
        self.names: dict[Path, File] = {}
        self.safe_names: dict[Path, File] = {}
        self.pending: list[tuple[str, Path, File | None]] = []
        self.safe_folders: set[Path] = set()

    def create(self, path: Path) -> int:
        number = super().create(path)
        self.files[number] = File()
        self._name("add", path, self.files[number])
        return number

    def open(self, path: Path) -> int:
        number = super().open(path)
        self.files[number] = self.names[path]
        return number

    def write(self, file: int, data: bytes) -> int:
        written = super().write(file, data)
        one = self.files[file]
        one.since.append((len(one.now), data[:written]))
        one.now += data[:written]
        return written

    def truncate(self, file: int, size: int) -> None:
        super().truncate(file, size)
        one = self.files[file]
        one.since.append(size)
        one.now = one.now[:size]

    def sync(self, file: int) -> None:
        super().sync(file)
        one = self.files[file]
        one.safe, one.since = one.now, []

    def publish(self, source: Path, target: Path) -> None:
        super().publish(source, target)
        self._name("add", target, self.names[source])

    def remove(self, path: Path) -> None:
        super().remove(path)
        self._name("remove", path, None)

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        for entry in [entry for entry in self.pending if entry[1].parent == path]:
            self.pending.remove(entry)
            self._apply(self.safe_names, entry)
        self.safe_folders |= {name for name in path.iterdir() if name.is_dir()}

    def _name(self, what: str, path: Path, file: File | None) -> None:
        entry = (what, path, file)
        self.pending.append(entry)
        self._apply(self.names, entry)

    @staticmethod
    def _apply(names: dict[Path, File], entry: tuple[str, Path, File | None]) -> None:
        what, path, file = entry
        if what == "remove":
            names.pop(path, None)
        else:
            assert file is not None
            names[path] = file

    def after_power_cut(self, chance: random.Random) -> dict[Path, bytes]:
        """Return one of the many states in which the disk may be found."""
        names = dict(self.safe_names)
        for entry in self.pending[: chance.randint(0, len(self.pending))]:
            self._apply(names, entry)
        left: dict[int, bytes] = {}
        for file in names.values():
            left.setdefault(id(file), _what_is_left(file, chance))
        return {path: left[id(file)] for path, file in names.items()}


def _what_is_left(file: File, chance: random.Random) -> bytes:
    """Apply any of the changes since the last sync, sector by sector; holes read as NUL."""
    content = bytearray(file.safe)
    for change in file.since:
        if isinstance(change, int):
            if chance.random() < 0.5:
                del content[change:]
            continue
        start, data = change
        if chance.random() < 0.7:  # the size is known to the disk, its content perhaps not
            content.extend(bytes(max(0, start + len(data) - len(content))))
        for offset in range(0, len(data), SECTOR):
            if chance.random() < 0.7:
                piece = data[offset : offset + SECTOR]
                end = start + offset + len(piece)
                content.extend(bytes(max(0, end - len(content))))
                content[start + offset : end] = piece
    return bytes(content)


async def left_behind(root: Path, kit, chance: random.Random):
    """Write some turns, cut the power after every call, and yield what was promised and is left."""
    disk, promised = PowerCutDisk(), 0
    states = []
    for name in ("create", "write", "truncate", "sync", "publish", "remove", "sync_folder"):
        method = getattr(disk, name)

        def noting(*arguments, _method=method):
            result = _method(*arguments)
            states.extend((promised, disk.after_power_cut(chance)) for _ in range(6))
            return result

        setattr(disk, name, noting)
    store = JsonlStore(root, disk=disk)
    log = kit.log(4, answer="A longer answer. " * 20)
    for end in range(3, len(log) + 1, 3):
        is_flush = end % 2 == 0
        await store.append(kit.header(), log[:end], flush=is_flush)
        promised = end if is_flush else promised
        states.extend((promised, disk.after_power_cut(chance)) for _ in range(6))
    await store.close()
    return log, states


def lay(state: dict[Path, bytes], root: Path, target: Path) -> None:
    target.mkdir()
    for path, content in state.items():
        copy = target / path.relative_to(root)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(content)


@pytest.mark.parametrize("seed", range(4))
async def test_a_power_cut_at_any_moment_keeps_what_a_flush_promised(tmp_path, kit, seed, caplog):
    root = tmp_path / "root"
    log, states = await left_behind(root, kit, random.Random(seed))
    assert len(states) > 150
    torn = 0
    for number, (promised, state) in enumerate(states):
        target = tmp_path / str(number)
        lay(state, root, target)
        store = JsonlStore(target)
        try:
            events = list((await store.load("one")).events)
        except NoSessionError:
            assert promised == 0
            continue
        assert events == log[: len(events)]
        assert len(events) >= promised
        count = await store.count(kit.header())
        assert count == len(events)
        await store.append(kit.header(), log[count:])
        await store.close()
        assert list((await JsonlStore(target).load("one")).events) == log
        torn += any(target.rglob("*.torn"))
    assert torn > 10, "the cuts were all too clean to show anything"
