"""The seccomp filter: which system calls a sandboxed command cannot make, as a BPF program.

Nothing but numbers: seccomp(2) has the form, `linux/filter.h` the instructions. It is an errno that
a refused call gets, so that programs go on where they can.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ARGUMENT_AT = (16, 24)
"""Where the low half of the first and second argument stands, on a little-endian machine."""

_X32_CALLS = 0x40000000
_NAMESPACES = 0x7E020000
"""CLONE_NEW*: mount, cgroup, UTS, IPC, user, process and network namespaces."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Typing into the terminal that dsh runs in."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_DGRAM, _SOCK_RAW, _SOCK_TYPE = 2, 3, 0xF


@dataclass(frozen=True, slots=True)
class Machine:
    """What differs from one processor to the next: its name in audit.h, and its numbers.

    Args:
        audit: AUDIT_ARCH_*.
        has_x32: Whether there is a second set of calls with the same architecture.
        refused: Calls that are refused whatever their arguments.
        calls: Numbers of those whose arguments decide.

    """

    audit: int
    has_x32: bool
    refused: Sequence[int]
    calls: Mapping[str, int]


_EVERYWHERE = (
    *(425, 426, 427),  # io_uring: opens sockets that no filter sees
    *(428, 429, 430, 431, 432, 433, 442, 467),  # the newer calls of the mount family
    *(438, 440),  # pidfd_getfd, process_madvise
    *(443,),  # quotactl_fd
)
_MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        has_x32=True,
        refused=(
            *(101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
            *(155, 161, 165, 166, 272, 308),  # pivot_root, chroot, mount, umount2, unshare, setns
            *(248, 249, 250),  # add_key, request_key, keyctl
            *(298, 300, 321, 323),  # perf_event_open, fanotify_init, bpf, userfaultfd
            *(175, 176, 313, 246, 320, 169),  # modules, kexec, reboot
            *(103, 163, 167, 168, 179, 304),  # syslog, acct, swap, quotactl, open_by_handle_at
            *(159, 164, 227, 305, 170, 171, 172, 173),  # clocks, host name, ports
            *_EVERYWHERE,
        ),
        calls={"clone": 56, "clone3": 435, "socket": 41, "socketpair": 53, "ioctl": 16},
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        has_x32=False,
        refused=(
            *(117, 270, 271, 272),
            *(41, 51, 40, 39, 97, 268),
            *(217, 218, 219),
            *(241, 262, 280, 282),
            *(105, 106, 273, 104, 294, 142),
            *(116, 89, 224, 225, 60, 265),
            *(171, 170, 112, 266, 161, 162),
            *_EVERYWHERE,
        ),
        calls={"clone": 220, "clone3": 435, "socket": 198, "socketpair": 199, "ioctl": 29},
    ),
}


def machine() -> Machine | None:
    """Return the numbers of this machine; None where they are not known."""
    return _MACHINES.get(platform.machine())


def filter_program(machine: Machine, *, families: Sequence[int]) -> bytes:
    """Return the filter. Sockets can be opened in the address `families` only.

    Connected pairs of unix sockets stay possible, but for datagrams where AF_UNIX is no family:
    those can be sent elsewhere later.
    """
    return b"".join(_instructions(machine, families))


def _instructions(machine: Machine, families: Sequence[int]) -> Iterator[bytes]:
    calls = machine.calls
    yield _step(_LOAD, _ARCHITECTURE_AT)
    yield _step(_IF_EQUAL, machine.audit, 1, 0)
    yield _refuse(errno.EPERM)
    yield _step(_LOAD, _NUMBER_AT)
    if machine.has_x32:
        yield _step(_IF_AT_LEAST, _X32_CALLS, 0, 1)
        yield _refuse(errno.EPERM)
    for number in machine.refused:
        yield from _if_call(number, [_refuse(errno.EPERM)])
    # Its flags lie in memory, where a filter cannot look; libraries then use the older call.
    yield from _if_call(calls["clone3"], [_refuse(errno.ENOSYS)])
    yield from _if_call(
        calls["clone"],
        [
            _step(_LOAD, _ARGUMENT_AT[0]),
            _step(_IF_ANY_BIT, _NAMESPACES, 0, 1),
            _refuse(errno.EPERM),
            _step(_RETURN, _ALLOW),
        ],
    )
    yield from _if_call(
        calls["ioctl"],
        _one_of(1, (_TIOCSTI, _TIOCLINUX), then=_refuse(errno.EPERM), other=_allow()),
    )
    refuse = _refuse(errno.EAFNOSUPPORT)
    yield from _if_call(calls["socket"], _one_of(0, families, then=_allow(), other=refuse))
    if AF_UNIX not in families:
        datagrams = (_SOCK_DGRAM, _SOCK_RAW)
        steps = _one_of(1, datagrams, then=refuse, other=_allow(), mask=_SOCK_TYPE)
        yield from _if_call(calls["socketpair"], steps)
    yield _allow()


def _one_of(
    argument: int, values: Sequence[int], *, then: bytes, other: bytes, mask: int | None = None
) -> list[bytes]:
    steps = [_step(_LOAD, _ARGUMENT_AT[argument])]
    if mask is not None:
        steps.append(_step(_AND, mask))
    for value in values:
        steps += [_step(_IF_EQUAL, value, 0, 1), then]
    return [*steps, other]


def _if_call(number: int, steps: Sequence[bytes]) -> Iterator[bytes]:
    """Take the steps, the last of which must return, where the call is this one."""
    yield _step(_IF_EQUAL, number, 0, len(steps))
    yield from steps


def _allow() -> bytes:
    return _step(_RETURN, _ALLOW)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _step(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, operand)
