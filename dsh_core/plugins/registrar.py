"""`Harness.plugins`: loads plugins, keeps every manager in step, and takes plugins out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dsh_core import hookspecs
from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import AgentDefinition, HarnessConfig
from dsh_core.errors import ConfigError, PluginError, UserError
from dsh_core.hooks import Hooks, Reporter, Tracer
from dsh_core.plugins.agent_hooks import AgentHooks
from dsh_core.plugins.catalog import Catalog
from dsh_core.plugins.contributions import contribute
from dsh_core.plugins.discovery import Found
from dsh_core.plugins.info import PluginInfo, StartError
from dsh_core.plugins.loading import Loaded, attempt, declare, made, start_error
from dsh_core.plugins.order import CycleError, asked_last, bent, mistaken_wishes, wishes
from dsh_core.plugins.overrides import wanted_by
from dsh_core.plugins.settings import placed
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.harness import Harness


@record(frozen=False)
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
    _catalog: Catalog = field(init=False)
    _ranks: dict[str, int] = field(default_factory=dict)
    _loaded: dict[str, Loaded] = field(default_factory=dict)
    _agents: AgentHooks = field(init=False)
    _slow: set[tuple[str, str]] = field(default_factory=set)
    _is_loaded: bool = False
    _is_started: bool = False

    def __post_init__(self) -> None:
        self.base = self._new_hooks()
        self._catalog = Catalog(self.config, self.inline)
        self._agents = AgentHooks(self.harness, self._loaded, self._new_hooks, self._note)

    @property
    def _infos(self) -> dict[str, PluginInfo]:
        return self._catalog.infos

    def _new_hooks(self) -> Hooks:
        return Hooks(self.report, self._rank, tracer=self.tracer, slow=self._slow)

    def _rank(self, name: str) -> int:
        return self._ranks.get(name, len(self._ranks))

    # ------------------------------------------------------------------------ knowing

    def infos(self) -> list[PluginInfo]:
        """Return every known plugin in asked order, also those that are not on."""
        self.survey()
        return sorted(self._infos.values(), key=lambda info: self._rank(info.name))

    def survey(self) -> Mapping[str, Found]:
        """Find out what is installed and what state each plugin would have; imports nothing."""
        found = self._catalog.survey()
        if not self._ranks:
            self._set_order(self._catalog.order)
        return found

    def target(self, name: str) -> object | None:
        """Return a plugin's class or module; imports it if it is not loaded, None if it cannot."""
        return self._catalog.target(name)

    # ------------------------------------------------------------------------ loading

    def load(self) -> None:
        """Import what is on, check every signature, then register all.

        Raises `ConfigError` for a plugin that is missing, broken or misconfigured, naming plugin,
        distribution, cause and remedy; nothing is registered then.
        """
        self._load(is_strict=True)

    def diagnose(self) -> list[PluginInfo]:
        """Load what can be loaded; what cannot is `broken`, with its cause. Never raises for it."""
        self._load(is_strict=False)
        return self.infos()

    def _load(self, *, is_strict: bool) -> None:
        if self._is_loaded:
            return
        self.survey()
        try:
            self._note(self._catalog.check_names(is_strict=is_strict))
            self._each([*self._infos], self._refuse, is_strict)
            self._each([*self._infos], self._import, is_strict)
            self._bend(is_strict=is_strict)
            for step in (self._make, self._declare, self._check, self._enter):
                self._each(self._in_order(), step, is_strict)
            self.base.manager.check_pending()
            self._each(self._in_order(), self._contribute, is_strict)
        except BaseException:
            self._unload()
            raise
        self._is_loaded = True

    def _each(self, names: Iterable[str], step: Callable[[str], None], is_strict: bool) -> None:
        """Take a step with each plugin. Unless strict, leave out those that fail."""
        for name in names:
            try:
                step(name)
            except UserError as error:
                if is_strict:
                    raise
                self._leave_out(name, error)

    def _leave_out(self, name: str, error: UserError) -> None:
        info = self._infos[name]
        if info.state == "on":
            info.state, info.plugin = "broken", None
            info.cause, info.remedy = _cause(error), error.remedy or ""
        self._remove(name)

    def _unload(self) -> None:
        """Forget everything that was loaded, as if it had not been tried."""
        for name in [*self._loaded]:
            self._remove(name)
        self._catalog.forget()
        self._ranks.clear()

    def _in_order(self) -> list[str]:
        return sorted(self._loaded, key=self._rank)

    def _refuse(self, name: str) -> None:
        info = self._infos[name]
        if info.state in ("missing", "broken"):
            raise info.cannot_start(info.cause, info.remedy)

    def _import(self, name: str) -> None:
        info = self._infos[name]
        if info.state == "on":
            self._take_up(info, self._catalog.load(name))

    def _take_up(self, info: PluginInfo, target: object) -> None:
        layers = placed(f"plugins.{info.name}", self.config.plugins.get(info.name, ()))
        pairs = wishes(info.name, target)
        self._loaded[info.name] = Loaded(info, target, layers, pairs)
        self._note(mistaken_wishes(info.name, pairs, {*self._catalog.known(), *self._infos}))

    def _bend(self, *, is_strict: bool = True) -> None:
        """Apply `before` and `after`, which are stronger than the asked order."""
        pairs = [pair for loaded in self._loaded.values() for pair in loaded.wishes]
        try:
            order = bent(self._catalog.order, [p for p in pairs if self._loaded.keys() >= {*p}])
        except CycleError as error:
            if is_strict:
                raise
            for name in error.names:
                self._leave_out(name, error)
            self._bend(is_strict=is_strict)
        else:
            self._set_order(order)

    def _set_order(self, order: Iterable[str]) -> None:
        self._ranks = {name: index for index, name in enumerate(order)}
        for hooks in self._all_hooks():
            hooks.reorder()

    def _make(self, name: str) -> None:
        loaded = self._loaded[name]
        new = made(loaded, loaded.layers, self.harness.secrets)
        loaded.instance, loaded.info.settings = new.instance, new.settings
        self._note(new.notes)

    def _declare(self, name: str) -> None:
        declare(self._loaded[name], self.base)

    def _check(self, name: str) -> None:
        loaded = self._loaded[name]
        attempt(loaded.info, lambda: self.base.check(loaded.instance, name))

    def _enter(self, name: str) -> None:
        loaded = self._loaded[name]
        attempt(loaded.info, lambda: self.base.register(loaded.instance, name))
        loaded.info.plugin = loaded.instance

    def _contribute(self, name: str) -> None:
        attempt(self._infos[name], lambda: contribute(self.harness, self.base, name))

    def _note(self, notes: Iterable[str]) -> None:
        self.notes.extend(note for note in notes if note not in self.notes)

    # --------------------------------------------------------------------- at run time

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Start plugins in the block; what is registered from here on is started at once."""
        self._is_started = True
        with self.at_start_up():
            yield

    @contextmanager
    def at_start_up(self) -> Iterator[None]:
        """Make a plugin's failure in the block a `StartError` that names plugin and remedy."""
        try:
            yield
        except PluginError as error:
            info = self._infos.get(error.plugin)
            if info is None:
                raise
            raise start_error(info, error) from error

    async def register(self, plugin: object, name: str) -> None:
        """Register a plugin now, last among plugins; starts it when the harness runs.

        A plugin that was registered before gets its old place. Raises `ConfigError` when the name
        is taken or the plugin cannot work; nothing of it is left then.
        """
        before = self._infos.get(name)
        if not self._is_loaded:
            raise ConfigError(f"plugin {name!r} comes too early: give it to Harness(plugins=…)")
        if before is not None and before.state == "on":
            raise ConfigError(f"a plugin {name!r} is registered already")
        self._infos[name] = info = PluginInfo(name, "inline", "", "on")
        try:
            self._enter_late(info, plugin)
            await self._start_late(name)
        except BaseException as error:
            self._remove(name)
            self._infos.pop(name)
            if before is not None:
                self._infos[name] = before
            if isinstance(error, CycleError):
                raise info.cannot_start(error.message) from error
            raise

    async def _start_late(self, name: str) -> None:
        if not self._is_started:
            return
        try:
            with self.starting():
                await self.base.notify_only({name}, hookspecs.harness_start, harness=self.harness)
        except BaseException:
            await self._take_out(name)
            raise

    def _enter_late(self, info: PluginInfo, plugin: object) -> None:
        name = info.name
        catalog = self._catalog
        catalog.order = asked_last(catalog.order, name, BUILTIN_PLUGINS)
        catalog.targets[name] = plugin
        self._take_up(info, plugin)
        self._bend()
        for step in (self._make, self._declare, self._check, self._enter):
            step(name)
        self._agents.enter(name)
        self._contribute(name)
        self._agents.give_tools(name)

    async def unregister(self, name: str) -> None:
        """Take away everything a plugin contributed, then stop it.

        Calls that run finish with it. Raises `UserError` when no such plugin is on.
        """
        info = self._infos.get(name)
        if info is None or info.state != "on" or name not in self._loaded:
            raise UserError(f"no plugin {name!r} is on")
        info.state, info.cause, info.plugin = "off", "unregistered", None
        await self._take_out(name)

    async def _take_out(self, name: str) -> None:
        """Take a plugin out of everything first, so that nobody calls it while it stops."""
        spec, harness = hookspecs.harness_stop, self.harness
        stops = [self.base.notifier({name}, spec)] if self._is_started else []
        begun = [one for one in self._agents if one.has_begun(name)]
        stops += [one.hooks.notifier({name}, spec) for one in begun]
        self._remove(name)
        for stop in stops:
            await stop(harness=harness)
        for agent in harness.agents.list():
            agent.stash.remove_owner(name)

    def _remove(self, name: str) -> None:
        for one in self._agents:
            one.take_out(name)
        self.base.unregister(name)
        self.harness.remove_owner(name)
        self._loaded.pop(name, None)

    def _all_hooks(self) -> list[Hooks]:
        return [self.base, *(one.hooks for one in self._agents)]

    async def stop(self) -> None:
        """Tell every instance that the harness stops; failures are reported."""
        self._is_started = False
        try:
            await self.base.parallel(hookspecs.harness_stop, harness=self.harness)
        finally:
            for one in self._agents:
                await one.stop(self.harness)

    def broadcast(self, spec: Callable[..., None], **arguments: Any) -> None:
        """Emit a hook without agent or session to each distinct instance once."""
        self.base.emit(spec, **arguments)
        for one in self._agents:
            one.hooks.emit_only(one.instances, spec, **arguments)

    # ----------------------------------------------------------------------- per agent

    def is_on(self, owner: str, hooks: Hooks) -> bool:
        """Whether what `owner` contributed counts for the agents that have `hooks`."""
        if hooks is self.base or not self.base.manager.has_plugin(owner):
            return True
        return bool(hooks.manager.has_plugin(owner))

    def hooks_for(self, definition: AgentDefinition) -> Hooks:
        """Return the hooks of an agent: the base ones, or a set shared per distinct overrides.

        Raises `ConfigError` when an override names a plugin that is not on, or does not fit.
        """
        wanted, notes = wanted_by(
            definition, self._loaded, self._infos, self.config, self._catalog.known()
        )
        self._note(notes)
        return self._agents.hooks(wanted, self._in_order()) if wanted else self.base

    async def start_overrides(self, hooks: Hooks) -> None:
        """Start the override instances behind `hooks`, once."""
        for one in self._agents:
            if one.hooks is hooks:
                await one.start(self.harness)


def _cause(error: UserError) -> str:
    if isinstance(error, StartError):
        return error.cause
    return f"{error.where}: {error.message}" if error.where else error.message
