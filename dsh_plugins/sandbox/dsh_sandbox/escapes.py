"""Attempts to break out of a sandbox, made from inside; run as a script by the probe.

It prints the names of those that succeeded as a JSON list. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

PROOF = "written-by-the-probe"
"""A file in the workspace that must be there afterwards: where nothing works, nothing is proved."""

PLANTED = "post-commit"
PLANTING, MOVING = "planting a hook", "planting a hook in another folder of that name"
"""Attempts whose success is undone by some backends: afterwards the hook must not be there."""

_MS_REMOUNT, _MS_BIND = 32, 4096
_CLONE_NEWUSER = 0x10000000
_PTRACE_SEIZE = 0x4206

_libc = ctypes.CDLL(None, use_errno=True)


def attempts(task: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Return what is tried, by name. An attempt that fails raises `OSError`."""
    outside = task["outside"]
    folder = os.path.dirname(outside)
    return {
        "writing outside": lambda: _write(outside),
        "writing through a link": lambda: _through_link(outside),
        "writing through /proc": lambda: _write(f"/proc/{task['pid']}/root{outside}"),
        "writing through the first process": lambda: _write(f"/proc/1/root{outside}"),
        "cutting a file outside": lambda: os.truncate(outside, 0),
        "deleting outside": lambda: os.unlink(outside),
        "moving out": lambda: _move(PROOF, f"{folder}/moved"),
        "linking in": lambda: os.link(outside, "linked"),
        "mounting": lambda: _mount(outside),
        "a setting of the kernel": lambda: _open_for_writing("/proc/sys/kernel/core_pattern"),
        "a user namespace": lambda: _checked(_libc.unshare(_CLONE_NEWUSER)),
        PLANTING: lambda: _write(f".git/hooks/{PLANTED}"),
        MOVING: _move_protected,
        "a unix socket": lambda: _connect(socket.AF_UNIX, task["unix"]),
        "an abstract unix socket": lambda: _connect(socket.AF_UNIX, "\0" + task["abstract"]),
        "a datagram to a unix socket": lambda: _datagram(task["unix"]),
        "TCP without network": lambda: _connect(socket.AF_INET, ("127.0.0.1", task["tcp"])),
        "UDP without network": lambda: _send(task["udp"]),
        "a signal": lambda: os.kill(task["pid"], 0),
        "tracing": lambda: _checked(_libc.ptrace(_PTRACE_SEIZE, task["pid"], 0, 0)),
    }


def _write(path: str) -> None:
    with open(path, "w") as file:
        file.write("escaped\n")


def _open_for_writing(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY))


def _through_link(outside: str) -> None:
    os.symlink(outside, "link")
    _write("link")


def _move(source: str, target: str) -> None:
    with open(source, "a"):
        pass
    os.rename(source, target)


def _move_protected() -> None:
    os.rename(".git", ".git-moved")
    os.makedirs(".git/hooks")
    _write(f".git/hooks/{PLANTED}")


def _mount(outside: str) -> None:
    flags = _MS_REMOUNT | _MS_BIND
    _checked(_libc.mount(None, b"/", None, flags, None))
    _write(outside)


def _connect(family: int, address: Any) -> None:
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)


def _datagram(path: str) -> None:
    """A pair of sockets needs no permission to be opened, and could be sent elsewhere."""
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with left, right:
        try:
            left.connect(path)
        except ConnectionRefusedError:
            pass  # no other kind of refusal says that somebody is there
        except OSError as error:
            if "wrong type" not in str(error):
                raise


def _send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.2)
        client.connect(("127.0.0.1", port))
        client.send(b"escaped")
        # In a network of its own nobody listens, which the next call hears of.
        client.send(b"escaped")


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(task: dict[str, Any]) -> list[str]:
    """Make every attempt; return those that succeeded."""
    succeeded = []
    for name, attempt in attempts(task).items():
        try:
            attempt()
        except (OSError, ValueError):
            continue
        succeeded.append(name)
    _write(PROOF)
    return succeeded


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))  # noqa: T201 - what the probe reads
