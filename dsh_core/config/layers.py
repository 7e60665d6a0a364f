"""What each source says about each plugin, in the order in which plugins are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsh_core.config.mistakes import KeyPath, dotted
from dsh_core.config.model import Layer
from dsh_core.config.source import Source
from dsh_core.config.trust import UNTIL_TRUSTED

Checked = tuple[Source, Mapping[str, Any]]
"""A source and its values as the format reads them."""


def plugin_layers(
    sources: Sequence[Checked], below: tuple[str, ...] = ()
) -> dict[str, tuple[Layer, ...]]:
    """Return each plugin's layers, weakest first; a name stands where it was first named.

    Args:
        sources: Weakest first.
        below: Key path of the mapping that holds `plugins`: empty, or an agent's.
    """
    layers: dict[str, list[Layer]] = {}
    for source, values in sources:
        here: Any = values
        for key in below:
            here = here.get(key, {})
        for name, section in here.get("plugins", {}).items():
            layer = _layer(source, (*below, "plugins", name), section)
            layers.setdefault(name, []).append(layer)
    return {name: tuple(parts) for name, parts in layers.items()}


def kept_off(project: Source, user: Mapping[str, Any]) -> list[str]:
    """Say which plugins an untrusted project file names in vain: the user's file keeps them off."""
    own: Mapping[str, Any] = user.get("plugins", {})
    only_named = user.get("autoload") is False
    return [
        f"{project.line(('plugins', name))}: plugins.{name} stays off {UNTIL_TRUSTED}"
        for name in project.data.get("plugins") or {}
        if own.get(name) is False or (only_named and name not in own)
    ]


def _layer(source: Source, path: KeyPath, section: Any) -> Layer:
    return Layer(
        source=source.label,
        values=section,
        trusted=source.trusted,
        lines={name: place.line for name, place in _below(source.places, path).items()},
        settings_only=source.kind in {"environment", "options"} or not source.trusted,
        written=_below(source.written, path),
        variables=_below(source.variables, path),
    )


def _below(values: Mapping[KeyPath, Any], path: KeyPath) -> dict[str, Any]:
    length = len(path)
    return {dotted(key[length:]): value for key, value in values.items() if key[:length] == path}
