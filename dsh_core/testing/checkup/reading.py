"""What can be told without using a plugin: its hooks, its settings, its tools."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from dsh_core.config.model import HarnessConfig
from dsh_core.errors import PluginError, UserError, error_chain
from dsh_core.harness import Harness
from dsh_core.hooks import Hooks
from dsh_core.hooks.check import check_function, implementations, is_function
from dsh_core.plugins.settings import json_schema
from dsh_core.testing.checkup.finding import Finding
from dsh_core.testing.checkup.subject import Subject


def alone(config: HarnessConfig, name: str) -> HarnessConfig:
    """Return a configuration in which one plugin is on, with its settings, and no other."""
    layers = config.plugins.get(name)
    return HarnessConfig(autoload=False, plugins={name: layers} if layers else {})


def reading_findings(subject: Subject, config: HarnessConfig) -> Iterator[Finding]:
    """Yield what is wrong with hooks, settings and tools."""
    try:
        target = subject.load()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        yield Finding("import", f"cannot be imported: {error_chain(error)}", is_fatal=True)
        return
    yield from _undocumented(subject, target)
    yield from _undocumented_settings(subject, target)
    refused = list(_refused_hooks(subject, target))
    yield from refused
    if refused:
        return
    harness = Harness(alone(config, subject.name), plugins={subject.name: target})
    try:
        harness.load()
    except UserError as error:
        place = f"{error.where}: " if error.where else ""
        said = getattr(error, "cause", None) or f"{place}{error.message}"
        yield Finding("registration", said, error.remedy or "", is_fatal=True)
        return
    yield from _poor_tools(subject, harness)


def _undocumented(subject: Subject, target: object) -> Iterator[Finding]:
    if not _own_doc(target):
        yield Finding(
            "docs",
            f"{subject.target} has no docstring",
            "Say in a line what the plugin does: `dsh plugins info` shows it.",
        )


def _own_doc(target: object) -> str:
    """Return the docstring somebody wrote, not the one that a dataclass makes."""
    doc = getattr(target, "__doc__", None) or ""
    is_made = inspect.isclass(target) and doc.startswith(f"{target.__name__}(")
    return "" if is_made else doc.strip()


# ------------------------------------------------------------------------------ hooks


def _refused_hooks(subject: Subject, target: object) -> Iterator[Finding]:
    hooks = Hooks(lambda error, values: None, lambda name: 0)
    module = getattr(target, "hookspecs", None)
    if inspect.ismodule(module):
        try:
            hooks.add_specs(module, owner=subject.name)
        except PluginError as error:
            yield Finding("hook", f"{error.hook}: {error.message}", is_fatal=True)
            return
    modes = hooks.modes
    plugin = object.__new__(target) if inspect.isclass(target) else target  # so methods are bound
    marked = set()
    for function, hook, options in implementations(hooks.manager, plugin):
        marked.add(function.__name__)
        try:
            if hook in modes:
                check_function(function, hook, options, modes[hook], subject.name)
            elif not options.get("optionalhook"):
                hooks.check(plugin, subject.name)
        except PluginError as error:
            yield Finding("hook", f"{error.hook}: {error.message}", is_fatal=True)
    for name in modes:
        if name not in marked and is_function(plugin, name):
            yield Finding(
                "hook",
                f"{name} has the name of a hook and is not marked: it is never called",
                "Write @hookimpl above it, or give it another name.",
            )


# --------------------------------------------------------------------------- settings


def _undocumented_settings(subject: Subject, target: object) -> Iterator[Finding]:
    settings = getattr(target, "Settings", None) if inspect.isclass(target) else None
    if settings is None:
        return
    try:
        fields: Mapping[str, Any] = json_schema(settings).get("properties", {})
    except Exception as error:  # noqa: BLE001 - whatever the class does
        said = f"Settings cannot be described: {error_chain(error)}"
        yield Finding("settings", said, is_fatal=True)
        return
    documented = _documented_fields(settings)
    for name, schema in fields.items():
        if not schema.get("description") and name not in documented:
            yield Finding(
                "settings",
                f"{subject.name}.{name} is not documented",
                "Write a docstring below the field, with its unit and why its default is this.",
            )


def _documented_fields(settings: type[Any]) -> set[str]:
    """Return the fields with a text below them, in the class and those it extends."""
    found: set[str] = set()
    for cls in settings.__mro__:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in itertools.pairwise(body):
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                found.add(field.target.id)
    return found


# ------------------------------------------------------------------------------ tools


def _poor_tools(subject: Subject, harness: Harness) -> Iterator[Finding]:
    for name, tool in harness.tools.visible(harness.plugins.base).items():
        if harness.tools.owner_of(name) != subject.name:
            continue
        if not tool.description.strip():
            yield Finding(
                "tool", f"{name} has no description", "Say in its docstring what it does."
            )
        for parameter, schema in tool.schema.parameters.get("properties", {}).items():
            if not schema.get("description"):
                yield Finding(
                    "tool",
                    f"{name}: the model is not told what {parameter} is",
                    "Describe it under `Args:` in the docstring.",
                )
