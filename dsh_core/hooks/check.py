"""What registration refuses, said with plugin, hook, the signature found and the right one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import pluggy

from dsh_core.errors import PluginError
from dsh_core.hooks.chain import CALL_NEXT
from dsh_core.marks import Mode


def check_plugin(
    manager: pluggy.PluginManager, plugin: object, name: str, modes: Mapping[str, Mode]
) -> None:
    """Check every implementation in `plugin`.

    Raises `PluginError` for the first one that cannot work.
    """
    for function, hook, options in implementations(manager, plugin):
        mode = modes.get(hook)
        if mode is not None:
            check_function(function, hook, options, mode, name)
        elif not options.get("optionalhook"):
            raise PluginError(name, hook, _unknown_hook(function, hook, modes))


def check_function(
    function: Callable[..., Any], hook: str, options: Mapping[str, Any], mode: Mode, name: str
) -> None:
    """Raise `PluginError` when a plugin's function cannot implement a hook of this mode."""
    problem = _problem(function, options, mode)
    if problem:
        right = f"{'async ' if mode.is_async else ''}def {hook}({', '.join(mode.arguments)})"
        raise PluginError(
            name, hook, f"{problem}; found `{_shown(function, hook)}`, the hook is `{right}`"
        )


def implementations(
    manager: pluggy.PluginManager, plugin: object
) -> Iterator[tuple[Callable[..., Any], str, Mapping[str, Any]]]:
    """Yield (function, hook name, options) of everything marked with `hookimpl`.

    Nothing of the plugin is run: properties and other computed attributes are passed over.
    """
    for attribute in dir(plugin):
        if is_function(plugin, attribute):
            options = manager.parse_hookimpl_opts(plugin, attribute)
            if options is not None:
                yield getattr(plugin, attribute), options.get("specname") or attribute, options


def is_function(plugin: object, attribute: str) -> bool:
    """Whether an attribute is a function or method, found without running any code for it."""
    found = inspect.getattr_static(plugin, attribute, None)
    return isinstance(found, (FunctionType, MethodType, classmethod, staticmethod))


def _unknown_hook(function: Callable[..., Any], hook: str, modes: Mapping[str, Mode]) -> str:
    near = difflib.get_close_matches(hook, modes, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`dsh hooks` lists them."
    return (
        f"there is no such hook; {hint} (a hook of an absent plugin needs optionalhook=True); "
        f"found `{_shown(function, hook)}`"
    )


def _problem(function: Callable[..., Any], options: Mapping[str, Any], mode: Mode) -> str | None:
    signature = inspect.signature(function)
    is_coroutine = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return (
        _parameter_problem(signature, mode)
        or _call_next_problem(signature, is_coroutine, mode)
        or _wrapper_problem(function, options, mode)
        or _colour_problem(function, options, mode)
    )


def _parameter_problem(signature: inspect.Signature, mode: Mode) -> str | None:
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD or parameter.kind is parameter.VAR_POSITIONAL:
            return f"`{parameter}` is not allowed: name the arguments you want"
        if parameter.default is not parameter.empty:
            return f"`{parameter.name}` must not have a default"
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name != CALL_NEXT:
                return f"keyword-only `{parameter.name}` is not allowed; only `call_next` is"
        elif parameter.name == CALL_NEXT:
            return "`call_next` must be keyword-only: write `*, call_next`"
        elif parameter.name not in mode.arguments:
            near = difflib.get_close_matches(parameter.name, mode.arguments, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            return f"the hook has no argument `{parameter.name}`{hint}"
    return None


def _call_next_problem(signature: inspect.Signature, is_coroutine: bool, mode: Mode) -> str | None:
    if CALL_NEXT not in signature.parameters:
        return None
    if mode.kind != "waterfall":
        return f"`call_next` is for waterfalls; this hook is {mode.kind}"
    if not is_coroutine:
        return "`call_next` needs an `async def`"
    return None


def _wrapper_problem(
    function: Callable[..., Any], options: Mapping[str, Any], mode: Mode
) -> str | None:
    if options.get("hookwrapper"):
        return "hookwrapper=True is not supported; use wrapper=True"
    if not options.get("wrapper"):
        return None
    if mode.kind != "waterfall":
        return f"wrapper=True is for waterfalls; this hook is {mode.kind}"
    if mode.streams:
        return "wrapper=True cannot wrap a stream; use `call_next`"
    if not inspect.isgeneratorfunction(function):
        return "wrapper=True needs a generator function with one `yield`"
    return None


def _colour_problem(
    function: Callable[..., Any], options: Mapping[str, Any], mode: Mode
) -> str | None:
    if inspect.isasyncgenfunction(function):
        return None if mode.streams else "an async generator is not an answer here"
    if inspect.iscoroutinefunction(function) and not mode.is_async:
        return "the hook is called synchronously; `async def` would never run"
    if inspect.isgeneratorfunction(function) and not options.get("wrapper"):
        return "a generator function would never run; return the answer" + (
            ", or wrap with wrapper=True" if mode.kind == "waterfall" else ""
        )
    return None


def _shown(function: Callable[..., Any], hook: str) -> str:
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return f"{'async ' if is_async else ''}def {hook}{inspect.signature(function)}"
