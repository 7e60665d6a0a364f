"""Finding plugins: metadata only, nothing is imported."""

from __future__ import annotations

import difflib
import importlib
import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dsh_core.record import record

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

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


@record()
class Found:
    """A plugin that could be loaded.

    Args:
        name: Entry point name = YAML key.
        distribution: What pip calls it.
        version: Of the distribution.
        load: Imports it and returns the module or class.
        claims: The distributions that claim the name; more than one is an error.
        target: What its entry point names: `module` or `module:attribute`.

    """

    name: str
    distribution: str
    version: str
    load: Callable[[], object]
    claims: tuple[str, ...]
    target: str = ""

    def is_of(self, plugin: object) -> bool:
        """Whether an object is what the entry point names, or made by that class.

        Imports nothing: what has made an object is imported already.
        """
        module, _, attribute = self.target.partition(":")
        named: object = sys.modules.get(module)
        for part in filter(None, attribute.split(".")):
            named = getattr(named, part, None)
        return named is not None and (named is plugin or named is type(plugin))


def under_installed_names(
    given: Mapping[str, object], found: Mapping[str, Found]
) -> dict[str, object]:
    """Return plugins given by code; one that is installed too is under its installed name.

    Of several that are the same installed one, the first gets its name.
    """
    names: dict[str, object] = {}
    for name, plugin in given.items():
        free = (one for one in found.values() if one.name not in given and one.name not in names)
        same = None if name in found else next((o.name for o in free if o.is_of(plugin)), None)
        names[same or name] = plugin
    return names


def nearest(name: str, known: Collection[str]) -> str | None:
    """Return the plugin that a name nobody has was probably meant for."""
    if name in known:
        return None
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def unknown_plugin(name: str, near: str | None) -> str:
    """Say that a name is nobody's."""
    return f"there is no plugin {name!r}" + (f"; did you mean {near!r}?" if near else "")


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
    return Found(name, CORE_DISTRIBUTION, version, load, claims, target)


def _with_plugins() -> Iterator[tuple[Distribution, list[EntryPoint]]]:
    from importlib.metadata import distributions  # a tenth of the import of the whole core

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
        target = point.value.partition("[")[0].replace(" ", "")
        return Found(point.name, name, distribution.version, point.load, (name,), target)
    return replace(before, claims=tuple(sorted({*before.claims, distribution.name})))


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
