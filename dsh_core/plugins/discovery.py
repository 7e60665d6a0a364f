"""Finding plugins: metadata only, nothing is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

GROUP = "dsh"

FIRST_PARTY = (
    "permission",
    "plan_mode",
    "sandbox",
    "persistence",
    "compaction",
    "invariants",
    "files",
    "shell",
    "terminal",
)
"""Asked in this order where the configuration does not name them: policy first, front ends last."""


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that could be loaded.

    Args:
        name: Entry point name = YAML key.
        distribution: What pip calls it.
        version: Of the distribution.
        load: Imports it and returns the module or class.
        claims: The distributions that claim the name; more than one is an error.

    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    claims: tuple[str, ...]


def installed_plugins() -> dict[str, Found]:
    """Return what is installed, by name. One scan of the metadata of all distributions."""
    claims: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        known = claims.setdefault(point.name, [])
        if all(_distribution(point) != _distribution(other) for other in known):
            known.append(point)
    return {name: _found(name, points) for name, points in claims.items()}


def builtin_plugin(name: str, target: str, version: str) -> Found:
    """Return a plugin of the core; `target` is `module:attribute`."""

    def load() -> object:
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)

    return Found(name, "dsh-core", version, load, ("dsh-core",))


def _found(name: str, points: list[EntryPoint]) -> Found:
    first = points[0]
    version = first.dist.version if first.dist is not None else "?"
    claims = tuple(sorted(_distribution(point) for point in points))
    return Found(name, _distribution(first), version, first.load, claims)


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"
