"""The asked order of plugins: as the configuration names them, bent by `before` and `after`."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from dsh_core.errors import ConfigError
from dsh_core.plugins.discovery import FIRST_PARTY, nearest, unknown_plugin


class CycleError(ConfigError):
    """Plugins that must each come before the other; `names` are those of the cycle."""

    def __init__(self, names: Sequence[str]):
        super().__init__(
            f"plugins that must each come before the other: {' → '.join([*names, names[0]])}",
            remedy="Switch one of them off: plugins.NAME: false.",
        )
        self.names = tuple(names)


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


def asked_last(order: Sequence[str], name: str, builtin: Container[str]) -> list[str]:
    """Return the order with a new name last among plugins, before the built-ins at its end."""
    if name in order:
        return list(order)
    end = len(order)
    while end and order[end - 1] in builtin:
        end -= 1
    return [*order[:end], name, *order[end:]]


def wishes(name: str, target: object) -> list[tuple[str, str]]:
    """Return the pairs (first, second) that a plugin's `before` and `after` ask for.

    Raises `ConfigError` where they are no tuples of names.
    """
    pairs = [(name, other) for other in _names(name, target, "before")]
    return pairs + [(other, name) for other in _names(name, target, "after")]


def mistaken_wishes(
    name: str, pairs: Iterable[tuple[str, str]], known: Collection[str]
) -> Iterator[str]:
    """Say which of a plugin's wishes name nobody, though they are like a known one."""
    for first, second in pairs:
        attribute, other = ("before", second) if first == name else ("after", first)
        near = nearest(other, known)
        if near is not None:
            yield f"`{attribute}` of plugin {name!r}: {unknown_plugin(other, near)}"


def _names(name: str, target: object, attribute: str) -> Iterable[str]:
    value: object = getattr(target, attribute, ())
    if not isinstance(value, (tuple, list)) or not all(isinstance(item, str) for item in value):
        raise ConfigError(
            f"`{attribute}` of plugin {name!r} is no tuple of plugin names",
            remedy=f'Write {attribute} = ("other_plugin",), with the comma.',
        )
    return value


def bent(order: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the order with the first of every pair ahead of the second.

    A plugin that has to come earlier moves up just ahead of the one it is to precede; all others
    keep their places. Names that are not in `order` are ignored. Raises `CycleError`.
    """
    place = {name: index for index, name in enumerate(order)}
    ahead: dict[str, set[str]] = {name: set() for name in order}
    for first, second in pairs:
        if first in place and second in place and first != second:
            ahead[second].add(first)
    result: list[str] = []
    done: set[str] = set()
    for name in order:
        _visit(name, ahead, place, result, done, ())
    return result


def _visit(
    name: str,
    ahead: Mapping[str, set[str]],
    place: Mapping[str, int],
    result: list[str],
    done: set[str],
    path: tuple[str, ...],
) -> None:
    if name in done:
        return
    if name in path:
        raise CycleError(path[path.index(name) :][::-1])
    for first in sorted(ahead[name], key=place.__getitem__):
        _visit(first, ahead, place, result, done, (*path, name))
    done.add(name)
    result.append(name)
