"""The rules of one agent in one workspace, compiled; which of them cover a command or a place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from dsh_core import Decision
from dsh_permission.command_rule import Match
from dsh_permission.path_rule import PathPattern, compile_pattern, identity_of
from dsh_permission.paths import Place, folded
from dsh_permission.rule import Rule, covers_server_tool, fold_tool
from dsh_permission.shell.tree import Word
from dsh_permission.web import covers

Mode: TypeAlias = Literal["default", "accept_edits", "plan", "bypass"]
_FILES = ("read", "edit", "path")


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by what they do."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    def plus(self, allow: Iterable[Rule]) -> Rules:
        """Return these and more that allow."""
        return Rules((*self.allow, *allow), self.ask, self.deny)


@dataclass(slots=True)
class Policy:
    """Rules, mode and places.

    Args:
        rules: What allows, asks and denies.
        workspace: The folder whose files may be read, links resolved.
        home: What `~` is.
        mode: See the settings.
        protected: More names that edits ask for.
        read_only_tools: Server tools the user calls read-only.

    """

    rules: Rules
    workspace: Path
    home: Path
    mode: Mode = "default"
    protected: tuple[str, ...] = ()
    read_only_tools: tuple[str, ...] = ()
    _patterns: dict[str, PathPattern] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspace = Path(os.path.realpath(self.workspace))

    # ------------------------------------------------------------------------ commands

    def allows_command(self, words: Sequence[Word]) -> Rule | None:
        """Return a rule that proves a command allowed."""
        for rule in self.rules.allow:
            if rule.command is not None and rule.command.proves(words):
                return rule
        return None

    def suspects_command(self, words: Sequence[Word]) -> list[tuple[Decision, Rule, Match]]:
        """Return `(ask or deny, rule, how sure)` for each rule that may mean a command."""
        found: list[tuple[Decision, Rule, Match]] = []
        for decision, rules in self._limiting():
            for rule in rules:
                if rule.command is not None:
                    match = rule.command.suspects(words)
                    if match is not Match.NO:
                        found.append((decision, rule, match))
        return found

    def has_command_limits(self) -> bool:
        """Whether a rule denies or asks for any command."""
        return any(rule.command for rule in (*self.rules.deny, *self.rules.ask))

    # --------------------------------------------------------------------------- files

    def allows_place(self, kind: Literal["read", "write"], place: Place, tool: str) -> Rule | None:
        """Return a rule that proves that a file may be read or written."""
        for rule in self.rules.allow:
            if self._is_about(rule, kind, tool, strict=True) and (
                rule.spec is None or self._pattern(rule).allows(place)
            ):
                return rule
        return None

    def limits_place(
        self, kind: Literal["read", "write"], place: Place, tool: str
    ) -> list[tuple[Decision, Rule]]:
        """Return `(ask or deny, rule)` for each rule that touches a place."""
        return [
            (decision, rule)
            for decision, rule in self.limits(kind, tool)
            if rule.spec is None or self._pattern(rule).touches(place)
        ]

    def limits(self, kind: Literal["read", "write"], tool: str) -> list[tuple[Decision, Rule]]:
        """Return `(ask or deny, rule)` for each rule about this kind of access."""
        return [
            (decision, rule)
            for decision, rules in self._limiting()
            for rule in rules
            if self._is_about(rule, kind, tool, strict=False)
        ]

    def may_hold_limited(self, place: Place, tool: str) -> list[tuple[Decision, Rule]]:
        """Return the rules that may touch something below a folder that is read whole."""
        return [
            (decision, rule)
            for decision, rule in self.limits("read", tool)
            if rule.spec is None or self._pattern(rule).may_be_below(place)
        ]

    def hides(self, path: Path) -> bool:
        """Whether a file that a search found, on a path without links, may not be read."""
        found: tuple[int, int] | None = None
        text = folded(str(path))
        for decision, rule in self.limits("read", "read"):
            if decision != "deny":
                continue
            pattern = self._pattern(rule)
            if rule.spec is None or pattern.wide.fullmatch(text):
                return True
            if pattern.identity is not None:
                found = found or identity_of(str(path))
                if found == pattern.identity:
                    return True
        return False

    def _is_about(self, rule: Rule, kind: str, tool: str, *, strict: bool) -> bool:
        if rule.kind not in _FILES:
            return False
        if rule.kind == "path":
            return rule.tool == tool
        if kind == "read":
            return rule.kind == "read"
        # What must not be read must not be edited: an edit shows what is there.
        return rule.kind == "edit" or (not strict and rule.kind == "read" and rule.spec is not None)

    def _pattern(self, rule: Rule) -> PathPattern:
        spec = rule.spec or "**"
        pattern = self._patterns.get(spec)
        if pattern is None or pattern.identity is None:  # what it names may exist by now
            pattern = compile_pattern(spec, self.workspace, self.home)
            self._patterns[spec] = pattern
        return pattern

    # ------------------------------------------------------------- addresses, other tools

    def about_host(self, host: str | None) -> list[tuple[Decision, Rule]]:
        """Return `(decision, rule)` for a host; None = one that cannot be told."""
        return [
            (decision, rule)
            for decision, rules in self._all()
            for rule in rules
            if rule.kind == "web"
            and (rule.domain is None or (host is not None and covers(rule.domain, host)))
        ]

    def about_tool(self, name: str) -> list[tuple[Decision, Rule]]:
        """Return `(decision, rule)` for a tool by its name."""
        folded = fold_tool(name)
        return [
            (decision, rule)
            for decision, rules in self._all()
            for rule in rules
            if (rule.kind == "tool" and rule.tool == folded)
            or (rule.kind == "server" and covers_server_tool(rule.tool, folded))
        ]

    def _limiting(self) -> tuple[tuple[Decision, tuple[Rule, ...]], ...]:
        return (("deny", self.rules.deny), ("ask", self.rules.ask))

    def _all(self) -> tuple[tuple[Decision, tuple[Rule, ...]], ...]:
        return (
            ("deny", self.rules.deny),
            ("ask", self.rules.ask),
            ("allow", self.rules.allow),
        )
