"""The backend Landlock: it needs no namespace and no package, but prevents less."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsh_core.execution import Command
from dsh_sandbox import launch, seccomp
from dsh_sandbox.backend import Bench, Protection
from dsh_sandbox.guard import Guard
from dsh_sandbox.zone import Zone

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd")
"""What programs use of `/dev`; the rest may be disks, which root could read."""


@dataclass(frozen=True, slots=True)
class Landlock:
    """How to run commands with Landlock and seccomp alone."""

    machine: seccomp.Machine
    python: str

    @property
    def name(self) -> str:
        """`landlock`."""
        return "landlock"

    @property
    def blurs(self) -> bool:
        """The launcher becomes the command, so its exit code is the command's."""
        return False

    @property
    def missing(self) -> Sequence[str]:
        """What Landlock does not govern."""
        return (
            "changing mode, owner and times of files outside",
            "changing protected files while a command runs (it is undone afterwards)",
            "seeing other processes",
        )

    def protect(self, zone: Zone) -> Guard:
        """Remember what stands under the protected names: Landlock knows no exceptions."""
        return Guard(zone.protected)

    def wrap(self, command: Command, zone: Zone, protection: Protection, bench: Bench) -> Command:
        """Return the command inside its sandbox."""
        own = bench.own if zone.mode == "workspace-write" else bench.folder / "tmp"
        own.mkdir(mode=0o700, exist_ok=True)
        grants = dict.fromkeys(_readable("/", {*map(str, zone.hidden), "/dev"}), launch.READ)
        grants["/"] = launch.READ_DIR
        devices = (f"/dev/{name}" for name in _DEVICES)
        for path in (*map(str, zone.writable), str(own), *devices):
            grants[path] = launch.GRANTED | launch.READ
        orders = {
            "landlock": {"handled": launch.WRITE | launch.READ, "grants": grants},
            "seccomp": seccomp.filter_program(self.machine, families=_families(zone)).hex(),
            "drop": [] if "LC_CTYPE" in command.env else ["LC_CTYPE"],
        }
        bench.write("orders", json.dumps(orders).encode() + b"\n")
        launcher = (self.python, "-I", "-S", "-X", "utf8", str(bench.launcher))
        argv = (*launcher, str(bench.folder / "orders"), *command.argv)
        return Command(argv, command.cwd, {**command.env, "TMPDIR": str(own)})


def _readable(folder: str, hidden: Collection[str]) -> Iterator[str]:
    """Yield paths below which everything is, but what is hidden.

    Links are left out: it is what they lead to that needs the right.
    """
    around = {str(parent) for each in hidden for parent in Path(each).parents}
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return  # what we cannot list a command cannot either
    for entry in entries:
        if entry.path in hidden or entry.is_symlink():
            continue
        if entry.path in around:
            yield from _readable(entry.path, hidden)
        else:
            yield entry.path


def _families(zone: Zone) -> tuple[int, ...]:
    """Return the families of sockets. There is no network of the command's own, so all or none."""
    inet = (seccomp.AF_INET, seccomp.AF_INET6) if zone.network else ()
    unix = (seccomp.AF_UNIX,) if zone.unix_sockets else ()
    return (seccomp.AF_NETLINK, *inet, *unix)
