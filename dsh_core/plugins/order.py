"""The asked order of plugins: as the configuration names them, bent by `before` and `after`."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from dsh_core.errors import ConfigError
from dsh_core.plugins.discovery import FIRST_PARTY


def asked_order(
    named: Sequence[str], installed: Sequence[str], builtin: Sequence[str]
) -> list[str]:
    """Return all names: named ones first, then first-party ones, others by name, built-ins last."""
    order = [name for name in named if name not in builtin]
    unnamed = [name for name in installed if name not in order and name not in builtin]
    order.extend(name for name in FIRST_PARTY if name in unnamed)
    order.extend(sorted(name for name in unnamed if name not in FIRST_PARTY))
    order.extend(builtin)
    return order


def bent(order: Sequence[str], before: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the order with every plugin ahead of those it must come `before`; stable otherwise.

    Names that are not in `order` are ignored. Raises `ConfigError` naming a cycle.
    """
    place = {name: index for index, name in enumerate(order)}
    followers: dict[str, set[str]] = {name: set() for name in order}
    waits = dict.fromkeys(order, 0)
    for name in order:
        for other in before.get(name, ()):
            if other in place and other != name and other not in followers[name]:
                followers[name].add(other)
                waits[other] += 1
    ready = [place[name] for name in order if not waits[name]]
    heapq.heapify(ready)
    result: list[str] = []
    while ready:
        name = order[heapq.heappop(ready)]
        result.append(name)
        for other in followers[name]:
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, place[other])
    if len(result) != len(order):
        stuck = ", ".join(name for name in order if name not in result)
        raise ConfigError(
            f"plugins that must each come before the other: {stuck}",
            remedy="Switch one of them off: plugins.NAME: false.",
        )
    return result
