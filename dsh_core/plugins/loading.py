"""From a name to an object: importing a plugin, making its settings, constructing it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dsh_core import hookspecs
from dsh_core.errors import ConfigError, PluginError, UserError, error_chain
from dsh_core.hooks import Hooks
from dsh_core.plugins.discovery import Found
from dsh_core.plugins.info import PluginInfo, StartError
from dsh_core.plugins.settings import Placed, admit, build, merge
from dsh_core.record import record
from dsh_core.secrets import Secrets

R = TypeVar("R")


@record(frozen=False)
class Loaded:
    """A plugin class, module or object with what it takes to make instances of it.

    Args:
        info: Who it is.
        target: What the entry point names.
        layers: Its settings in the configuration.
        wishes: Pairs of plugins of which it wants the first asked before the second.
        instance: What is registered; None until it is made.

    """

    info: PluginInfo
    target: Any
    layers: tuple[Placed, ...] = ()
    wishes: Sequence[tuple[str, str]] = ()
    instance: Any = None


@record()
class Made:
    """An instance, its settings, and notes about settings that were ignored."""

    instance: object
    settings: Any
    notes: Sequence[str]


def imported(info: PluginInfo, found: Found) -> object:
    """Import a plugin. Raises `StartError` for whatever its modules raise."""
    target = attempt(info, found.load)
    if target is None:
        raise info.cannot_start("its entry point names None")
    return target


def made(loaded: Loaded, layers: Sequence[Placed], secrets: Secrets) -> Made:
    """Make the object to register: a module or an object as it is, a class constructed.

    Raises `ConfigError` for settings that do not fit, `StartError` for what the class raises.
    """
    target, info = loaded.target, loaded.info
    is_class = inspect.isclass(target)
    settings_class = getattr(target, "Settings", None) if is_class else None
    if settings_class is None:
        _refuse_settings(info.name, target, layers)
        return Made(attempt(info, target) if is_class else target, None, ())
    try:
        layers, notes = admit(settings_class, info.name, layers)
        settings = build(settings_class, info.name, merge(settings_class, layers), layers)
        secrets.add_from(settings)
    except ConfigError:
        raise
    except Exception as error:
        raise start_error(info, error) from error
    return Made(attempt(info, lambda: target(settings=settings)), settings, notes)


def declare(loaded: Loaded, hooks: Hooks) -> None:
    """Add the hooks a plugin brings. Raises `StartError` when a name is taken."""
    module = getattr(loaded.instance, "hookspecs", None)
    if module is not None and module is not hookspecs:
        attempt(loaded.info, lambda: hooks.add_specs(module, owner=loaded.info.name))


def _refuse_settings(name: str, target: object, layers: Sequence[Placed]) -> None:
    is_made = hasattr(type(target), "Settings")
    for one in layers:
        for key in one.layer.values or ():
            where = one.where((key,))
            if is_made:
                raise ConfigError(
                    f"code gave plugin {name!r} as an object, with its settings in it",
                    where=where,
                    remedy=f"Give the class {type(target).__name__}, or leave these settings out.",
                )
            raise ConfigError(f"plugin {name!r} takes no settings", where=where)


def attempt(info: PluginInfo, action: Callable[[], R]) -> R:
    """Run code of a plugin at start-up. Raises `StartError` for whatever it raises."""
    try:
        return action()
    except (StartError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise start_error(info, error) from error


def start_error(info: PluginInfo, error: BaseException) -> StartError:
    """Say a plugin's failure; its own remedy counts where it has one."""
    source = error.__cause__ if isinstance(error, PluginError) and error.__cause__ else error
    if isinstance(source, UserError):
        is_placed = source.where not in (None, info.name)
        cause = f"{source.where}: {source.message}" if is_placed else source.message
        return info.cannot_start(cause, source.remedy)
    if isinstance(error, PluginError) and error.plugin == info.name:
        return info.cannot_start(f"{error.hook}: {error.message}")
    return info.cannot_start(error_chain(error))
