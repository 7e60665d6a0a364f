"""Judging files: what is read and written, by a tool, by a redirection, by a program's operands."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from dsh_permission.actions import Access
from dsh_permission.findings import Finding
from dsh_permission.hidden import hidden_in_path
from dsh_permission.paths import Place, is_inside, place_of, protected_part
from dsh_permission.policy import Policy
from dsh_permission.rule import Rule
from dsh_permission.shell.tree import Scope, Value, Word

GLOB_LIMIT = 2_000
"""Matches of a pattern that are looked at; more ask."""

LINK_SEARCH_LIMIT = 20_000
"""Entries that are looked at for links where a program follows them."""

_MAGIC = re.compile(r"/(?:proc|sys|dev)(?:/|$)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://|/)|\\\\")
Kind = Literal["read", "write"]


class FileJudge:
    """Judges places by one policy."""

    def __init__(self, policy: Policy):
        self._policy = policy

    # ------------------------------------------------------------------- a file by itself

    def access(self, access: Access) -> list[Finding]:
        """Judge a file that is opened: every rule counts, and what none allows may ask."""
        values = access.word.values(access.scope)
        part = access.text
        if values is None:
            return [self._unknown(access.kind, part, access.word)]
        if any(value.is_glob for value in values):
            finding = self._ask(part, f"{access.word.source!r} may become any name")
            limits = self._limited(access.kind, access.word, access.scope, part, access.tool)
            return [*limits, finding]
        findings = []
        for value in values:
            places = self._places(value.text, access.scope)
            if places is None:
                return [self._unknown(access.kind, part, access.word)]
            for place in places:
                findings += self.place(access.kind, place, part, access.tool)
        return findings

    def place(self, kind: Kind, place: Place, part: str, tool: str) -> list[Finding]:
        """Judge one place: what limits it, and whether it is allowed."""
        policy = self._policy
        findings = [
            Finding(decision, part, _is_about(place), rule)
            for decision, rule in policy.limits_place(kind, place, tool)
        ]
        if policy.mode == "bypass":
            return [*findings, Finding("allow", part, "the mode is bypass")]
        problem = self.problem(kind, place)
        if problem is not None:
            return [*findings, Finding("ask", part, problem)]
        rule = policy.allows_place(kind, place, tool)
        if rule is not None:
            return [*findings, Finding("allow", part, "a rule allows it", rule)]
        if not self.is_in_workspace(place):
            why = f"{place.resolved or place.spelled} is outside the workspace"
            return [*findings, Finding("ask", part, why, offer=_offer(kind, place, None))]
        if kind == "read" or policy.mode == "accept_edits":
            return [*findings, Finding("allow", part, "it is in the workspace")]
        offer = _offer(kind, place, str(policy.workspace))
        return [*findings, Finding("ask", part, "no rule allows this edit", offer=offer)]

    def problem(self, kind: Kind, place: Place) -> str | None:
        """Return why a place asks whatever rules allow, or None."""
        written = place.written
        hiding = hidden_in_path(written)
        if hiding is not None:
            return hiding
        if not written.strip():
            return "the path is empty"
        if _URL.match(written):
            return f"{written!r} is an address, not a path"
        if written.startswith("~") and written[1:2] not in ("", "/"):
            return f"{written!r} is in another user's home folder"
        if place.resolved is None:
            return f"{written!r} cannot be resolved"
        if any(_MAGIC.match(name) for name in place.names):
            return f"{place.resolved} is no ordinary file"
        if place.is_special:
            return f"{place.resolved} is no ordinary file"
        if kind == "write":
            return self._write_problem(place)
        return None

    def protected(self, word: Word, scope: Scope) -> str | None:
        """Return why writing what a word names always asks, as far as its names are known."""
        values = word.values(scope) or ()
        for place in self._all_places(values, scope) or ():
            problem = self._protected_problem(place)
            if problem is not None:
                return problem
        return None

    def _protected_problem(self, place: Place) -> str | None:
        for name in place.names:
            protected = protected_part(name, self._policy.protected)
            if protected is not None:
                return f"{protected} is protected: programs obey it without asking"
        return None

    def _write_problem(self, place: Place) -> str | None:
        protected = self._protected_problem(place)
        if protected is not None:
            return protected
        if place.links > 1:
            return f"{place.resolved} has {place.links} names, of which others may be elsewhere"
        return None

    def is_in_workspace(self, place: Place) -> bool:
        """Whether a place is in the workspace, as it is spelled and where it leads."""
        root = str(self._policy.workspace)
        return place.resolved is not None and is_inside(place.resolved, root)

    # ------------------------------------------------------------------ operands of programs

    def limits_of(
        self, kind: Kind, word: Word, scope: Scope, part: str, *, is_sure: bool = True
    ) -> list[Finding]:
        """Judge an operand against the rules that limit only.

        A word that is not surely a file counts where it names one that a rule limits.
        """
        if not is_sure and scope.folders is None:
            return []
        return self._limited(kind, word, scope, part, "bash")

    def _limited(self, kind: Kind, word: Word, scope: Scope, part: str, tool: str) -> list[Finding]:
        limits = self._policy.limits(kind, tool)
        if not limits:
            return []
        values = word.values(scope)
        places = None if values is None else self._all_places(values, scope)
        if places is None:
            _, rule = limits[0]
            why = f"{word.source!r} is not known before it runs, and a rule limits what is touched"
            return [Finding("ask", part, why, rule)]
        findings = [
            Finding(decision, part, _is_about(place), rule)
            for place in places
            for decision, rule in self._policy.limits_place(kind, place, tool)
        ]
        if not findings and values is not None and any(value.is_glob for value in values):
            _, rule = limits[0]
            findings.append(Finding("ask", part, "a pattern may match what a rule limits", rule))
        return findings

    def below(self, word: Word, scope: Scope, part: str) -> list[Finding]:
        """Judge a folder that is read with all that is below."""
        values = word.values(scope) or ()
        for place in self._all_places(values, scope) or ():
            for _, rule in self._policy.may_hold_limited(place, "bash") if place.is_folder else ():
                why = "it reads a whole folder, and a rule limits what may be read"
                return [Finding("ask", part, why, rule)]
        return []

    def unproven(self, kind: Kind, word: Word, scope: Scope, *, follows: bool) -> str | None:
        """Return why an operand is not proven to be fine, or None."""
        values = word.values(scope)
        places = None if values is None else self._all_places(values, scope)
        if places is None:
            return f"{word.source!r} is not known before it runs"
        for place in places:
            problem = self.problem(kind, place)
            if problem is not None and not (kind == "read" and place.resolved == "/dev/null"):
                return problem
            if self.is_in_workspace(place) or place.resolved == "/dev/null":
                if follows and place.is_folder and self._has_link_out(place):
                    return f"a link below {place.written!r} may lead out of the workspace"
                continue
            if self._policy.allows_place(kind, place, "bash") is None:
                return f"{place.resolved} is outside the workspace"
        return None

    def _has_link_out(self, place: Place) -> bool:
        assert place.resolved is not None
        for count, path in enumerate(_links_below(place.resolved)):
            if count > LINK_SEARCH_LIMIT:
                return True
            if path and not is_inside(os.path.realpath(path), str(self._policy.workspace)):
                return True
        return False

    # --------------------------------------------------------------------------- values

    def _places(self, text: str, scope: Scope) -> list[Place] | None:
        if text.startswith(("/", "~/")) or text == "~":
            return [place_of(text, self._policy.workspace, self._policy.home)]
        if scope.folders is None:
            return None
        return [place_of(text, folder, self._policy.home) for folder in scope.folders]

    def _all_places(self, values: tuple[Value, ...], scope: Scope) -> list[Place] | None:
        found: list[Place] = []
        for value in values:
            texts = self._matches(value, scope) if value.is_glob else [value.text]
            if texts is None:
                return None
            for text in texts:
                places = self._places(text, scope)
                if places is None:
                    return None
                found += places
        return found

    def _matches(self, value: Value, scope: Scope) -> list[str] | None:
        """Expand a pattern as the shell will; without matches it stands for itself."""
        if scope.folders is None and not value.text.startswith("/"):
            return None
        found = [value.text]
        for folder in scope.folders or (Path("/"),):
            matches = glob.iglob(value.text, root_dir=folder, include_hidden=False)
            found += islice(matches, GLOB_LIMIT + 1)
            if len(found) > GLOB_LIMIT:
                return None
        return found

    # -------------------------------------------------------------------------- findings

    def _unknown(self, kind: Kind, part: str, word: Word) -> Finding:
        limits = self._policy.limits(kind, "bash")
        why = f"{word.source!r} is not known before it runs"
        if self._policy.mode == "bypass" and not limits:
            return Finding("allow", part, f"the mode is bypass ({why})")
        return Finding("ask", part, why)

    def _ask(self, part: str, why: str) -> Finding:
        if self._policy.mode == "bypass":
            return Finding("allow", part, f"the mode is bypass ({why})")
        return Finding("ask", part, why)


def _links_below(folder: str) -> Iterator[str]:
    """Yield the path of each link below a folder, and "" for each other entry."""
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path
                    else:
                        yield ""
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
        except OSError:
            continue


def _is_about(place: Place) -> str:
    if place.resolved is None or place.resolved == place.spelled:
        return "a rule is about it"
    return f"it leads to {place.resolved}, and a rule is about that"


def _offer(kind: Kind, place: Place, root: str | None) -> str | None:
    path = place.resolved or place.spelled
    if any(character in path for character in "*?\n()"):
        return None
    if root is not None and is_inside(path, root):
        inner = os.path.relpath(path, root)
        path = inner if "/" in inner else f"./{inner}"
    return f"{'Read' if kind == 'read' else 'Edit'}({path})"


__all__ = ["FileJudge", "Rule"]
