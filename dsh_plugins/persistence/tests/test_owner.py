"""The lock of a session, between processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from dsh_persistence.failures import InUseError
from dsh_persistence.owner import Ownership

HOLD = """
import sys, time
from pathlib import Path
from dsh_persistence.owner import Ownership
held = Ownership.take(Path(sys.argv[1]), "one")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "one.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_owner_is_named(tmp_path, other):
    with pytest.raises(InUseError) as refused:
        Ownership.take(tmp_path / "one.lock", "one")

    assert f"in use by process {other.pid} on {os.uname().nodename} since 20" in str(refused.value)


def test_a_dead_owner_owns_nothing(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    held = Ownership.take(tmp_path / "one.lock", "one")

    assert str(os.getpid()) in (tmp_path / "one.lock").read_text()
    held.release()
    assert not (tmp_path / "one.lock").exists()


def test_a_lock_file_that_says_nothing_is_still_a_lock(tmp_path, other):
    (tmp_path / "one.lock").write_text("")
    with pytest.raises(InUseError, match="in use by another process"):
        Ownership.take(tmp_path / "one.lock", "one")


def test_who_waited_for_a_removed_lock_file_looks_again(tmp_path, monkeypatch):
    path = tmp_path / "one.lock"
    first = Ownership.take(path, "one")
    real = os.open
    opened = []

    def open_then_release(*arguments, **options):
        file = real(*arguments, **options)
        if not opened:
            opened.append(file)
            first.release()  # the file that was just opened is gone now
        return file

    monkeypatch.setattr(os, "open", open_then_release)
    second = Ownership.take(path, "one")

    assert path.exists()
    with pytest.raises(InUseError):
        Ownership.take(path, "one")
    second.release()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("keep")
    (tmp_path / "one.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(Exception, match="symbolic links"):
        Ownership.take(tmp_path / "one.lock", "one")

    assert (tmp_path / "precious").read_text() == "keep"
