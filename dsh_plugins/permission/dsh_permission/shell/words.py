"""From shfmt's words to ours: quotes removed, expansions kept apart, inner commands found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dsh_permission.shell.ansi_c import decoded
from dsh_permission.shell.tree import Node, Piece, Problem, Text, Unknown, Variable, Word

Json = Mapping[str, Any]

_HARMLESS_EXPANSIONS = frozenset(
    {":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "^", "^^", ",", ",,"}
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_DOUBLE = re.compile(r'\\([$`"\\])')
_ESCAPED_IN_HERE = re.compile(r"\\([$`\\])")
_CONTINUED = "it continues a word on the next line"
_COMPUTES = "it computes with a name or a subscript, which may run commands"


def source_of(text: bytes, node: Json) -> str:
    """Return the source of a node."""
    start, end = node.get("Pos", {}).get("Offset", 0), node.get("End", {}).get("Offset", 0)
    return text[start:end].decode("utf-8", "replace")


def words_in(node: Any) -> Iterator[Json]:
    """Yield the outermost words in a node of any type, however deep."""
    if isinstance(node, Mapping):
        if "Parts" in node:
            yield node
            return
        for value in node.values():
            yield from words_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from words_in(value)


class _Found:
    """What one word is made of, as it is read."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.scripts: list[Node] = []
        self.problems: list[str] = []


class WordReader:
    """Reads words of one text.

    Args:
        text: What shfmt parsed.
        statements: Converts a list of statements, for commands inside words.

    """

    def __init__(self, text: bytes, statements: Callable[[Iterable[Json] | None], Node]):
        self._bytes = text
        self._statements = statements

    def word(self, node: Json) -> Word:
        """Return a word of a command."""
        found = _Found()
        source = source_of(self._bytes, node)
        self._parts(node.get("Parts") or (), found, quoted=False, escapes=_ESCAPED)
        return self._made(found, source)

    def here_document(self, node: Json) -> Word:
        """Return the body of a here-document; of a quoted one it is literal."""
        found = _Found()
        self._parts(node.get("Parts") or (), found, quoted=True, escapes=_ESCAPED_IN_HERE)
        return self._made(found, "")

    @staticmethod
    def _made(found: _Found, source: str) -> Word:
        return Word(tuple(found.pieces), tuple(found.scripts), tuple(found.problems), source)

    def _parts(
        self, parts: Iterable[Json], found: _Found, *, quoted: bool, escapes: re.Pattern[str]
    ) -> None:
        for part in parts:
            self._part(part, found, quoted=quoted, escapes=escapes)

    def _part(self, part: Json, found: _Found, *, quoted: bool, escapes: re.Pattern[str]) -> None:
        kind = part.get("Type")
        if kind == "Lit":
            self._literal(part, found, quoted=quoted, escapes=escapes)
        elif kind == "SglQuoted":
            value = str(part.get("Value", ""))
            if part.get("Dollar"):
                value = decoded(value)
            found.pieces.append(Text(value, quoted=True))
        elif kind == "DblQuoted":
            found.pieces.append(Text("", quoted=True))
            self._parts(part.get("Parts") or (), found, quoted=True, escapes=_ESCAPED_IN_DOUBLE)
        elif kind == "ParamExp":
            self._parameter(part, found, quoted=quoted)
        elif kind in ("CmdSubst", "ProcSubst"):
            self._substitution(part, found)
        elif kind == "ArithmExp":
            self._arithmetic(part, found)
        else:
            found.problems.append(f"{kind} is not understood")
            found.pieces.append(Unknown(str(kind)))

    def _literal(
        self, part: Json, found: _Found, *, quoted: bool, escapes: re.Pattern[str]
    ) -> None:
        text = str(part.get("Value", "")).replace("\\\n", "")
        if quoted:
            found.pieces.append(Text(escapes.sub(r"\1", text), quoted=True))
            return
        if "\\\n" in source_of(self._bytes, part):
            found.problems.append(_CONTINUED)
        place = 0
        for match in _ESCAPED.finditer(text):
            if match.start() > place:
                found.pieces.append(Text(text[place : match.start()]))
            found.pieces.append(Text(match[1], quoted=True))
            place = match.end()
        if place < len(text):
            found.pieces.append(Text(text[place:]))

    def _substitution(self, part: Json, found: _Found) -> None:
        source = source_of(self._bytes, part)
        body = self._statements(part.get("Stmts"))
        if part.get("Backquotes") and "\\" in source:
            body = Problem("it escapes characters inside backquotes", source, body)
        if part.get("TempFile") or part.get("ReplyVar"):
            body = Problem("it uses a form of substitution that is not understood", source, body)
        found.scripts.append(body)
        is_pipe = part.get("Type") == "ProcSubst" and part.get("Op") == "<("
        found.pieces.append(Unknown("pipe" if is_pipe else "substitution"))

    def _arithmetic(self, part: Json, found: _Found) -> None:
        self._inner_words(part, found)
        if any(
            self.word(word).literal is None or not _is_number(self.word(word).literal)
            for word in words_in(part)
        ):
            found.problems.append(_COMPUTES)
        found.pieces.append(Unknown("a number"))

    def _parameter(self, part: Json, found: _Found, *, quoted: bool) -> None:
        name = str(part.get("Param", {}).get("Value", ""))
        others = {
            "Excl",
            "Length",
            "Width",
            "IsSet",
            "NestedParam",
            "Index",
            "Slice",
            "Repl",
            "Names",
            "Exp",
            "Flags",
            "Modifiers",
        }
        if name and not others & set(part):
            found.pieces.append(Variable(name, quoted))
            return
        self._inner_words(part, found)
        problem = self._parameter_problem(part)
        if problem:
            found.problems.append(problem)
        is_length = "Length" in part and "Index" not in part
        found.pieces.append(Unknown("a number" if is_length else name))

    def _parameter_problem(self, part: Json) -> str | None:
        if {"Excl", "Width", "IsSet", "NestedParam", "Names", "Flags", "Modifiers"} & set(part):
            return "it expands a variable's value again, which may run commands"
        if "Index" in part and not self._is_plain_number(part["Index"]):
            return _COMPUTES
        if "Slice" in part and not self._is_plain_number(part["Slice"]):
            return _COMPUTES
        expansion = part.get("Exp")
        if expansion is not None and expansion.get("Op") not in _HARMLESS_EXPANSIONS:
            operator = expansion.get("Op")
            if operator in ("=", ":="):
                return "it assigns a variable"
            return "it expands a variable's value again, which may run commands"
        return None

    def _is_plain_number(self, node: Json) -> bool:
        return all(
            _is_number(self.word(word).literal) or self.word(word).source in ("@", "*")
            for word in words_in(node)
        )

    def _inner_words(self, node: Json, found: _Found) -> None:
        """Take what runs inside the words of an expansion; their text is not known."""
        for key, value in node.items():
            if key in ("Pos", "End"):
                continue
            for word in words_in(value):
                inner = self.word(word)
                found.scripts.extend(inner.scripts)
                found.problems.extend(inner.problems)


def _is_number(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdigit()
