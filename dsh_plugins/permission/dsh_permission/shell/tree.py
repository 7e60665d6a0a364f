"""A shell command as a tree: what both parsers make and `walk` reads.

Only what matters for judging is kept. What a parser does not understand becomes a `Problem`, which
always asks.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text; `quoted` text holds no glob, no brace and no tilde."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A plain `$NAME`."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Text that only the running shell knows."""

    what: str


Piece: TypeAlias = Text | Variable | Unknown


@dataclass(frozen=True, slots=True)
class Value:
    """One text a word may stand for; `is_glob`: a pattern whose matches it stands for."""

    text: str
    is_glob: bool = False


@dataclass(slots=True, eq=False)
class Word:
    """One word of a command.

    Args:
        pieces: In order.
        scripts: Commands inside it that run when it is expanded.
        problems: Why its expansion does more than make text.
        source: As it was written.

    """

    pieces: tuple[Piece, ...]
    scripts: tuple[Node, ...] = ()
    problems: tuple[str, ...] = ()
    source: str = ""
    literal: str | None = None
    is_glob: bool = False
    has_brace: bool = False

    def __post_init__(self) -> None:
        only = self.pieces[0] if len(self.pieces) == 1 else None
        if isinstance(only, Text) and (only.quoted or not _SPECIAL.search(only.text)):
            self.literal = only.text
            return
        bare = [p.text for p in self.pieces if isinstance(p, Text) and not p.quoted]
        self.is_glob = is_pattern("".join(bare))
        self.has_brace = any("{" in t for t in bare) and any("}" in t for t in bare)
        if self.is_glob or self.has_brace or self._has_tilde():
            return
        if all(isinstance(piece, Text) for piece in self.pieces):
            self.literal = "".join(p.text for p in self.pieces if isinstance(p, Text))

    def _has_tilde(self) -> bool:
        first = self.pieces[0] if self.pieces else None
        return isinstance(first, Text) and not first.quoted and first.text.startswith("~")

    @property
    def is_unknown(self) -> bool:
        """Whether a part of it is known to the running shell only."""
        return any(isinstance(piece, Unknown) for piece in self.pieces)

    @property
    def is_pipe(self) -> bool:
        """Whether it is `<(…)` by itself: the name of a pipe, and no option ever."""
        return self.pieces == (Unknown("pipe"),)

    def variables(self) -> list[str]:
        """Return the names of plain variables in it."""
        return [piece.name for piece in self.pieces if isinstance(piece, Variable)]

    def values(self, scope: Scope) -> tuple[Value, ...] | None:
        """Return every text it may stand for; None = not known."""
        if self.literal is not None:
            return (Value(self.literal),)
        if self.has_brace or not self.pieces:
            return None
        found = [Value("", is_glob=self.is_glob)]
        for index, piece in enumerate(self.pieces):
            options = self._options(piece, index, scope)
            if options is None or len(found) * len(options) > _MOST_VALUES:
                return None
            found = [_joined(one, other) for one in found for other in options]
        return tuple(found)

    def known(self, scope: Scope) -> Word:
        """Return the word with its variables replaced where each stands for one known text."""
        if self.literal is not None or not self.variables():
            return self
        values = self.values(scope)
        if values is None or len(values) != 1:
            return self
        text = Text(values[0].text, quoted=not values[0].is_glob)
        return Word((text,), self.scripts, self.problems, self.source)

    def _options(self, piece: Piece, index: int, scope: Scope) -> tuple[Value, ...] | None:
        if isinstance(piece, Unknown):
            return None
        if isinstance(piece, Variable):
            return scope.value_of(piece)
        text = piece.text
        if index == 0 and not piece.quoted and text.startswith("~"):
            user, slash, rest = text[1:].partition("/")
            if user or (not slash and len(self.pieces) > 1):
                return None
            text = scope.home + slash + rest
        if self.is_glob and piece.quoted:
            text = glob.escape(text)
        return (Value(text),)


_MOST_VALUES = 64
_SPECIAL = re.compile(r"[*?\[{~]")


def is_pattern(text: str) -> bool:
    """Whether unquoted text is a pattern for names; a `[` that is never closed is none."""
    return "*" in text or "?" in text or "]" in text.partition("[")[2]


def _joined(one: Value, other: Value) -> Value:
    if one.is_glob == other.is_glob:
        return Value(one.text + other.text, one.is_glob)
    # Quoted text was escaped already where the word is a glob; a glob from a loop makes it one.
    left = one.text if one.is_glob or not other.is_glob else glob.escape(one.text)
    return Value(left + other.text, is_glob=True)


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known at a place in a script.

    Args:
        home: The user's home folder.
        root: The workspace, links resolved.
        folders: Every folder it may run in; None = unknown.
        names: Loop variables and the values they take; None = unknown.

    """

    home: str
    root: str
    folders: tuple[Path, ...] | None
    names: Mapping[str, tuple[Value, ...] | None] = field(default_factory=dict)

    def value_of(self, variable: Variable) -> tuple[Value, ...] | None:
        """Return what a variable stands for, None where that is not known."""
        name = variable.name
        if name in self.names:
            values = self.names[name]
        elif name == "HOME":
            values = (Value(self.home),)
        elif name == "PWD" and self.folders is not None:
            values = tuple(Value(str(folder)) for folder in self.folders)
        else:
            return None
        if values is None or variable.quoted:
            return values
        splits = any(not v.text or v.text != "".join(v.text.split()) for v in values)
        expands = any(not v.is_glob and is_pattern(v.text) for v in values)
        return None if splits or expands else values


# ------------------------------------------------------------------------------------ nodes


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection; `op` without the descriptor, `target` None for a here-document."""

    op: str
    target: Word | None
    body: Word | None = None
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """`NAME=value` before a command, or alone."""

    name: str
    value: Word | None
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class Simple:
    """A command with its words."""

    words: tuple[Word, ...]
    text: str
    assigns: tuple[Assign, ...] = ()


@dataclass(frozen=True, slots=True)
class Both:
    """`left && right`, `left || right`, or one after the other (`;`)."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Steps:
    """Nodes that run one after the other."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """Nodes that run in shells of their own: pipelines, subshells, what is in the background."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """Branches of which some run, once or often."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`for name in words`; words None = the arguments of the script, of which there are none."""

    name: str
    words: tuple[Word, ...]
    body: Node


@dataclass(frozen=True, slots=True)
class Redirected:
    """A node with redirections around it."""

    node: Node
    redirects: tuple[Redirect, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Expands:
    """Words that are expanded without being a command's: `case`, `[[ ]]`, loop lists."""

    words: tuple[Word, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that always asks, and what may run in it."""

    reason: str
    text: str
    node: Node | None = None


Node: TypeAlias = Simple | Both | Steps | Apart | Maybe | Loop | Redirected | Expands | Problem

EMPTY = Steps(())
