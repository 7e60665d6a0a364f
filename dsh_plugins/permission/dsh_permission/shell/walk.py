"""From the tree of a command to what it does: every command, redirection and doubt in it.

The folder is tracked through `cd`: what a command finds is the set of folders it may run in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from dsh_permission.actions import Access, Action, Doubt, Run
from dsh_permission.command_rule import is_system_program, program_name
from dsh_permission.names import names
from dsh_permission.paths import is_inside
from dsh_permission.programs.known import use_of
from dsh_permission.programs.printers import prints_only_harmless
from dsh_permission.programs.use import Use
from dsh_permission.programs.wrappers import HARMLESS_VARIABLES, unwrap
from dsh_permission.shell.parse import Parsed
from dsh_permission.shell.parse import parse as parse_fully
from dsh_permission.shell.tree import (
    Apart,
    Assign,
    Both,
    Expands,
    Loop,
    Maybe,
    Node,
    Problem,
    Redirect,
    Redirected,
    Scope,
    Simple,
    Steps,
    Value,
    Word,
)

Folders: TypeAlias = tuple[Path, ...] | None

SCRIPT_DEPTH_LIMIT = 8
"""Scripts inside scripts; each may start shfmt."""

ROUNDS_LIMIT = 64
"""Rounds of loops that are looked at one by one; in more, the variable is not known."""

_LOOP_NAME = re.compile(r"[a-z_][a-z0-9_]*|[A-Z]|FILE|DIR|NAME")
"""Names that no program takes from its environment; others may be exported already."""

_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_CHANGES_SHELL = names(
    "export declare readonly typeset local alias unalias hash enable set shopt unset umask "
    "ulimit source . complete compopt bind trap exec read mapfile readarray let getopts shift "
    "pushd popd dirs fc history disown suspend eval"
)


class Walk:
    """Collects what a script does.

    Args:
        root: The workspace.
        home: The user's home folder.
        parse: Takes text apart.

    """

    def __init__(self, root: Path, home: Path, parse: Callable[[str], Parsed] = parse_fully):
        self._root = os.path.realpath(root)
        self._home = home
        self._parse = parse
        self.actions: list[Action] = []
        self._needs_proof = True
        self._depth = 0
        self._rounds = 1

    def script(self, text: str, scope: Scope | None = None) -> list[Action]:
        """Take a script apart; return what it does."""
        parsed = self._parse(text)
        if parsed.problem is not None:
            self._doubt(parsed.problem, text)
        scope = scope or Scope(str(self._home), self._root, (Path(self._root),))
        self._node(parsed.node, scope)
        return self.actions

    def _doubt(self, reason: str, text: str) -> None:
        self.actions.append(Doubt(reason, text))

    # ----------------------------------------------------------------------- structure

    def _node(self, node: Node, scope: Scope) -> tuple[Folders, Folders]:
        """Walk a node; return the folders after it succeeded and after it failed."""
        match node:
            case Simple():
                return self._simple(node, scope)
            case Redirected():
                after = self._node(node.node, scope)
                for redirect in node.redirects:
                    self._redirect(redirect, node, scope)
                    self._prints(redirect, node)
                return after
            case Both():
                return self._both(node, scope)
            case Steps():
                return self._steps(node.nodes, scope)
            case Apart():
                for one in node.nodes:
                    self._node(one, scope)
                return scope.folders, scope.folders
            case Maybe():
                return self._maybe(node.nodes, scope)
            case Loop():
                return self._loop(node, scope)
            case Expands():
                for word in node.words:
                    self._expand(word, node.text, scope)
                return scope.folders, scope.folders
            case Problem():
                self._doubt(node.reason, node.text)
                if node.node is not None:
                    return self._node(node.node, scope)
        return scope.folders, scope.folders

    def _both(self, node: Both, scope: Scope) -> tuple[Folders, Folders]:
        good, bad = self._node(node.left, scope)
        if node.op == "&&":
            right, wrong = self._node(node.right, replace(scope, folders=good))
            return right, _either(bad, wrong)
        right, wrong = self._node(node.right, replace(scope, folders=bad))
        return _either(good, right), wrong

    def _steps(self, nodes: Iterable[Node], scope: Scope) -> tuple[Folders, Folders]:
        good = bad = scope.folders
        for node in nodes:
            good, bad = self._node(node, replace(scope, folders=_either(good, bad)))
        return good, bad

    def _maybe(self, nodes: Sequence[Node], scope: Scope) -> tuple[Folders, Folders]:
        folders = scope.folders
        for node in nodes:
            folders = _either(folders, _either(*self._node(node, scope)))
        if folders != scope.folders:  # it may run again, from another folder
            for node in nodes:
                self._node(node, replace(scope, folders=None))
            folders = None
        return folders, folders

    def _loop(self, node: Loop, scope: Scope) -> tuple[Folders, Folders]:
        values: tuple[Value, ...] | None = ()
        for word in node.words:
            self._expand(word, node.name, scope)
            found = word.values(scope)
            values = None if values is None or found is None else (*values, *found)
        if not _LOOP_NAME.fullmatch(node.name) or node.name.endswith("_proxy"):
            self._doubt(f"it sets the variable {node.name}", node.name)
        rounds: list[tuple[Value, ...] | None] = [None]
        if values and len(values) * self._rounds <= ROUNDS_LIMIT:
            rounds = [(value,) for value in values]
        before, self._rounds = self._rounds, self._rounds * len(rounds)
        folders = scope.folders
        for one in rounds:
            inner = replace(scope, folders=folders, names={**scope.names, node.name: one})
            folders = _either(*self._maybe((node.body,), inner))
        self._rounds = before
        return folders, folders

    # ------------------------------------------------------------------------- commands

    def _simple(self, node: Simple, scope: Scope) -> tuple[Folders, Folders]:
        for assign in node.assigns:
            self._assign(assign, node, scope)
        for word in node.words:
            self._expand(word, node.text, scope)
        if not node.words:
            if not node.assigns:
                self._doubt("there is nothing to judge", node.text)
            return scope.folders, scope.folders
        words = tuple(word.known(scope) for word in node.words)
        run = self._run(words, node.text, scope)
        self.actions.append(run)
        name = words[0].literal
        if name == "cd":
            return self._cd(words[1:], run, scope)
        if name in ("pushd", "popd"):
            return None, scope.folders
        return scope.folders, scope.folders

    def _assign(self, assign: Assign, node: Simple, scope: Scope) -> None:
        if assign.value is not None:
            self._expand(assign.value, node.text, scope)
        is_harmless = (
            bool(node.words)
            and assign.is_plain
            and HARMLESS_VARIABLES.fullmatch(assign.name) is not None
            and (assign.value is None or assign.value.literal is not None)
        )
        if not is_harmless:
            self._doubt(f"it sets the variable {assign.name}", node.text)

    def _run(self, words: tuple[Word, ...], text: str, scope: Scope) -> Run:
        program = words[0].literal
        run = Run(words, text, scope, needs_proof=self._needs_proof)
        if program is None or not program:
            run.problem = f"which program {words[0].source!r} is, is not known before it runs"
            return run
        name = program_name(program)
        run.use = use_of(name, words[1:], scope)
        if name in _CHANGES_SHELL and run.use.problem is None:
            run.use.problem = f"`{name}` changes the shell"
        if name in ("source", ".", "exec") or name in _CHANGES_SHELL:
            run.use.read_only = False
        wrapped = unwrap(name, words[1:])
        if wrapped is None:
            for script in run.use.scripts:
                self._inner(run, script, scope)
            return run
        run.problem = wrapped.problem
        run.use.danger = run.use.danger or wrapped.danger
        run.transparent = wrapped.transparent and is_system_program(program)
        for command in wrapped.commands:
            if command:
                run.inner.append(self._guarded(run, command, scope))
        for script in (*wrapped.scripts, *run.use.scripts):
            self._inner(run, script, scope)
        return run

    def _guarded(self, run: Run, command: tuple[Word, ...], scope: Scope) -> Run:
        before, self._needs_proof = self._needs_proof, self._needs_proof and run.transparent
        try:
            return self._run(command, _text_of(command), scope)
        finally:
            self._needs_proof = before

    def _inner(self, run: Run, script: str, scope: Scope) -> None:
        if self._depth >= SCRIPT_DEPTH_LIMIT:
            run.problem = "scripts are nested too deeply in it"
            return
        inner = Walk(Path(self._root), self._home, self._parse)
        inner._depth = self._depth + 1
        inner._needs_proof = self._needs_proof and run.transparent
        run.inner += inner.script(script, scope)

    def _cd(self, words: tuple[Word, ...], run: Run, scope: Scope) -> tuple[Folders, Folders]:
        targets = self._cd_targets(words, scope)
        if targets is None:
            run.use = Use(problem="where it goes is not known, or not in the workspace")
            run.problem = run.use.problem
            return None, scope.folders
        run.use = Use(read_only=True)
        return targets, scope.folders

    def _cd_targets(self, words: tuple[Word, ...], scope: Scope) -> Folders:
        if words and words[0].literal == "--":
            words = words[1:]
        values = words[0].values(scope) if len(words) == 1 else None
        if values is None or scope.folders is None:
            return None
        found = []
        for value in values:
            if value.is_glob or not value.text or value.text.startswith("-"):
                return None
            for folder in scope.folders:
                path = os.path.normpath(os.path.join(folder, value.text))
                if os.path.realpath(path) != path or not is_inside(path, self._root):
                    return None
                found.append(Path(path))
        return tuple(dict.fromkeys(found)) if len(found) <= 16 else None

    # ------------------------------------------------------------------ words, redirections

    def _expand(self, word: Word, text: str, scope: Scope) -> None:
        for reason in word.problems:
            self._doubt(reason, text)
        for node in word.scripts:
            reads = _file_read(node)
            if reads is not None:
                self._redirect(reads, Redirected(Steps(()), (), text), scope)
            else:
                self._node(node, scope)

    def _redirect(self, redirect: Redirect, node: Redirected, scope: Scope) -> None:
        for word in (redirect.target, redirect.body):
            if word is not None:
                self._expand(word, node.text, scope)
        if redirect.is_named:
            self._doubt("it keeps a descriptor in a variable", node.text)
        if redirect.op.startswith("<<"):
            self._fed(redirect, node, scope)
            return
        target = redirect.target
        if target is None:
            return
        if redirect.op in (">&", "<&") and _is_descriptor(target):
            return
        if target.literal in _HARMLESS_TARGETS or (
            redirect.op == "<" and target.literal == "/dev/stdin"
        ):
            return
        kinds: tuple[str, ...] = ("write",)
        if redirect.op in ("<", "<&"):
            kinds = ("read",)
        elif redirect.op == "<>":
            kinds = ("read", "write")
        elif redirect.op not in (">", ">>", ">|", "&>", "&>>", ">&"):
            self._doubt(f"the redirection {redirect.op} is not understood", node.text)
        for kind in kinds:
            self.actions.append(
                Access("read" if kind == "read" else "write", target, node.text, scope)
            )

    def _prints(self, redirect: Redirect, node: Redirected) -> None:
        """What a program is fed it may print: a variable's value is no secret to it."""
        fed = redirect.body if redirect.body is not None else redirect.target
        if not redirect.op.startswith("<<") or fed is None or prints_only_harmless(fed):
            return
        reason = "it is given the value of a variable, which may be a secret"
        runs = [one for one in self.actions if isinstance(one, Run) and one.text in node.text]
        if isinstance(node.node, Simple) and runs:
            runs[-1].use.read_only = False
            runs[-1].use.problem = reason
        else:
            self._doubt(reason, node.text)

    def _fed(self, redirect: Redirect, node: Redirected, scope: Scope) -> None:
        """A literal text that a shell reads is a script, for deny rules."""
        fed = redirect.body if redirect.body is not None else redirect.target
        inner = node.node
        if fed is None or fed.literal is None or not isinstance(inner, Simple) or not inner.words:
            return
        wrapped = unwrap(program_name(inner.words[0].literal or ""), inner.words[1:])
        if wrapped is not None and wrapped.problem and not wrapped.scripts:
            run = Run(inner.words, node.text, scope, needs_proof=False)
            self._inner(run, fed.literal, scope)
            self.actions.append(run)


def _file_read(node: Node) -> Redirect | None:
    """Return the redirection of `$(<file)`."""
    if isinstance(node, Redirected) and node.node == Steps(()) and len(node.redirects) == 1:
        only = node.redirects[0]
        return only if only.op == "<" else None
    return None


def _is_descriptor(word: Word) -> bool:
    text = word.literal or ""
    return text == "-" or text.rstrip("-").isdigit()


def _either(one: Folders, other: Folders) -> Folders:
    if one is None or other is None:
        return None
    found = tuple(dict.fromkeys((*one, *other)))
    return found if len(found) <= 16 else None


def _text_of(words: Sequence[Word]) -> str:
    return " ".join(word.source or word.literal or "?" for word in words)
