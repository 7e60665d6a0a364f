"""Which tools there are, who brought them, and which of them an agent may use."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from dsh_core.errors import ConfigError, UserError
from dsh_core.hooks import Hooks
from dsh_core.record import record
from dsh_core.request import ToolSchema
from dsh_core.tools.tool import Tool

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every provider accepts as a function name."""


@record(eq=False)
class _Entry:
    """One registration: identity counts, so that a disposer removes exactly its own."""

    tool: Tool
    owner: str
    hooks: Hooks | None


class Tools:
    """The tool registry of a harness.

    A tool belongs to its owner, usually a plugin: where the plugin is off for an agent, so are its
    tools. Tools of an override instance replace the base instance's for the agents that have it.

    Args:
        base: The harness's own hooks; they know which owners are plugins.
        changed: Called after each change.

    """

    def __init__(self, base: Hooks, changed: Callable[[], None]):
        self._base = base
        self._changed = changed
        self._entries: list[_Entry] = []
        self._overridden: set[tuple[Hooks, str]] = set()
        self._views: dict[Hooks, Mapping[str, Tool]] = {}
        self._chosen: dict[tuple[Hooks, tuple[str, ...]], Mapping[str, Tool]] = {}
        self._schemas: dict[tuple[Hooks, tuple[str, ...] | None], tuple[ToolSchema, ...]] = {}

    def register(self, tool: Tool, *, owner: str, hooks: Hooks | None = None) -> Callable[[], None]:
        """Add a tool; `hooks` limits it to the agents that have them.

        Returns a disposer. Raises `UserError` for a bad or taken name, naming both owners.
        """
        self._check(tool, owner, hooks)
        entry = _Entry(tool, owner, hooks)
        self._entries.append(entry)
        self._invalidate()

        def dispose() -> None:
            if entry in self._entries:
                self._entries.remove(entry)
                self._invalidate()

        return dispose

    def override(self, owner: str, hooks: Hooks, tools: Iterable[Tool]) -> None:
        """Let an override instance's tools stand for its owner's where `hooks` are used."""
        hides = any(entry.owner == owner and entry.hooks is None for entry in self._entries)
        self._overridden.add((hooks, owner))
        for tool in tools:
            self.register(tool, owner=owner, hooks=hooks)
        if hides:
            self._invalidate()

    def forget(self, hooks: Hooks) -> None:
        """Take away what override instances brought for the agents that have `hooks`."""
        kept = [entry for entry in self._entries if entry.hooks is not hooks]
        owners = {owner for of, owner in self._overridden if of is hooks}
        self._overridden = {key for key in self._overridden if key[0] is not hooks}
        if len(kept) != len(self._entries) or any(entry.owner in owners for entry in kept):
            self._entries = kept
            self._invalidate()

    def remove_owner(self, owner: str) -> None:
        """Take away everything an owner registered."""
        kept = [entry for entry in self._entries if entry.owner != owner]
        self._overridden = {key for key in self._overridden if key[1] != owner}
        if len(kept) != len(self._entries):
            self._entries = kept
            self._invalidate()

    def owner_of(self, name: str) -> str | None:
        """Return who brought a tool."""
        return next((e.owner for e in self._entries if e.tool.name == name), None)

    def visible(self, hooks: Hooks) -> Mapping[str, Tool]:
        """Return the tools of all plugins that are on in `hooks`, by name, sorted."""
        view = self._views.get(hooks)
        if view is None:
            shown = [entry for entry in self._entries if self._is_visible(entry, hooks)]
            view = {entry.tool.name: entry.tool for entry in sorted(shown, key=_by_name)}
            self._views[hooks] = view
        return view

    def for_agent(self, hooks: Hooks, names: tuple[str, ...] | None) -> Mapping[str, Tool]:
        """Return the tools an agent may use: the visible ones, or those of them it names."""
        if names is None:
            return self.visible(hooks)
        chosen = self._chosen.get((hooks, names))
        if chosen is None:
            view = self.visible(hooks)
            chosen = {name: tool for name, tool in view.items() if name in names}
            self._chosen[hooks, names] = chosen
        return chosen

    def schemas(self, hooks: Hooks, names: tuple[str, ...] | None) -> tuple[ToolSchema, ...]:
        """Return what the model sees of an agent's tools; the same tuple until tools change."""
        key = (hooks, names)
        schemas = self._schemas.get(key)
        if schemas is None:
            schemas = tuple(self._schema(tool) for tool in self.for_agent(hooks, names).values())
            self._schemas[key] = schemas
        return schemas

    def _schema(self, tool: Tool) -> ToolSchema:
        """Return a tool's schema; a signature that gives none is its owner's fault."""
        try:
            return tool.schema
        except UserError as error:
            owner = self.owner_of(tool.name)
            raise UserError(
                error.message, where=f"tool {tool.name!r} of {owner}", remedy=error.remedy
            ) from error

    def check_names(self, hooks: Hooks, names: tuple[str, ...] | None, where: str | None) -> None:
        """Raise `ConfigError` for a name that no tool has, with the nearest one."""
        view = self.visible(hooks)
        for name in names or ():
            if name in view:
                continue
            near = difflib.get_close_matches(name, view, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            known = ", ".join(view) or "none: install a plugin that brings some, as dsh-files"
            raise ConfigError(
                f"there is no tool {name!r}", where=where, remedy=f"{hint}Tools: {known}."
            )

    def _is_visible(self, entry: _Entry, hooks: Hooks) -> bool:
        if entry.hooks is not None:
            return entry.hooks is hooks
        if (hooks, entry.owner) in self._overridden:
            return False
        if hooks is self._base or not self._base.manager.has_plugin(entry.owner):
            return True
        return hooks.manager.has_plugin(entry.owner)

    def _check(self, tool: Tool, owner: str, hooks: Hooks | None) -> None:
        if not NAME.fullmatch(tool.name):
            raise UserError(
                f"{tool.name!r} cannot be a tool's name",
                where=owner,
                remedy="Use up to 64 letters, digits, `_` and `-`.",
            )
        if tool.timeout_seconds is not None and not tool.timeout_seconds > 0:
            raise UserError(f"timeout_seconds of tool {tool.name!r} must be positive", where=owner)
        for entry in self._entries:
            # An override's tools stand beside its owner's own, whose place they take.
            is_beside = entry.owner == owner and entry.hooks is not hooks
            if entry.tool.name == tool.name and not is_beside:
                raise UserError(
                    f"tool {tool.name!r} exists already",
                    where=owner,
                    remedy=f"{entry.owner!r} brought it; switch one of the two off or rename it.",
                )

    def _invalidate(self) -> None:
        self._views.clear()
        self._chosen.clear()
        self._schemas.clear()
        self._changed()


def _by_name(entry: _Entry) -> str:
    return entry.tool.name
