"""Which plugins are on: installed means on, and who may switch them off."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.plugins.discovery import (
    CORE_DISTRIBUTION,
    FIRST_PARTY,
    Found,
    nearest,
    unknown_plugin,
)
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.order import asked_order
from dsh_core.plugins.settings import Placed, placed


def switch(layers: Sequence[Layer]) -> bool | None:
    """Whether the configuration switches a plugin on or off; None = it does not say.

    The strongest file counts. The environment, `-s` and an untrusted file only give settings.
    """
    said = [layer for layer in layers if not layer.settings_only]
    return said[-1].values is not False if said else None


def plugin_order(
    config: HarnessConfig, found: Mapping[str, Found], inline: Collection[str]
) -> list[str]:
    """Return every known name in asked order; plugins given by code are asked first."""
    named = [name for name, layers in config.plugins.items() if switch(layers) is not None]
    known = [*found, *config.plugins]
    order = asked_order(named, known, list(BUILTIN_PLUGINS))
    return [*inline, *(name for name in order if name not in inline)]


def state_of(
    name: str,
    config: HarnessConfig,
    found: Found | None,
    *,
    is_inline: bool,
    known: Collection[str] = (),
) -> PluginInfo:
    """Return what a plugin's state is before anything is imported.

    `known` are the names a missing one may have been meant for.
    """
    layers = config.plugins.get(name, ())
    info = _info(name, found, is_inline=is_inline)
    wanted = switch(layers)
    if name in config.blocked:
        info.state, info.cause = "blocked", f"-p no:{name}"
    elif wanted is False:
        info.state, info.cause = "off", f"{_said_at(name, layers)}: false"
    elif is_inline:
        info.state = "on"
    elif found is None:
        _not_installed(info, config, layers, known)
    elif not info.is_builtin and not config.autoload and wanted is None:
        info.state, info.cause = "off", "autoload: false, and no file names it"
    elif len(found.claims) > 1:
        others = [claim for claim in found.claims if claim != CORE_DISTRIBUTION]
        info.state = "broken"
        info.cause = f"{len(found.claims)} distributions claim the name: {', '.join(found.claims)}"
        info.remedy = f"Uninstall one: pip uninstall {' or '.join(others)}."
    return info


def _info(name: str, found: Found | None, *, is_inline: bool) -> PluginInfo:
    if is_inline:
        return PluginInfo(name, "inline", "", "on")
    if found is None:
        return PluginInfo(name, f"dsh-{name.replace('_', '-')}", "?", "missing")
    return PluginInfo(
        name, found.distribution, found.version, "on", is_builtin=name in BUILTIN_PLUGINS
    )


def _not_installed(
    info: PluginInfo, config: HarnessConfig, layers: Sequence[Layer], known: Collection[str]
) -> None:
    name, near = info.name, nearest(info.name, known)
    sources = ", ".join(dict.fromkeys(layer.source for layer in layers))
    if config.safe:
        info.state, info.cause = "off", "--safe"
    elif switch(layers) is None:
        info.state, info.cause = "off", f"{sources} gives it settings, but it is not installed"
    elif near is not None:
        info.distribution = ""
        info.cause = f"{_said_at(name, layers)}: {unknown_plugin(name, near)}"
        info.remedy = f"Write {near}, or remove plugins.{name}."
    else:
        info.cause = f"configured in {sources}, but not installed"
        install = f"pip install {info.distribution}"
        info.remedy = f"{install}, or set plugins.{name}: false."
        if name not in FIRST_PARTY:
            info.remedy = (
                f"If it is a distribution of its own: {install}. "
                f"Otherwise correct the name, or set plugins.{name}: false."
            )


def _said_at(name: str, layers: Sequence[Layer]) -> str:
    """Say where the configuration switches a plugin on or off."""
    said = [layer for layer in layers if not layer.settings_only]
    one: Placed = placed(f"plugins.{name}", said[-1:])[0]
    return one.where(())
