"""Agents with plugins of their own: some switched off, some with other settings."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Container, Hashable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from dsh_core import hookspecs
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.errors import ConfigError
from dsh_core.hooks import Hooks
from dsh_core.plugins.discovery import nearest, unknown_plugin
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.settings import Placed, placed
from dsh_core.plugins.states import switch
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.harness import Harness

Wanted: TypeAlias = Mapping[str, tuple[Placed, ...] | None]
"""Plugin name → layers on top of the harness's settings; None = off."""


@record(frozen=False, eq=False)
class Overrides:
    """The hooks of agents with the same overrides: base instances, some missing, some replaced.

    Args:
        wanted: What the agents asked for.
        hooks: The hooks they share.
        instances: The instances that stand in for the base's, by plugin, in asked order.

    """

    wanted: Wanted
    hooks: Hooks
    instances: dict[str, object] = field(default_factory=dict)
    _begun: set[str] = field(default_factory=set)
    _started: set[str] = field(default_factory=set)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_off(self, name: str) -> bool:
        """Whether a plugin is switched off here."""
        return name in self.wanted and self.wanted[name] is None

    async def start(self, harness: Harness) -> None:
        """Start the instances that are not started yet; agents that share them wait for it.

        Raises what the first failing one raises; it is tried again next time.
        """
        if len(self._started) == len(self.instances):
            return
        async with self._starting:
            for name in [name for name in self.instances if name not in self._started]:
                self._begun.add(name)
                await self.hooks.notify_only({name}, hookspecs.harness_start, harness=harness)
                self._started.add(name)

    async def stop(self, harness: Harness) -> None:
        """Stop what was started, or tried to; failures are reported."""
        begun = [name for name in self.instances if name in self._begun]
        self._begun.clear()
        self._started.clear()
        await self.hooks.notify_only(begun, hookspecs.harness_stop, harness=harness)

    def has_begun(self, name: str) -> bool:
        """Whether an instance was started, or tried to be, and so has to be stopped."""
        return name in self._begun

    def take_out(self, name: str) -> None:
        """Take a plugin out, its instance too."""
        self.hooks.unregister(name)
        self.instances.pop(name, None)
        self._started.discard(name)
        self._begun.discard(name)


def wanted_by(
    definition: AgentDefinition,
    on: Container[str],
    infos: Mapping[str, PluginInfo],
    config: HarnessConfig,
    known: Collection[str],
) -> tuple[Wanted, list[str]]:
    """Return what an agent's definition changes about the plugins that are on, and notes.

    Raises `ConfigError` for settings of a plugin that the configuration leaves off, and for a name
    that is nobody's but like one of the `known`.
    """
    wanted: dict[str, tuple[Placed, ...] | None] = {}
    notes: list[str] = []
    for name, layers in definition.plugins.items():
        one = placed(f"agents.{definition.name}.plugins.{name}", layers)
        is_off = switch(layers) is False
        is_empty = not any(layer.values for layer in layers)
        if name in on:
            if is_off or not is_empty:
                wanted[name] = None if is_off else one
        elif config.safe or _is_blocked(infos.get(name)):
            continue
        elif name not in infos and (near := nearest(name, known)) is not None:
            raise ConfigError(
                unknown_plugin(name, near),
                where=one[-1].where(()),
                remedy=f"Write {near}, or remove it.",
            )
        elif is_off and name not in infos and name not in known:
            notes.append(f"{one[-1].where(())} names a plugin that is not installed")
        elif not is_off:
            raise ConfigError(
                f"plugin {name!r} is not on, so an agent cannot change its settings",
                where=one[-1].where(()),
                remedy=f"Switch it on, or remove agents.{definition.name}.plugins.{name}.",
            )
    return wanted, notes


def _is_blocked(info: PluginInfo | None) -> bool:
    return info is not None and info.state == "blocked"


def override_key(wanted: Wanted) -> Hashable:
    """Return a key that is equal for equal overrides, wherever they are written."""
    return frozenset(
        (name, None if layers is None else tuple(_layer_key(one.layer) for one in layers))
        for name, layers in wanted.items()
    )


def _layer_key(layer: Layer) -> Hashable:
    return layer.trusted, layer.settings_only, _plain_key(layer.values or {})


def _plain_key(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return "mapping", frozenset((key, _plain_key(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "list", tuple(_plain_key(item) for item in value)
    return type(value).__name__, repr(value)
