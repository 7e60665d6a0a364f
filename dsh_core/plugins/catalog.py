"""What is installed, in which state it is, and in which order it would be asked."""

from __future__ import annotations

from collections.abc import Mapping

from dsh_core import __version__
from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig
from dsh_core.plugins.discovery import Found, builtin_plugin, installed_plugins
from dsh_core.plugins.info import PluginInfo, StartError
from dsh_core.plugins.loading import imported
from dsh_core.plugins.states import plugin_order, state_of


class Catalog:
    """Every known plugin. Looked up once, when first asked; nothing is imported for it.

    Args:
        config: What is configured.
        inline: Plugin objects given by code, by name.

    """

    def __init__(self, config: HarnessConfig, inline: Mapping[str, object]):
        self.config = config
        self.inline = inline
        self.infos: dict[str, PluginInfo] = {}
        self.order: list[str] = []
        self.targets: dict[str, object] = {}
        self._found: dict[str, Found] | None = None

    def survey(self) -> Mapping[str, Found]:
        """Return what could be imported, and fill `infos` and `order`."""
        if self._found is not None:
            return self._found
        config = self.config
        is_wanted = not config.safe and (config.autoload or config.plugins)
        installed = installed_plugins() if is_wanted else {}
        builtin = {
            name: builtin_plugin(name, target, __version__, installed.get(name))
            for name, target in BUILTIN_PLUGINS.items()
        }
        self._found = {**installed, **builtin}
        self.order = plugin_order(config, self._found, self.inline)
        for name in self.order:
            self.infos[name] = state_of(
                name, config, self._found.get(name), is_inline=name in self.inline
            )
        return self._found

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
