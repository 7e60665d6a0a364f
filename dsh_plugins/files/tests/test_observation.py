import gc
import os
import threading
from pathlib import Path

from dsh_files.observation import Observations, PathLocks, Seen, Version, digest_of, observations_of

PATH = Path("/ws/f")


def seen(tmp_path):
    (tmp_path / "f").write_text("x")
    return Seen(Version.of((tmp_path / "f").stat()), digest_of(b"x"))


def test_unseen_absent_and_seen_are_three_things(tmp_path):
    known = Observations()
    assert PATH not in known
    known.saw_nothing(PATH)
    assert PATH in known
    assert known.get(PATH) is None
    file = seen(tmp_path)
    known.saw(PATH, file)
    assert known.get(PATH) == file


def test_a_version_changes_with_size_time_mode_and_inode(tmp_path):
    path = tmp_path / "f"
    path.write_text("x")
    versions = [Version.of(path.stat())]
    path.write_text("xy")
    versions.append(Version.of(path.stat()))
    os.utime(path, ns=(1, 1))
    versions.append(Version.of(path.stat()))
    other = tmp_path / "g"
    other.write_text("xy")
    os.utime(other, ns=(1, 1))
    os.replace(other, path)
    versions.append(Version.of(path.stat()))
    assert len(set(versions)) == 4


def test_each_agent_has_its_own_observations(new_hand):
    one, two = new_hand().agent, new_hand().agent
    observations_of(one).saw_nothing(PATH)
    assert PATH in observations_of(one)
    assert PATH not in observations_of(two)


def test_one_path_is_locked_while_others_are_free():
    locks = PathLocks()
    order = []

    def write():
        with locks.held(PATH):
            order.append("second")

    with locks.held(PATH):
        thread = threading.Thread(target=write)
        thread.start()
        with locks.held(Path("/ws/other")):
            order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_a_lock_nobody_holds_is_forgotten():
    locks = PathLocks()
    with locks.held(PATH):
        pass
    gc.collect()
    assert len(locks._locks) == 0
