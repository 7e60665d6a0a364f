"""Finding plugins: metadata only, nothing is imported."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

GROUP = "dsh"
CORE_DISTRIBUTION = "dsh-core"

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

log = logging.getLogger("dsh.plugins")


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
    """Return what is installed, by name. One scan of the metadata of all distributions.

    Of a distribution that is on the path twice the first counts, as for imports. Metadata that
    cannot be read is logged and passed over.
    """
    found: dict[str, Found] = {}
    seen: set[str] = set()
    for distribution, points in _with_plugins():
        if _canonical(distribution.name) in seen:
            continue
        seen.add(_canonical(distribution.name))
        for point in points:
            found[point.name] = _claimed(found.get(point.name), point, distribution)
    return found


def builtin_plugin(name: str, target: str, version: str, other: Found | None = None) -> Found:
    """Return a plugin of the core; `target` is `module:attribute`, `other` has the same name."""

    def load() -> object:
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)

    claims = (CORE_DISTRIBUTION, *(other.claims if other is not None else ()))
    return Found(name, CORE_DISTRIBUTION, version, load, claims)


def _with_plugins() -> Iterator[tuple[Distribution, list[EntryPoint]]]:
    for distribution in distributions():
        try:
            points = [point for point in distribution.entry_points if point.group == GROUP]
            if points and not distribution.name:
                raise ValueError("the distribution has no name")
        except Exception as error:  # noqa: BLE001 - whatever is broken about it, others are not
            log.warning("metadata of a distribution cannot be read: %s: %s", distribution, error)
            continue
        if points:
            yield distribution, points


def _claimed(before: Found | None, point: EntryPoint, distribution: Distribution) -> Found:
    if before is None:
        name = distribution.name
        return Found(point.name, name, distribution.version, point.load, (name,))
    claims = tuple(sorted({*before.claims, distribution.name}))
    return Found(before.name, before.distribution, before.version, before.load, claims)


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
