"""Who implements what: specs and plugins of one pluggy manager, and the chains made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import pluggy

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.hooks.chain import Chain, compile_chain
from dsh_core.hooks.check import check_function, check_plugin, implementations, is_function
from dsh_core.marks import MODE_ATTRIBUTE, Mode, OnError, mode_of

PROJECT = "dsh"
CORE = "dsh-core"


class Manager(pluggy.PluginManager):
    """pluggy's manager. No version of it runs a plugin's properties to look for hooks."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Return what an attribute was marked with, or None."""
        return super().parse_hookimpl_opts(plugin, name) if is_function(plugin, name) else None


class HookRegistry:
    """Specs and plugins, and each hook's chain, compiled once per change.

    Args:
        rank: Plugin name → its place in the asked order; lower is asked first.

    Attributes:
        implemented: The names of the hooks that anybody implements, for a look per token.

    """

    implemented: frozenset[str]

    def __init__(self, rank: Callable[[str], int]):
        self.manager: pluggy.PluginManager = Manager(PROJECT)
        self._rank = rank
        self._specs: dict[str, dict[str, Callable[..., Any]]] = {}
        self._modes: dict[str, Mode] = {}
        self._plugins: dict[str, object] = {}
        self._chains: dict[str, Chain] = {}
        self.add_specs(hookspecs, owner=CORE)

    @property
    def modes(self) -> Mapping[str, Mode]:
        """Hook name → mode, plugin-owned hooks too."""
        return self._modes

    # ------------------------------------------------------------------------- specs

    def add_specs(self, module: ModuleType, *, owner: str = "") -> None:
        """Add the hooks a module declares; what it imports from elsewhere is not its own.

        Raises `PluginError` when a name is taken, a spec has no mode, or a plugin that is
        registered already implements one of them wrongly.
        """
        owner = owner or module.__name__
        new = _declared(module, owner)
        for name in new:
            if name in self._modes:
                raise PluginError(owner, name, "this hook exists already")
        modes = {name: mode_of(function) for name, function in new.items()}
        for plugin_name, plugin in self._plugins.items():
            for function, hook, options in implementations(self.manager, plugin):
                if hook in modes:
                    check_function(function, hook, options, modes[hook], plugin_name)
        self.manager.add_hookspecs(_namespace(owner, new))
        self._specs[owner] = new
        self._modes.update(modes)
        self._changed()

    def spec(self, hook: str) -> Callable[..., Any] | None:
        """Return the function that declares a hook, a plugin's too; None = there is none."""
        found = (specs[hook] for specs in self._specs.values() if hook in specs)
        return next(found, None)

    # ----------------------------------------------------------------------- plugins

    def check(self, plugin: object, name: str) -> None:
        """Raise `PluginError` for an implementation that cannot work."""
        check_plugin(self.manager, plugin, name, self._modes)

    def register(self, plugin: object, name: str) -> None:
        """Register a checked plugin. Raises `PluginError` when it, or its name, is in use."""
        for other, registered in self._plugins.items():
            if other == name:
                raise PluginError(name, "registration", "a plugin of this name is registered")
            if registered is plugin:
                raise PluginError(name, "registration", f"it is registered already, as {other!r}")
            if registered == plugin:
                raise PluginError(
                    name,
                    "registration",
                    f"it equals the plugin {other!r}; plugins are told apart by identity, "
                    "so give the class no `__eq__` (for a dataclass: eq=False)",
                )
        self.manager.register(plugin, name)
        self._plugins[name] = plugin
        self._changed()

    def unregister(self, name: str) -> None:
        """Take a plugin's implementations and specs away; running calls keep their chains."""
        specs = self._specs.pop(name, {})
        if self._plugins.pop(name, None) is None and not specs:
            return
        for hook in specs:
            del self._modes[hook]
        self._rebuild()

    def _rebuild(self) -> None:
        """Make the manager anew: pluggy cannot take a spec back."""
        self.manager = Manager(PROJECT)
        for owner, specs in self._specs.items():
            self.manager.add_hookspecs(_namespace(owner, specs))
        for name, plugin in self._plugins.items():
            self.manager.register(plugin, name)
        self._changed()

    def _changed(self) -> None:
        self._chains.clear()
        callers = ((name, getattr(self.manager.hook, name)) for name in self._modes)
        self.implemented = frozenset(name for name, hook in callers if hook.get_hookimpls())

    # ------------------------------------------------------------------------ chains

    def reorder(self) -> None:
        """Compile the chains anew when next asked: ranks have changed."""
        self._chains.clear()

    def chain(self, name: str) -> Chain:
        """Return a hook's compiled chain. Raises `KeyError` for a hook nobody declared."""
        chain = self._chains.get(name)
        return chain if chain is not None else self._compile(name, self._modes[name])

    def has(self, spec: Callable[..., Any]) -> bool:
        """Whether anybody implements the hook."""
        return spec.__name__ in self.implemented

    def _policy(self, hook: str) -> OnError | None:
        """Return the failure policy of a hook; None = nobody declared it."""
        mode = self._modes.get(hook)
        return mode.on_error if mode is not None else None

    def _chain_of(self, spec: Callable[..., Any]) -> Chain:
        """Return the chain of a spec; that of a plugin that is not here is empty."""
        name = spec.__name__
        chain = self._chains.get(name)
        return chain if chain is not None else self._compile(name, mode_of(spec))

    def _compile(self, name: str, mode: Mode) -> Chain:
        found: Iterable[pluggy.HookImpl] = ()
        if name in self._modes:
            caller: pluggy.HookCaller = getattr(self.manager.hook, name)
            found = caller.get_hookimpls()
        places = {plugin: place for place, plugin in enumerate(self._plugins)}
        rank = self._rank
        chain = compile_chain(name, mode, found, lambda plugin: (rank(plugin), places[plugin]))
        self._chains[name] = chain
        return chain


def _declared(module: ModuleType, owner: str) -> dict[str, Callable[..., Any]]:
    """Return the specs that a module itself declares."""
    if not isinstance(module, ModuleType):
        raise PluginError(owner, "hookspecs", f"must be a module, not {module!r}")
    own = {
        name: function
        for name, function in vars(module).items()
        if getattr(function, "__module__", None) == module.__name__
        and hasattr(function, f"{PROJECT}_spec")
    }
    for name, function in own.items():
        if not hasattr(function, MODE_ATTRIBUTE):
            raise PluginError(
                owner, name, "has no mode: mark it with emit, waterfall, collect or parallel"
            )
    if not own:
        raise PluginError(owner, "hookspecs", f"{module.__name__} declares no hooks")
    return own


def _namespace(owner: str, specs: Mapping[str, Callable[..., Any]]) -> ModuleType:
    """Return specs as pluggy wants them, without what a module only imports."""
    module = ModuleType(owner)
    vars(module).update(specs)
    return module
