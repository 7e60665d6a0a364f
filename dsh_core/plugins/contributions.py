"""What a plugin brings when it is registered: tools, model adapters, slash commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from dsh_core import hookspecs
from dsh_core.commands import SlashCommand
from dsh_core.errors import PluginError
from dsh_core.hooks import Hooks
from dsh_core.llm import AdapterFactory
from dsh_core.tools import Tool

if TYPE_CHECKING:
    from dsh_core.harness import Harness

T = TypeVar("T")


def contribute(harness: Harness, hooks: Hooks, name: str) -> None:
    """Ask a plugin what it brings, and register that in its name. Raises what it raises."""
    for tool in _tools(harness, hooks, name):
        harness.tools.register(tool, owner=name)
    for factory in _answers(harness, hooks, name, hookspecs.llm_register, AdapterFactory):
        harness.llm.register(factory, owner=name)
    for command in _answers(harness, hooks, name, hookspecs.commands_register, SlashCommand):
        harness.commands.register(command, owner=name)


def give_tools(harness: Harness, hooks: Hooks, name: str) -> None:
    """Let the tools of an override instance stand for the base's where `hooks` are used."""
    harness.tools.override(name, hooks, _tools(harness, hooks, name))


def _tools(harness: Harness, hooks: Hooks, name: str) -> list[Tool]:
    return list(_answers(harness, hooks, name, hookspecs.tools_register, Tool))


def _answers(
    harness: Harness, hooks: Hooks, name: str, spec: Callable[..., Any], kind: type[T]
) -> Iterator[T]:
    for answer in hooks.collect_from(name, spec, harness=harness):
        if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
            raise PluginError(
                name,
                spec.__name__,
                f"answered with {_shown(answer)}, not a list of {kind.__name__}",
            )
        for item in answer:
            if not isinstance(item, kind):
                hint = "; decorate it with @tool" if kind is Tool and callable(item) else ""
                raise PluginError(
                    name, spec.__name__, f"{_shown(item)} is no {kind.__name__}{hint}"
                )
            yield item


def _shown(value: object) -> str:
    name = getattr(value, "__name__", None)
    return (
        f"{type(value).__name__} {name}" if isinstance(name, str) else f"a {type(value).__name__}"
    )
