"""What a tool call would do, in the parts that are judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Scope, Word


@dataclass(slots=True, eq=False)
class Run:
    """A command.

    Args:
        words: Its words, the program's name first.
        text: As it was written.
        scope: Where it runs.
        use: What the program does with its words, as far as that is known.
        inner: What runs inside it, if it is a wrapper.
        transparent: Whether it is allowed when what is inside is.
        problem: Why it always asks.
        needs_proof: Whether it has to be allowed; else only deny and ask rules look at it.

    """

    words: tuple[Word, ...]
    text: str
    scope: Scope
    use: Use = field(default_factory=Use)
    inner: list[Action] = field(default_factory=list)
    transparent: bool = False
    problem: str | None = None
    needs_proof: bool = True


@dataclass(frozen=True, slots=True)
class Access:
    """A file that is read or written without a program of its own: by a redirection, or a tool."""

    kind: Literal["read", "write"]
    word: Word
    text: str
    scope: Scope
    tool: str = "bash"


@dataclass(frozen=True, slots=True)
class Fetch:
    """An address that is fetched by a tool."""

    url: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that always asks."""

    reason: str
    text: str


Action: TypeAlias = Run | Access | Fetch | Doubt
