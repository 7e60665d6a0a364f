"""Subcommands of plugins: entry points in the group `dsh.commands`, listed without importing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

from dsh_core.errors import UserError, error_chain

GROUP = "dsh.commands"


def names(known: Sequence[str]) -> list[tuple[str, str]]:
    """Return (command, distribution) of what plugins offer; core names cannot be taken."""
    return sorted(
        (point.name, point.dist.name if point.dist is not None else "?")
        for point in entry_points(group=GROUP)
        if point.name not in known
    )


def find(name: str, known: Sequence[str]) -> Callable[..., int]:
    """Import the command of that name. Raises `UserError` when there is none or it is broken."""
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        every = [*known, *(other for other, _ in names(known))]
        near = difflib.get_close_matches(name, every, n=1)
        hint = f"Did you mean `dsh {near[0]}`?" if near else "`dsh --help` lists the commands."
        raise UserError(f"there is no command {name!r}", remedy=hint)
    return _load(points[0])


def _load(point: EntryPoint) -> Callable[..., int]:
    try:
        command: Callable[..., int] = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        owner = point.dist.name if point.dist is not None else "?"
        raise UserError(
            f"command {point.name!r} of {owner} cannot be loaded: {error_chain(error)}",
            remedy=f"Update it, or pip uninstall {owner}.",
        ) from error
    return command
