"""Runs inside a sandbox, before the command: gives up what is left to give up, then becomes it.

A script of its own (`launch.py ORDERS PROGRAM ARGUMENT…`, isolated, without the package: hence the
standard library only, and little of it, since every command waits for it). ORDERS is the number of
an open descriptor, or a path. What is read there is one line of JSON:

- `landlock`: what may be written or read, and what else is forbidden; see `restrict`. Optional.
- `seccomp`: the filter, in hexadecimal.
- `drop`: environment variables that this interpreter added and the command shall not have.

The launcher writes there too: `started` or `failed REASON`. In a namespace of processes it stays,
deaf to TERM, and in the end writes `exit N` or `signal N`, since the programs around it do not tell
one from the other. Given a path it is replaced by the command.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
_CAPABILITIES_V3 = 0x20080522
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKE_AND_REMOVE = 0x1FF0
WRITE = WRITE_FILE | _MAKE_AND_REMOVE | _REFER | _TRUNCATE | _IOCTL_DEV
_MAKE_DEVICE = 1 << 6 | 1 << 11
GRANTED = WRITE & ~_MAKE_DEVICE
"""What may be allowed at all: a device that root makes would be a way to every disk."""
READ = EXECUTE | READ_FILE | READ_DIR
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL_DEV
_SINCE = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
"""Rights that came with a version of Landlock; landlock(7)."""

_SCOPES_SINCE = 6
SCOPES = 0b11
"""No abstract unix socket and no process outside the sandbox can be reached."""

_DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LONGEST_ORDERS = 1 << 24

CANNOT_RUN, NOT_FOUND = 126, 127
"""Exit codes of a shell whose program does not run."""

_libc = ctypes.CDLL(None, use_errno=True)


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


_CapabilitySets = ctypes.c_uint32 * 6
"""Effective, permitted and inheritable ones, twice 32; all empty when made."""


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def landlock_version() -> int:
    """Return the version of Landlock that the kernel has; 0 for none."""
    found: int = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _CREATE_VERSION)
    return max(0, found)


def restrict(handled: int, grants: dict[str, int]) -> None:
    """Forbid the `handled` rights but those granted below a path. Raises `OSError`."""
    version = landlock_version()
    for since, right in _SINCE.items():
        if version < since:
            handled &= ~right
    attributes = _RulesetAttributes(handled, 0, SCOPES if version >= _SCOPES_SINCE else 0)
    size = 8 if version < 4 else 16 if version < _SCOPES_SINCE else 24
    ruleset = _checked(
        _libc.syscall(_LANDLOCK_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    )
    for path, rights in grants.items():
        _grant(ruleset, path, rights & handled)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
    os.close(ruleset)


def give_up_capabilities() -> None:
    """Be no more than a user, root too. Raises `OSError`."""
    _checked(_libc.capset(ctypes.byref(_CapabilityHeader(_CAPABILITIES_V3, 0)), _CapabilitySets()))


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(_system_bytes(path), os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right; it may have gone since it was looked at
    try:
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            rights &= _OF_FILES
        if rights:
            rule = _PathBeneath(rights, descriptor)
            _checked(
                _libc.syscall(
                    _LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0
                )
            )
    finally:
        os.close(descriptor)


def filter_calls(program: bytes) -> None:
    """Let the kernel judge every system call by this BPF program. Raises `OSError`."""
    size = len(program) // 8
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    filtered = _Program(size, program)
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(filtered), 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _system_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def main(where: str, argv: list[str]) -> int:
    """Shut the door and run the command; return its exit code, if it does not replace us."""
    stays = where.isdecimal()
    descriptor = int(where) if stays else os.open(where, os.O_RDWR)
    os.set_inheritable(descriptor, False)
    orders = json.loads(os.read(descriptor, _LONGEST_ORDERS))
    try:
        give_up_capabilities()
        if orders.get("landlock"):
            restrict(**orders["landlock"])
        filter_calls(bytes.fromhex(orders["seccomp"]))
    except OSError as error:
        _say(descriptor, f"failed {error.strerror}")
        sys.stderr.write(f"dsh: the sandbox cannot be closed: {error.strerror}\n")
        return CANNOT_RUN
    _say(descriptor, "started")
    for name in orders["drop"]:
        os.environ.pop(name, None)
    if not stays:
        return _become(argv)
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if not child:
        os._exit(_become(argv))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _say(descriptor, f"exit {code}" if code >= 0 else f"signal {-code}")
    return code if code >= 0 else 128 - code


def _say(descriptor: int, line: str) -> None:
    os.write(descriptor, f"{line}\n".encode("utf-8", "replace"))


def _become(argv: list[str]) -> int:
    # What the interpreter and the launcher ignore is the command's to hear.
    for number in (*_DEAF_TO, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    words = [os.fsencode(word) for word in argv]
    try:
        os.execvpe(words[0], words, os.environb)  # noqa: S606 - no shell is wanted
    except OSError as error:
        sys.stderr.write(f"dsh: cannot start {argv[0]!a}: {error.strerror}\n")
        sys.stderr.flush()
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
