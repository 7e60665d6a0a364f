"""Patterns of command rules: `npm run test:*`, `git push`, `make build-*`.

A spec is split into words as a shell would; `*` matches within a word, `:*` or ` *` at the end any
further words. What allows must be proven word by word; what denies or asks only suspected.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from dsh_permission.programs.git import GLOBAL_VALUED
from dsh_permission.programs.options import leading
from dsh_permission.shell.tree import Word

_SAME = {"-f": "--force", "-r": "--recursive", "-R": "--recursive"}
_WITH_SAME = frozenset({"rm", "cp", "mv", "chmod", "chown", "chgrp", "git"})
_SHORTEST_ABBREVIATION = 4
_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")
_NOT_PLAIN = re.compile(r"[;&|<>`\n]|\$[\w({]")


class Match(IntEnum):
    """Whether a rule that denies or asks covers a command."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A compiled command rule.

    Args:
        words: The words it names; empty covers every command.
        is_prefix: Whether further words may follow.

    """

    words: tuple[str, ...]
    is_prefix: bool

    def proves(self, words: Sequence[Word]) -> bool:
        """Whether every word it names is written exactly so."""
        count = len(self.words)
        if len(words) < count or (not self.is_prefix and len(words) != count):
            return False
        return all(
            word.literal is not None and _equal(pattern, word.literal)
            for pattern, word in zip(self.words, words, strict=False)
        )

    def suspects(self, words: Sequence[Word]) -> Match:
        """Whether the command may be what the rule is about, however it is spelled."""
        if not self.words:
            return Match.YES
        if not words:
            return Match.NO
        program = words[0].literal
        if program is None:
            return Match.MAYBE
        if not _same_program(self.words[0], program):
            return Match.NO
        name = program_name(program)
        head = list(self.words[1:])
        first_flag = next((i for i, w in enumerate(head) if w.startswith("-")), len(head))
        plain, rest = head[:first_flag], head[first_flag:]
        found, end = _plain_words(plain, list(words[1:]), name)
        if found is Match.NO:
            return found
        found = min(found, _rest_words(rest, list(words[1:]), name))
        if found is Match.YES and not self.is_prefix:
            return self._exact(words, rest, end)
        return found

    def _exact(self, words: Sequence[Word], rest: list[str], end: int) -> Match:
        left = list(words[1 + end :])
        if any(word.literal is None for word in left):
            return Match.MAYBE
        if rest:
            return Match.YES if len(words) <= len(self.words) + 1 else Match.NO
        return Match.NO if left else Match.YES


def compile_command(spec: str) -> CommandPattern:
    """Compile the text in the parentheses of a command rule. Raises `ValueError`, saying why."""
    text = spec.strip()
    is_prefix = text in ("", "*", ":*")
    if not is_prefix:
        for ending in (":*", " *", "\t*"):
            if text.endswith(ending):
                text, is_prefix = text[: -len(ending)], True
                break
    else:
        return CommandPattern((), is_prefix=True)
    if _NOT_PLAIN.search(re.sub(r"'[^']*'", "", text)):
        raise ValueError(
            "a command is judged part by part, so operators, redirections and variables in a rule "
            "never match; write one rule for each command"
        )
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"it is not split as a shell would: {error}") from None
    if not words:
        raise ValueError("it names no command")
    if re.match(r"[A-Za-z_][A-Za-z0-9_]*=", words[0]):
        raise ValueError("assignments before a command are judged apart; name the command only")
    return CommandPattern(words, is_prefix)


@lru_cache(maxsize=1024)
def program_name(program: str) -> str:
    """Return what a program is called: without folders, in lower case, in one spelling."""
    return unicodedata.normalize("NFKC", os.path.basename(program)).casefold()


@lru_cache(maxsize=1024)
def is_system_program(program: str) -> bool:
    """Whether a program is named so that only the system's can be meant."""
    if os.path.basename(program) != program_name(program):
        return False
    name = os.path.basename(program)
    return "/" not in program or program in [folder + name for folder in _SYSTEM_FOLDERS]


@lru_cache(maxsize=4096)
def _same_program(pattern: str, program: str) -> bool:
    if "/" in pattern:
        normal = os.path.normpath(program).casefold()
        wanted = os.path.normpath(pattern).casefold()
        if _equal(wanted, normal) or "/" in program:
            return _equal(wanted, normal) or _equal(program_name(pattern), program_name(program))
    return _equal(program_name(pattern), program_name(program))


def _equal(pattern: str, text: str) -> bool:
    if "*" not in pattern:
        return pattern == text
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _plain_words(wanted: Sequence[str], words: Sequence[Word], name: str) -> tuple[Match, int]:
    """Find the words after a program's name in order; options, also with values, are skipped."""
    best = Match.NO
    found_end = 0
    stack = [(0, 0, Match.YES)]
    seen = set()
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        at, place, so_far = state
        if at == len(wanted):
            if so_far > best:
                best, found_end = so_far, place
            continue
        if place >= len(words):
            continue
        word = words[place]
        text = leading(word)
        if word.literal is None and not (text.startswith("-") and not word.is_glob):
            stack.append((at, place + 1, Match.MAYBE))
            stack.append((at + 1, place + 1, Match.MAYBE))
        elif text.startswith("-") and text != "-":
            stack.append((at, place + 1, so_far))
            if "=" not in text and _may_take_value(name, text):
                stack.append((at, place + 2, so_far))
        elif _equal(wanted[at].casefold(), (word.literal or "").casefold()):
            stack.append((at + 1, place + 1, so_far))
    return best, found_end


def _may_take_value(name: str, option: str) -> bool:
    return option in GLOBAL_VALUED if name == "git" else True


def _rest_words(rest: Sequence[str], words: Sequence[Word], name: str) -> Match:
    """Find flags, as a set, and the words around them anywhere."""
    if not rest:
        return Match.YES
    is_open = any(word.literal is None for word in words)
    miss = Match.MAYBE if is_open else Match.NO
    given = [word.literal for word in words if word.literal is not None]
    answer = Match.YES
    for wanted in rest:
        if wanted.startswith("-") and wanted != "-":
            is_there = all(
                any(_is_flag(flag, text, name) for text in given) for flag in _flags(wanted)
            )
        else:
            is_there = any(_equal(wanted, text) for text in given)
        answer = min(answer, Match.YES if is_there else miss)
    return answer


def _flags(text: str) -> Iterable[str]:
    """Take a cluster of letters apart: `-rf` is `-r` and `-f`."""
    if text.startswith("--") or len(text) == 2 or not text[1:].isalpha():
        return (text,)
    return tuple(f"-{letter}" for letter in text[1:])


def _is_flag(flag: str, text: str, name: str) -> bool:
    if not text.startswith("-") or text == "-":
        return False
    wanted = {flag}
    if name in _WITH_SAME:
        wanted |= {_SAME.get(flag, flag)}
        wanted |= {short for short, long in _SAME.items() if long in wanted}
    return any(_means(one, text) for one in wanted)


def _means(wanted: str, text: str) -> bool:
    """Whether one option is another: as it is, abbreviated, with a value, or in a cluster."""
    option = text.partition("=")[0]
    if _equal(wanted, option) or _equal(wanted, text):
        return True
    if wanted.startswith("--"):
        return len(option) >= _SHORTEST_ABBREVIATION and wanted.startswith(option)
    return not text.startswith("--") and len(wanted) == 2 and wanted[1] in text[1:]


__all__ = ["CommandPattern", "Match", "compile_command", "is_system_program", "program_name"]
