"""What is installed, in which state it is, and in which order it would be asked."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dsh_core import __version__
from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig
from dsh_core.errors import ConfigError
from dsh_core.plugins.discovery import (
    FIRST_PARTY,
    Found,
    builtin_plugin,
    installed_plugins,
    nearest,
    under_installed_names,
    unknown_plugin,
)
from dsh_core.plugins.info import PluginInfo, StartError
from dsh_core.plugins.loading import imported
from dsh_core.plugins.settings import placed
from dsh_core.plugins.states import plugin_order, state_of


class Catalog:
    """Every known plugin. Looked up once, when first asked; nothing is imported for it.

    Args:
        config: What is configured.
        given: Plugin objects given by code, by name.

    """

    def __init__(self, config: HarnessConfig, given: Mapping[str, object]):
        self.config = config
        self.given = given
        self.inline: Mapping[str, object] = given
        self.infos: dict[str, PluginInfo] = {}
        self.order: list[str] = []
        self.targets: dict[str, object] = {}
        self._found: dict[str, Found] | None = None
        self._known: set[str] = set()

    def known(self) -> Collection[str]:
        """Return the names that mean a plugin, installed, given by code, or first-party."""
        self.survey()
        return {*self._known, *self.targets}

    def survey(self) -> Mapping[str, Found]:
        """Return what could be imported, and fill `infos` and `order`."""
        if self._found is not None:
            return self._found
        config = self.config
        is_wanted = not config.safe and (config.autoload or config.plugins)
        every = installed_plugins()
        installed = every if is_wanted else {}
        builtin = {
            name: builtin_plugin(name, target, __version__, installed.get(name))
            for name, target in BUILTIN_PLUGINS.items()
        }
        self._found = {**installed, **builtin}
        self.inline = under_installed_names(self.given, {**every, **builtin})
        self._known = {*every, *builtin, *self.inline, *FIRST_PARTY}
        self.order = plugin_order(config, self._found, self.inline)
        for name in self.order:
            self.infos[name] = state_of(
                name,
                config,
                self._found.get(name),
                is_inline=name in self.inline,
                known=self._known,
            )
        return self._found

    def check_names(self, *, is_strict: bool) -> list[str]:
        """Return notes about names that switch nothing on and are nobody's, but like a plugin's.

        Raises `ConfigError`, if strict, for a `-p no:NAME` that blocks nothing: it is for safety.
        """
        known, plugins = self.known(), self.config.plugins
        notes = []
        for name, layers in plugins.items():
            near = nearest(name, known)
            if near is not None and self.infos[name].state == "off":
                where = placed(f"plugins.{name}", layers)[-1].where(())
                notes.append(f"{where}: {unknown_plugin(name, near)}")
        for name in sorted(self.config.blocked - {*known, *plugins}):
            where, said = f"-p no:{name}", unknown_plugin(name, nearest(name, known))
            if is_strict:
                raise ConfigError(said, where=where, remedy="`dsh plugins` lists them.")
            notes.append(f"{where}: {said}")
        return notes

    def load(self, name: str) -> object:
        """Return a plugin's class or module. Raises `StartError` when importing it fails."""
        if name not in self.targets:
            is_inline = name in self.inline
            self.targets[name] = (
                self.inline[name] if is_inline else imported(self.infos[name], self.survey()[name])
            )
        return self.targets[name]

    def target(self, name: str) -> object | None:
        """Return a plugin's class or module; None where it is absent or cannot be imported."""
        if name not in self.targets and name not in self.survey():
            return None
        try:
            return self.load(name)
        except StartError:
            return None

    def forget(self) -> None:
        """Survey anew when asked next."""
        self.infos.clear()
        self._found = None
