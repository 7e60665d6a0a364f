"""The backend bubblewrap: namespaces of the command's own, and Landlock and seccomp inside them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsh_core.execution import Command, system_bytes
from dsh_sandbox import launch, seccomp
from dsh_sandbox.backend import Bench, Protection
from dsh_sandbox.shields import Shields
from dsh_sandbox.zone import Zone, private_folders, resolved

_LAUNCHER = "/run/dsh-sandbox/launch.py"
_ARGUMENTS, _ORDERS = 8, 9
"""The descriptors of what bubblewrap and the launcher read: every shell can open these. As
arguments they would fill every list of processes that a model looks at."""

_STARTER = (
    f'trap "" TERM; exec {_ARGUMENTS}<"$1/arguments" {_ORDERS}<>"$1/orders"; shift; exec "$@"'
)
"""bubblewrap dies of TERM, and would take a command with it that wants to end well. What is ignored
stays ignored in the programs that follow; the launcher gives TERM back to the command."""

_SHOWN_IN_RUN = ("/etc/resolv.conf", "/run/current-system", "/run/opengl-driver")
"""What programs need of `/run`: addresses of name servers, and on NixOS the programs themselves."""

_SETTINGS_OF_KERNEL = (
    *("sys", "sysrq-trigger", "acpi", "bus", "driver", "fs", "irq", "mtrr", "pressure", "scsi"),
    "tty",
)
"""What of `/proc` is about the machine, and writable: `sys/kernel/core_pattern` names a program
that runs outside as root."""

_SYSTEM_PROGRAMS = ("/usr/local/bin", "/run/wrappers/bin", "/run/current-system/sw/bin")
"""Not the PATH: a folder there may be one that commands write."""

_UNSHARED = ("user", "pid", "ipc", "uts", "cgroup-try")
_HELP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """How to run commands with bubblewrap. `program` is its path."""

    program: str
    knows_disable_userns: bool
    machine: seccomp.Machine
    python: str

    @property
    def name(self) -> str:
        """`bubblewrap`."""
        return "bubblewrap"

    @property
    def blurs(self) -> bool:
        """It exits with 128 + N where signal N killed the command."""
        return True

    @property
    def missing(self) -> Sequence[str]:
        """What it cannot do on any system."""
        return ()

    def protect(self, zone: Zone) -> Shields:
        """Put something under every protected name that can be mounted over."""
        return Shields(zone.protected)

    def wrap(self, command: Command, zone: Zone, protection: Protection, bench: Bench) -> Command:
        """Return the command inside its sandbox; a read-only one gets an empty `/tmp`."""
        arguments = (
            *self._namespaces(zone),
            *self._mounts(command, zone, protection.covers, bench),
            *("--chdir", str(command.cwd)),
        )
        bench.write("arguments", b"".join(system_bytes(each) + b"\0" for each in arguments))
        bench.write("orders", self._orders(command, zone))
        argv = (
            *("/bin/sh", "-c", _STARTER, "dsh-sandbox", str(bench.folder)),
            *(self.program, "--args", str(_ARGUMENTS), "--"),
            *(self.python, "-I", "-S", "-X", "utf8", _LAUNCHER, str(_ORDERS)),
            *command.argv,
        )
        environment = {**command.env, "TMPDIR": "/tmp"}  # noqa: S108 - its own
        return Command(argv, Path("/"), environment)

    def _orders(self, command: Command, zone: Zone) -> bytes:
        orders: dict[str, object] = {
            "seccomp": seccomp.filter_program(self.machine, families=families(zone)).hex(),
            "drop": [] if "LC_CTYPE" in command.env else ["LC_CTYPE"],
        }
        if launch.landlock_version():
            places = [*map(str, zone.writable), "/tmp", "/var/tmp", "/dev"]  # noqa: S108
            orders["landlock"] = {
                "handled": launch.WRITE,
                "grants": dict.fromkeys(places, launch.GRANTED),
            }
        return json.dumps(orders).encode() + b"\n"

    def _namespaces(self, zone: Zone) -> Iterator[str]:
        yield from (f"--unshare-{each}" for each in _UNSHARED)
        if not zone.network:
            yield "--unshare-net"
        if self.knows_disable_userns:
            yield "--disable-userns"
        # Started by root, bubblewrap would leave the command the right to mount.
        yield from ("--cap-drop", "ALL", "--new-session")

    def _mounts(
        self, command: Command, zone: Zone, covers: Sequence[tuple[Path, bool]], bench: Bench
    ) -> Iterator[str]:
        """Later ones lie over earlier ones: what is hidden or protected comes last."""
        yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
        # Root's own files, whatever capabilities it gave up: bubblewrap leaves them writable.
        for name in _SETTINGS_OF_KERNEL:
            yield from _bind("--ro-bind-try", Path("/proc", name))
        for folder in private_folders():
            yield from ("--tmpfs", str(folder))
        if zone.mode == "workspace-write":
            yield from _bind("--bind", bench.own, Path("/tmp"))  # noqa: S108
        for path in self._visible(command, zone):
            yield from _bind("--ro-bind-try", path)
        yield from _bind("--ro-bind", bench.launcher, Path(_LAUNCHER))
        for path in zone.writable:
            yield from _bind("--bind", path)
        roots = set(zone.writable)
        parents = [
            parent
            for path in (*(path for path, _ in covers), *zone.sealed)
            for parent in reversed(path.parents)
            if parent not in roots and any(parent.is_relative_to(root) for root in roots)
        ]
        for parent in dict.fromkeys(parents):
            yield from _bind("--bind", parent)  # a mount point cannot be renamed
        for path, is_stand_in in covers:
            as_nothing = is_stand_in and not path.is_dir()
            # git leaves devices out of a commit, and would take an empty file along.
            yield from _bind("--ro-bind", Path("/dev/null") if as_nothing else path, path)
        for path in zone.sealed:
            yield from _bind("--ro-bind", path)
        for path in zone.hidden:
            if path.is_dir():
                yield from ("--tmpfs", str(path), "--remount-ro", str(path))
            else:
                yield from _bind("--ro-bind", Path("/dev/null"), path)

    def _visible(self, command: Command, zone: Zone) -> Iterator[Path]:
        wanted = [*zone.visible, Path(sys.base_prefix), Path(sys.prefix), command.cwd]
        wanted += [Path(each) for each in sys.path if each]  # what an editable install leads to
        wanted += _program_folders(command)
        wanted += [Path(each) for each in _SHOWN_IN_RUN]
        private = tuple(private_folders())
        for path in dict.fromkeys(resolved(each) for each in dict.fromkeys(wanted)):
            if path not in private and any(path.is_relative_to(each) for each in private):
                yield path


def _program_folders(command: Command) -> Iterator[Path]:
    """Yield what is on the PATH, and what a `bin` there belongs to: a virtual environment."""
    for folder in command.env.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            path = Path(folder)
            yield path.parent if path.name == "bin" else path


def families(zone: Zone) -> tuple[int, ...]:
    """Return the families of sockets that a command in a network namespace, or with one, opens."""
    inet = (seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
    return (*inet, seccomp.AF_UNIX) if zone.unix_sockets else inet


def _bind(option: str, source: Path, target: Path | None = None) -> tuple[str, str, str]:
    return option, str(source), str(target or source)


def find_bubblewrap(machine: seccomp.Machine, python: str) -> Bubblewrap | None:
    """Return the backend where the program is installed, which does not mean that it works."""
    program = shutil.which("bwrap", path=os.pathsep.join((os.defpath, *_SYSTEM_PROGRAMS)))
    if program is None:
        return None
    try:
        told = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=_HELP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Bubblewrap(program, "--disable-userns" in told.stdout, machine, python)
