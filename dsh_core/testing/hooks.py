"""Hooks without a harness: a few plugins in a given order, and everything that was reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from dsh_core.errors import PluginError
from dsh_core.hooks import Hooks, Tracer


class HookLab:
    """Real hooks with the given plugins, asked in the order in which they are named.

    Args:
        specs: Further hooks: functions marked as in `dsh_core.hookspecs`.
        tracer: Where waterfalls are recorded.
        held_loop_seconds: What counts as holding the loop; by default nothing does, for tests run
            on busy machines.
        plugins: Name → plugin.

    """

    def __init__(
        self,
        *specs: Callable[..., Any],
        tracer: Tracer | None = None,
        held_loop_seconds: float = math.inf,
        **plugins: object,
    ):
        self.reported: list[PluginError] = []
        self.reported_with: list[Mapping[str, Any]] = []
        self.order = list(plugins)
        self.hooks = Hooks(
            self._report, self._rank, tracer=tracer, held_loop_seconds=held_loop_seconds
        )
        if specs:
            self.hooks.add_specs(spec_module("lab", *specs), owner="lab")
        for name, plugin in plugins.items():
            self.add(name, plugin)

    def add(self, name: str, plugin: object) -> None:
        """Check and register a plugin; it is asked last unless it has a place in `order`."""
        if name not in self.order:
            self.order.append(name)
        self.hooks.check(plugin, name)
        self.hooks.register(plugin, name)

    def reports(self) -> list[str]:
        """Return what was reported, as people read it."""
        return [str(error) for error in self.reported]

    def _rank(self, name: str) -> int:
        return self.order.index(name)

    def _report(self, error: PluginError, values: Mapping[str, Any]) -> None:
        self.reported.append(error)
        self.reported_with.append(values)


def spec_module(name: str, *specs: Callable[..., Any]) -> ModuleType:
    """Return a module that declares hooks, as a plugin brings with `hookspecs`."""
    module = ModuleType(name)
    for spec in specs:
        spec.__module__ = name
        setattr(module, spec.__name__, spec)
    return module
