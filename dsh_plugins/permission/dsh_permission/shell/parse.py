"""Text to tree: the tokenizer where it is plain, else shfmt, a scan where neither can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dsh_permission.shell.convert import Converter
from dsh_permission.shell.plain import parse_plain
from dsh_permission.shell.shfmt import Shfmt, UnparsableError
from dsh_permission.shell.tree import EMPTY, Node, Simple, Steps, Text, Word

LENGTH_LIMIT_CHARACTERS = 10_000
"""Nobody reads more than this in a question; deny rules are still looked for."""

NESTING_LIMIT = 150
"""Deeper than any command a person writes, and shallow enough to walk."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A command taken apart.

    Args:
        node: What was understood.
        problem: Why that is not all, or None.

    """

    node: Node
    problem: str | None = None


def parse(text: str, shfmt: Shfmt | None = None) -> Parsed:
    """Take a command apart. May start shfmt, which blocks for some milliseconds."""
    shfmt = shfmt or Shfmt()
    try:
        node = parse_plain(text)
        if node is None:
            if _nesting(text) > NESTING_LIMIT:
                return Parsed(scanned(text), "it is nested too deeply")
            node = Converter(text).statements(shfmt.syntax_tree(text).get("Stmts"))
    except UnparsableError as error:
        return Parsed(scanned(text), str(error))
    except (UnicodeError, RecursionError, KeyError, TypeError, AttributeError) as error:
        return Parsed(scanned(text), f"its syntax tree is not understood: {error}")
    if len(text) > LENGTH_LIMIT_CHARACTERS:
        return Parsed(node, f"it is longer than {LENGTH_LIMIT_CHARACTERS} characters")
    return Parsed(node)


class NotPlainError(Exception):
    """A command that only shfmt can take apart."""


def parse_plainly(text: str) -> Parsed:
    """Take a plain command apart, at once. Raises `NotPlainError` for another."""
    node = parse_plain(text)
    if node is None or len(text) > LENGTH_LIMIT_CHARACTERS:
        raise NotPlainError
    return Parsed(node)


_ENDS = re.compile(r"[;&|\n(){}`<>]|\$\(|\b(?:do|then|else|if|while|until)\b")
_CODE_WORD = re.compile(r"[\w./+-]+")
_QUOTES = str.maketrans("", "", "'\"\\")


def scanned(text: str) -> Node:
    """Return everything in a text that looks like a command, for deny rules to look at."""
    found = [Simple(words, " ".join(word.source for word in words)) for words in commands_in(text)]
    return Steps(tuple(found)) if found else EMPTY


def commands_in(text: str) -> Iterator[tuple[Word, ...]]:
    """Yield what looks like a command's words in the text of a script that cannot be parsed."""
    for part in _ENDS.split(text):
        words = [word.translate(_QUOTES) for word in part.split()]
        while words and ("=" in words[0] or words[0] in ("", "!", "time")):
            words = words[1:]
        if words:
            yield _words(words)


def commands_in_code(text: str) -> Iterator[tuple[Word, ...]]:
    """Yield what may be a command's words in the code of another language: anywhere."""
    for part in re.split(r"[;&|\n]", text):
        words = _CODE_WORD.findall(part)
        for place in range(len(words)):
            yield _words(words[place:])


def _words(texts: list[str]) -> tuple[Word, ...]:
    return tuple(Word((Text(text, quoted=True),), source=text) for text in texts)


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "({":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}":
            depth -= 1
    return max(deepest, text.count("`") // 2)
