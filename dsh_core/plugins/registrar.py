"""`Harness.plugins`: loads plugins, keeps every manager in step, and takes plugins out again."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dsh_core import __version__, hookspecs
from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.errors import ConfigError, PluginError, UserError, error_chain
from dsh_core.hooks import Hooks, Reporter, Tracer
from dsh_core.plugins.discovery import Found, builtin_plugin, installed_plugins
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.order import asked_order, bent
from dsh_core.plugins.settings import build, merge

if TYPE_CHECKING:
    from dsh_core.harness import Harness

RUNTIME_RANK = 1_000
BUILTIN_RANK = 2_000
SETTINGS_ONLY_SOURCES = ("environment", "-s")
"""Sources that give settings but never switch a plugin on."""


@dataclass(slots=True)
class _Overrides:
    """The hooks of agents with the same overrides: base instances, some missing, some replaced."""

    hooks: Hooks
    instances: dict[str, object]
    off: frozenset[str]
    is_started: bool = False


@dataclass(slots=True)
class _Loaded:
    """A plugin class or module with what it takes to make instances of it."""

    info: PluginInfo
    target: Any
    layers: tuple[Layer, ...] = ()
    inline: bool = False


@dataclass(slots=True)
class Plugins:
    """The only registrar of a harness.

    Args:
        harness: Whose plugins these are.
        config: What is configured.
        inline: Plugin objects given by code, by name.
        report: Where failures go that change nothing.
        tracer: Where waterfalls are recorded.

    """

    harness: Harness
    config: HarnessConfig
    inline: Mapping[str, object]
    report: Reporter
    tracer: Tracer | None = None
    base: Hooks = field(init=False)
    notes: list[str] = field(default_factory=list)
    _ranks: dict[str, int] = field(default_factory=dict)
    _loaded: dict[str, _Loaded] = field(default_factory=dict)
    _infos: dict[str, PluginInfo] = field(default_factory=dict)
    _overrides: dict[Any, _Overrides] = field(default_factory=dict)
    _is_loaded: bool = False

    def __post_init__(self) -> None:
        self.base = self._new_hooks()

    def _new_hooks(self) -> Hooks:
        return Hooks(self.report, self._rank, tracer=self.tracer)

    def _rank(self, name: str) -> int:
        return self._ranks.get(name, RUNTIME_RANK)

    # ------------------------------------------------------------------------ loading

    def infos(self) -> list[PluginInfo]:
        """Return every known plugin in asked order, also those that are not on."""
        self.survey()
        return sorted(self._infos.values(), key=lambda info: self._rank(info.name))

    def survey(self) -> dict[str, Found]:
        """Find out what is installed and what state each plugin would have; imports nothing."""
        found = {
            name: builtin_plugin(name, target, __version__)
            for name, target in BUILTIN_PLUGINS.items()
        }
        if not self.config.safe and (self.config.autoload or self.config.plugins):
            found = {**installed_plugins(), **found}
        if self._ranks:
            return found
        named = list(self.config.plugins)
        self._set_ranks([*self.inline, *asked_order(named, list(found), list(BUILTIN_PLUGINS))])
        for name in self._ranks:
            if name not in self.inline:
                self._infos[name] = self._state_of(name, found.get(name))
        return found

    def _set_ranks(self, order: Sequence[str]) -> None:
        self._ranks = {
            name: index + (BUILTIN_RANK if name in BUILTIN_PLUGINS else 0)
            for index, name in enumerate(order)
        }

    def _state_of(self, name: str, found: Found | None) -> PluginInfo:
        if found is None:
            return self._missing(name)
        info = PluginInfo(
            name, found.distribution, found.version, "on", is_builtin=name in BUILTIN_PLUGINS
        )
        layers = self.config.plugins.get(name, ())
        switches = [layer for layer in layers if layer.source not in SETTINGS_ONLY_SOURCES]
        if len(found.claims) > 1:
            info.state = "broken"
            info.cause = f"two distributions claim the name: {', '.join(found.claims)}"
            info.remedy = f"Uninstall one: pip uninstall {found.claims[-1]}"
        elif name in self.config.blocked:
            info.state, info.cause = "blocked", f"-p no:{name}"
        elif switches and switches[-1].values is False:
            info.state, info.cause = "off", f"{switches[-1].source}: plugins.{name}: false"
        elif not info.is_builtin and not self.config.autoload and not switches:
            info.state, info.cause = "off", "autoload: false, and no file names it"
        return info

    def _missing(self, name: str) -> PluginInfo:
        layers = self.config.plugins[name]
        is_off = all(layer.values is False for layer in layers)
        if self.config.safe:
            return PluginInfo(name, "?", "?", "off", cause="--safe")
        distribution = f"dsh-{name.replace('_', '-')}"
        return PluginInfo(
            name,
            distribution,
            "?",
            "off" if is_off or name in self.config.blocked else "missing",
            cause=f"configured in {layers[0].source}, but not installed",
            remedy=f"pip install {distribution}, or set plugins.{name}: false",
        )

    def load(self) -> None:
        """Import what is on, check every signature, then register all.

        Raises `ConfigError` for a plugin that is missing, broken or misconfigured, naming plugin,
        distribution, cause and remedy.
        """
        self._load(is_strict=True)

    def diagnose(self) -> list[PluginInfo]:
        """Load what can be loaded; what cannot is `broken`, with its cause. Never raises for it."""
        self._load(is_strict=False)
        return self.infos()

    def _load(self, *, is_strict: bool) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        found = self.survey()
        for name, plugin in self.inline.items():
            info = PluginInfo(name, "inline", "", "on")
            self._infos[name] = info
            layers = tuple(self.config.plugins.get(name, ()))
            self._loaded[name] = _Loaded(info, plugin, layers, inline=True)
        for name, info in self._infos.items():
            if is_strict and info.state in ("missing", "broken"):
                raise _start_error(info)
            if info.state == "on" and name not in self._loaded:
                with self._tolerating(name, is_strict):
                    self._loaded[name] = self._import(info, found[name])
        self._bend()
        instances: dict[str, object] = {}
        for name in self._in_order():
            with self._tolerating(name, is_strict):
                loaded = self._loaded[name]
                instance = self._instance(loaded, loaded.layers)
                self._add_specs(self.base, name, instance)
                instances[name] = instance
        for name in self._in_order():
            with self._tolerating(name, is_strict):
                self._blamed(name, self.base.check, instances[name], name)
        for name in self._in_order():
            self.base.register(instances[name], name)
            self._infos[name].plugin = instances[name]
        self.base.manager.check_pending()
        for name in self._in_order():
            with self._tolerating(name, is_strict):
                self._ask_registrations(name)

    def _in_order(self) -> list[str]:
        return sorted(self._loaded, key=self._rank)

    @contextmanager
    def _tolerating(self, name: str, is_strict: bool) -> Iterator[None]:
        """Unless strict, leave out a plugin that cannot start instead of raising."""
        try:
            yield
        except ConfigError as error:
            if is_strict:
                raise
            info = self._infos[name]
            if info.state == "on":
                info.state, info.cause, info.remedy = "broken", str(error), ""
            self._loaded.pop(name, None)

    def target(self, name: str) -> object | None:
        """Return a plugin's class or module; imports it if it is not loaded, None if it cannot."""
        if name in self._loaded:
            loaded: object = self._loaded[name].target
            return loaded
        found = self.survey().get(name)
        if found is None or self._infos[name].state == "broken":
            return None
        return found.load()

    def _import(self, info: PluginInfo, found: Found) -> _Loaded:
        try:
            target = found.load()
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            info.state, info.cause = "broken", error_chain(error)
            info.remedy = f"Start with --safe, or set plugins.{info.name}: false"
            raise _start_error(info) from error
        return _Loaded(info, target, tuple(self.config.plugins.get(info.name, ())))

    def _bend(self) -> None:
        """Apply `before` and `after`, which are stronger than the asked order."""
        before: dict[str, set[str]] = {}
        for name, loaded in self._loaded.items():
            before.setdefault(name, set()).update(getattr(loaded.target, "before", ()))
            for other in getattr(loaded.target, "after", ()):
                before.setdefault(other, set()).add(name)
        order = sorted(self._ranks, key=self._rank)
        self._set_ranks(bent(order, {name: tuple(others) for name, others in before.items()}))

    def _instance(self, loaded: _Loaded, layers: Sequence[Layer]) -> object:
        """Make the object to register: a module or an object as it is, a class constructed."""
        target, info = loaded.target, loaded.info
        settings_class = getattr(target, "Settings", None)
        if not inspect.isclass(target) or settings_class is None:
            if any(layer.values for layer in layers):
                raise ConfigError(
                    f"plugin {info.name!r} takes no settings",
                    where=f"{layers[-1].source}: plugins.{info.name}",
                )
            return self._constructed(info, target) if inspect.isclass(target) else target
        values, notes = merge(settings_class, info.name, layers)
        self.notes.extend(notes)
        info.settings = build(settings_class, info.name, values, layers)
        return self._constructed(info, target, settings=info.settings)

    def _constructed(self, info: PluginInfo, target: Any, **arguments: Any) -> object:
        try:
            instance: object = target(**arguments)
        except (KeyboardInterrupt, UserError):
            raise
        except BaseException as error:
            info.state, info.cause = "broken", error_chain(error)
            info.remedy = f"Start with --safe, or set plugins.{info.name}: false"
            raise _start_error(info) from error
        return instance

    def _register_all(self, hooks: Hooks, instances: Mapping[str, object]) -> None:
        for name, instance in instances.items():
            self._add_specs(hooks, name, instance)
        for name, instance in instances.items():
            self._blamed(name, hooks.check, instance, name)
        for name, instance in instances.items():
            hooks.register(instance, name)
        hooks.manager.check_pending()

    def _add_specs(self, hooks: Hooks, name: str, instance: object) -> None:
        module = getattr(instance, "hookspecs", None)
        if module is not None:
            self._blamed(name, hooks.add_specs, module)

    def _blamed(self, name: str, action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except PluginError as error:
            info = self._infos[name]
            info.state, info.cause = "broken", str(error)
            info.remedy = f"Fix it, or set plugins.{name}: false"
            raise _start_error(info) from error

    def _ask_registrations(self, name: str) -> None:
        """Ask one plugin what it brings. Raises `ConfigError` naming it when it fails."""
        harness = self.harness
        try:

            def ask(*arguments: Any, **values: Any) -> list[Any]:
                answers = self.base.collect_from(*arguments, **values)
                return [item for answer in answers for item in answer]

            for tool in ask(name, hookspecs.tools_register, harness=harness) or ():
                harness.tools.register(tool, owner=name)
            for factory in ask(name, hookspecs.llm_register, harness=harness) or ():
                harness.llm.register(factory, owner=name)
            for command in ask(name, hookspecs.commands_register, harness=harness) or ():
                harness.commands.register(command, owner=name)
        except (UserError, PluginError, TypeError, AttributeError) as error:
            info = self._infos[name]
            info.state, info.cause = "broken", error_chain(error)
            info.remedy = f"Fix it, or set plugins.{name}: false"
            raise _start_error(info) from error

    # --------------------------------------------------------------------- at run time

    async def register(self, plugin: object, name: str) -> None:
        """Register a plugin now, last among plugins; starts it when the harness runs.

        Raises `ConfigError` when the name is taken or the plugin cannot work.
        """
        if name in self._infos and self._infos[name].state == "on":
            raise ConfigError(f"a plugin {name!r} is registered already")
        info = PluginInfo(name, "inline", "", "on")
        self._infos[name] = info
        loaded = _Loaded(info, plugin, (), inline=True)
        instance = self._instance(loaded, ())
        info.plugin = instance
        self._loaded[name] = loaded
        for hooks in self._all_hooks():
            self._register_all(hooks, {name: instance})
        self._ask_registrations(name)
        if self.harness.is_running:
            await self.base.notify_only({name}, hookspecs.harness_start, harness=self.harness)

    async def unregister(self, name: str) -> None:
        """Stop a plugin and take away everything it contributed.

        Raises `UserError` when no such plugin is on.
        """
        info = self._infos.get(name)
        if info is None or info.state != "on":
            raise UserError(f"no plugin {name!r} is on")
        if self.harness.is_running:
            await self.base.notify_only({name}, hookspecs.harness_stop, harness=self.harness)
        for overrides in self._overrides.values():
            if overrides.instances.pop(name, None) is not None and overrides.is_started:
                await overrides.hooks.notify_only(
                    {name}, hookspecs.harness_stop, harness=self.harness
                )
        for hooks in self._all_hooks():
            if hooks.manager.has_plugin(name):
                hooks.unregister(name)
        self.harness.remove_owner(name)
        self._loaded.pop(name, None)
        info.state, info.cause, info.plugin = "off", "unregistered", None

    def _all_hooks(self) -> list[Hooks]:
        return [self.base, *(overrides.hooks for overrides in self._overrides.values())]

    # ----------------------------------------------------------------------- per agent

    def is_on(self, owner: str, hooks: Hooks) -> bool:
        """Whether what `owner` contributed counts for the agents that have `hooks`."""
        if hooks is self.base or not self.base.manager.has_plugin(owner):
            return True
        return hooks.manager.has_plugin(owner)

    def hooks_for(self, definition: AgentDefinition) -> Hooks:
        """Return the hooks of an agent: the base ones, or a set shared per distinct overrides.

        Raises `ConfigError` when an override names a plugin that is not on, or does not fit.
        """
        if not definition.plugins:
            return self.base
        key = tuple(sorted((name, repr(layers)) for name, layers in definition.plugins.items()))
        overrides = self._overrides.get(key)
        if overrides is None:
            overrides = self._overrides[key] = self._build_overrides(definition)
        return overrides.hooks

    def _build_overrides(self, definition: AgentDefinition) -> _Overrides:
        for name in definition.plugins:
            if name not in self._loaded:
                raise ConfigError(
                    f"plugin {name!r} is not on, so it cannot be overridden",
                    where=f"agents.{definition.name}.plugins.{name}",
                )
        off = frozenset(
            name for name, layers in definition.plugins.items() if layers[-1].values is False
        )
        hooks = self._new_hooks()
        replaced: dict[str, object] = {}
        instances: dict[str, object] = {}
        for name, loaded in sorted(self._loaded.items(), key=lambda e: self._rank(e[0])):
            if name in off:
                continue
            if name in definition.plugins:
                info = loaded.info
                shown = info.settings
                layers = (*loaded.layers, *definition.plugins[name])
                instances[name] = replaced[name] = self._instance(loaded, layers)
                info.settings = shown
            else:
                base = self._infos[name].plugin
                assert base is not None
                instances[name] = base
        self._register_all(hooks, instances)
        for name in replaced:
            tools = hooks.collect_from(name, hookspecs.tools_register, harness=self.harness)
            self.harness.tools.override(name, hooks, [t for answer in tools for t in answer])
        return _Overrides(hooks, replaced, off)

    async def start_overrides(self, hooks: Hooks) -> None:
        """Start the override instances behind `hooks`, once."""
        if hooks is self.base:
            return
        for overrides in self._overrides.values():
            if overrides.hooks is hooks and not overrides.is_started:
                await hooks.notify_only(
                    overrides.instances, hookspecs.harness_start, harness=self.harness
                )
                overrides.is_started = True

    async def stop(self) -> None:
        """Tell every instance that the harness stops; failures are reported."""
        await self.base.parallel(hookspecs.harness_stop, harness=self.harness)
        for overrides in self._overrides.values():
            if overrides.is_started:
                await overrides.hooks.notify_only(
                    overrides.instances, hookspecs.harness_stop, harness=self.harness
                )

    def broadcast(self, spec: Any) -> None:
        """Emit a hook without arguments to each distinct instance once."""
        self.base.emit(spec)
        for overrides in self._overrides.values():
            overrides.hooks.emit_only(overrides.instances, spec)


def _start_error(info: PluginInfo) -> ConfigError:
    version = f" {info.version}" if info.version not in ("", "?") else ""
    return ConfigError(
        f"plugin {info.name!r} ({info.distribution}{version}) cannot start: {info.cause}",
        remedy=info.remedy,
    )
