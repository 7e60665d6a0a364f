"""Which backend this system has: the first that the probe finds to work."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dsh_sandbox.backend import Backend
from dsh_sandbox.status import Status

log = logging.getLogger("dsh.sandbox")

_INSTALL = "install bubblewrap (Debian, Ubuntu: `apt-get install bubblewrap`)"


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, or None, and how well it confines."""

    backend: Backend | None
    status: Status


def choose(wanted: str) -> Choice:
    """Probe the backends in their order and return the first that works. Blocks for a moment."""
    reasons: list[str] = []
    for name, find in _candidates(wanted):
        found = find()
        choice = found if isinstance(found, str) else _probed(found, "; ".join(reasons))
        if isinstance(choice, str):
            reasons.append(f"{name}: {choice}")
            continue
        log.info("sandbox: %s", ", ".join(choice.status.lines()))
        return choice
    reason = "; ".join(reasons) or f"there is none for {sys.platform}"
    return Choice(None, Status("none", "none", reason=reason))


def _candidates(wanted: str) -> Iterator[tuple[str, Callable[[], Backend | str]]]:
    if not sys.platform.startswith("linux"):
        return
    if wanted in ("auto", "bubblewrap"):
        yield "bubblewrap", _bubblewrap
    if wanted in ("auto", "landlock"):
        yield "landlock", _landlock


def _bubblewrap() -> Backend | str:
    from dsh_sandbox.bubblewrap import find_bubblewrap
    from dsh_sandbox.seccomp import machine

    numbers = machine()
    if numbers is None:
        return "the system calls of this processor are not known here"
    return find_bubblewrap(numbers, interpreter()) or f"it is not there: {_INSTALL}"


def _landlock() -> Backend | str:
    from dsh_sandbox.landlock import Landlock
    from dsh_sandbox.launch import landlock_version
    from dsh_sandbox.seccomp import machine

    numbers = machine()
    if numbers is None:
        return "the system calls of this processor are not known here"
    if not landlock_version():
        return "this kernel has none (Linux 5.13 or newer, with `landlock` in its list of LSMs)"
    return Landlock(numbers, interpreter())


def _probed(backend: Backend, reason: str) -> Choice | str:
    """Return the backend with what the probe found; why it does not work where it does not.

    `reason` is why no better one was chosen.
    """
    from dsh_sandbox.probe import probe

    found = probe(backend, python=interpreter())
    if found.problem:
        return f"no command runs in it ({found.problem})"
    missing = (*backend.missing, *found.escaped)
    return Choice(backend, Status(backend.name, "partial" if missing else "full", missing, reason))


def interpreter() -> str:
    """Return the program of this Python itself, which needs no environment around it."""
    return os.path.realpath(sys.executable)
