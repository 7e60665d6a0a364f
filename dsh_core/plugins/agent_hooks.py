"""One set of hooks for each distinct set of overrides, kept in step with the harness's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from dsh_core.hooks import Hooks
from dsh_core.plugins.contributions import give_tools
from dsh_core.plugins.loading import Loaded, attempt, declare, made
from dsh_core.plugins.overrides import Overrides, Wanted, override_key

if TYPE_CHECKING:
    from dsh_core.harness import Harness


class AgentHooks:
    """The hooks of all agents that have overrides.

    Args:
        harness: Whose agents these are.
        loaded: The plugins that are on.
        new_hooks: Makes empty hooks.
        note: Takes notes about settings that were ignored.

    """

    def __init__(
        self,
        harness: Harness,
        loaded: Mapping[str, Loaded],
        new_hooks: Callable[[], Hooks],
        note: Callable[[Iterable[str]], None],
    ):
        self._harness = harness
        self._loaded = loaded
        self._new_hooks = new_hooks
        self._note = note
        self._sets: dict[Hashable, Overrides] = {}

    def __iter__(self) -> Iterator[Overrides]:
        return iter([*self._sets.values()])

    def hooks(self, wanted: Wanted, names: Iterable[str]) -> Hooks:
        """Return the hooks for overrides, made when they are wanted for the first time.

        Raises `ConfigError` when an override does not fit; nothing is left of the attempt then.

        Args:
            wanted: The overrides.
            names: The plugins that are on, in asked order.

        """
        key = override_key(wanted)
        if key not in self._sets:
            self._sets[key] = self._build(wanted, [*names])
        return self._sets[key].hooks

    def _build(self, wanted: Wanted, names: list[str]) -> Overrides:
        one = Overrides(wanted, self._new_hooks())
        for name in names:
            declare(self._loaded[name], one.hooks)
        for name in names:
            self._give(one, name)
        try:
            for name in names:
                self._give_tools(one, name)
        except BaseException:
            self._harness.tools.forget(one.hooks)
            raise
        return one

    def enter(self, name: str) -> None:
        """Register a plugin that came at run time."""
        for one in self:
            declare(self._loaded[name], one.hooks)
            self._give(one, name)

    def give_tools(self, name: str) -> None:
        """Let the tools of a late plugin's override instances stand for its own."""
        for one in self:
            self._give_tools(one, name)

    def _give(self, one: Overrides, name: str) -> None:
        if one.is_off(name):
            return
        loaded = self._loaded[name]
        instance, layers = loaded.instance, one.wanted.get(name)
        if layers:
            new = made(loaded, (*loaded.layers, *layers), self._harness.secrets)
            self._note(new.notes)
            instance = one.instances[name] = new.instance
        attempt(loaded.info, partial(one.hooks.check, instance, name))
        attempt(loaded.info, partial(one.hooks.register, instance, name))

    def _give_tools(self, one: Overrides, name: str) -> None:
        if name in one.instances:
            attempt(self._loaded[name].info, partial(give_tools, self._harness, one.hooks, name))
