"""The processes a command started, found wherever they went, and signalled.

A command leads a session, and its environment carries a mark. On Linux its family is every process
that is in the session or the group, carries the mark (which follows `setsid` and double forks), or
descends from one that does. Not found: a process that left the session, cleared its environment
*and* lost its parent before anybody looked. Where there is no `/proc`, the family is the process
group.

Run as a script (`family.py MARK`, isolated, without the package: hence the standard library only)
this is the guardian of a harness. It reads `+GROUP` and `-GROUP` lines; when its input ends, the
harness is gone, however it went, and the guardian kills what is left of the family.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

MARK_VARIABLE = "DSH_PROCESS_MARK"
"""The variable that carries the mark."""

_HAS_PROC = os.path.exists("/proc/self/stat")
_KILL_ROUNDS = 50
_ROUND_SECONDS = 0.02
"""A fork bomb may outrun one round of KILL, and killed processes take a moment to go: 1 s."""


class Family:
    """Who belongs together. It remembers its members: who was seen once is known again.

    Args:
        groups: Ids of process groups, each the id of a session too.
        mark: Start of the mark's value.

    """

    def __init__(self, groups: Collection[int], mark: str):
        self._groups = groups
        self._mark = f"{MARK_VARIABLE}={mark}".encode()
        self._started: dict[int, int] = {}

    def members(self, strangers: Collection[int] = ()) -> dict[int, str]:
        """Return living members, zombies excepted: process id → the program's name.

        `strangers` are known not to belong and not looked at, which saves time.
        """
        if not _HAS_PROC:
            return {group: "?" for group in self._groups if group_lives(group)}
        return {pid: found.name for pid, found in self._living(strangers).items()}

    def signal(self, number: int) -> bool:
        """Signal every member; return whether there was one."""
        if _HAS_PROC:
            groups = {found.group for found in self._living().values()}
        else:
            groups = {group for group in self._groups if group_lives(group)}
        for group in groups - {0, os.getpgrp()}:  # never ourselves, whatever /proc says
            # A whole group at once: a shell whose child died first would run on. It may be gone
            # meanwhile, or have become another user's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        return bool(groups)

    def kill(self) -> None:
        """Kill the family, whatever it forks meanwhile. Blocks for a second at most."""
        for _ in range(_KILL_ROUNDS):
            if not self.signal(signal.SIGKILL):
                return
            time.sleep(_ROUND_SECONDS)

    def _living(self, strangers: Collection[int] = ()) -> dict[int, _Found]:
        processes = {
            pid: found
            for pid in running_processes()
            if pid not in strangers and (found := _look_at(pid)) is not None
        }
        family = {pid for pid, found in processes.items() if self._knows(pid, found)}
        _add_descendants(family, {pid: found.parent for pid, found in processes.items()})
        self._started.update((pid, processes[pid].started) for pid in family)
        return {pid: processes[pid] for pid in family if processes[pid].state not in "ZX"}

    def _knows(self, pid: int, found: _Found) -> bool:
        return (
            found.group in self._groups
            or found.session in self._groups
            or self._started.get(pid) == found.started
            or _carries(pid, self._mark)
        )


def running_processes() -> frozenset[int]:
    """Return the ids of all processes; empty where there is no `/proc`."""
    if not _HAS_PROC:
        return frozenset()
    return frozenset(int(name) for name in os.listdir("/proc") if name.isdigit())


def group_lives(group: int) -> bool:
    """Return whether the process group has a member, zombies included."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody is there
    return True


@dataclass(frozen=True)
class _Found:
    """Fields of `/proc/PID/stat`, see proc(5); `started` tells two with one id apart."""

    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int


def _look_at(pid: int) -> _Found | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            stat = file.read(4096)
    except OSError:
        return None
    # The name stands in parentheses and may itself hold blanks and parentheses.
    start, end = stat.find(b"("), stat.rfind(b")")
    name = stat[start + 1 : end].decode("utf-8", "replace")
    state, parent, group, session, *more = stat[end + 2 :].split()
    return _Found(name, state.decode(), int(parent), int(group), int(session), int(more[15]))


def _carries(pid: int, mark: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return False
    return environment.startswith(mark) or b"\0" + mark in environment


def _add_descendants(family: set[int], parents: dict[int, int]) -> None:
    grew = bool(family)
    while grew:
        children = {pid for pid, parent in parents.items() if parent in family} - family
        family |= children
        grew = bool(children)


def guard(mark: str, lines: Iterable[str]) -> None:
    """Follow the groups named on `lines`; when they end, kill the family."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    Family(groups, mark).kill()


if __name__ == "__main__":
    guard(sys.argv[1], sys.stdin)
