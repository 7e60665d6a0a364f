"""A small tokenizer for the plain subset of the shell: what most commands are written in.

Words, quotes, `&& || ; | &`, newlines, comments, and the redirections `N>&M`, `N>/dev/null`. For
everything else it answers None, and shfmt has to look. It must never understand something that bash
understands differently: when in doubt, None.
"""

from __future__ import annotations

import re

from dsh_permission.names import names
from dsh_permission.shell.tree import (
    EMPTY,
    Apart,
    Both,
    Node,
    Redirect,
    Redirected,
    Simple,
    Steps,
    Text,
    Word,
)

_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)"
    r"|(?P<null>(?:(?:(?<![^\s])[0-2])?>>?|&>)[ \t]*/dev/null(?=[ \t\n;&|]|\Z))"
    r"|(?P<dup>(?:(?<![^\s])[0-2])?>&[012](?=[ \t\n;&|]|\Z))"
    r"|(?P<op>&&|\|\||;|\||&|\n)"
    r"|(?P<bare>[\w./,:=@%^+*?\[\]~{}!-]+)"
    r"|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[$"\\])*)"'
    r"|\\(?P<escaped>[^\n])"
)
_BAD_OPERATORS = ("|&", ";;", "&>>", ";&")
_RESERVED = names(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time "
    "until while declare export local readonly typeset let nameref"
)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[.*)?\+?=")
_UNESCAPE = re.compile(r"\\([$\"\\])")


def parse_plain(text: str) -> Node | None:
    """Return the tree of a plain command, None where it is not plain."""
    tokens = _tokens(text)
    return None if tokens is None else _Grammar(tokens, text).script()


class _Token:
    __slots__ = ("end", "kind", "start", "value")

    def __init__(self, kind: str, value: object, start: int, end: int):
        self.kind = kind
        self.value = value
        self.start = start
        self.end = end


def _tokens(text: str) -> list[_Token] | None:
    tokens: list[_Token] = []
    pieces: list[Text] = []
    start = place = 0
    length = len(text)
    while place <= length:
        at_start = not pieces
        if (
            place < length
            and text[place] == "#"
            and at_start
            and not _continues_a_word(text, place)
        ):
            end = text.find("\n", place)
            place = length if end < 0 else end
            continue
        match = _TOKEN.match(text, place) if place < length else None
        kind = match.lastgroup if match is not None else None
        if kind in ("bare", "single", "double", "escaped"):
            assert match is not None
            if at_start:
                start = place
            pieces.append(_piece(kind, match[kind]))
            place = match.end()
            continue
        if place < length and match is None:
            return None
        if pieces:
            tokens.append(_Token("word", _word(pieces, text[start:place]), start, place))
            pieces = []
        if match is None:
            return tokens
        if kind in ("null", "dup"):
            if text[place].isdigit() and not at_start:
                return None
            tokens.append(_Token(kind, match[0], place, match.end()))
        elif kind == "op":
            if text.startswith(_BAD_OPERATORS, place):
                return None
            tokens.append(_Token("op", match[0], place, match.end()))
        place = match.end()
    return tokens


def _continues_a_word(text: str, place: int) -> bool:
    """Whether a `#` at a place continues a word, as in `a#b`."""
    return place > 0 and text[place - 1] not in " \t\n;&|"


def _piece(kind: str, text: str) -> Text:
    if kind == "bare":
        return Text(text)
    return Text(_UNESCAPE.sub(r"\1", text) if kind == "double" else text, quoted=True)


def _word(pieces: list[Text], source: str) -> Word:
    return Word(tuple(pieces), source=source)


class _Grammar:
    """Operator precedence: `|` binds tighter than `&& ||`, those tighter than `; & newline`."""

    def __init__(self, tokens: list[_Token], text: str):
        self._tokens = tokens
        self._text = text
        self._place = 0

    def script(self) -> Node | None:
        nodes: list[Node] = []
        while self._place < len(self._tokens):
            if self._at("\n"):
                self._place += 1
                continue
            node = self._and_or()
            if node is None:
                return None
            if self._at("&"):
                node = Apart((node,))
            nodes.append(node)
            if self._place < len(self._tokens):
                if not self._at(";", "&", "\n"):
                    return None
                self._place += 1
        if not nodes:
            return EMPTY
        return nodes[0] if len(nodes) == 1 else Steps(tuple(nodes))

    def _at(self, *operators: str) -> bool:
        if self._place >= len(self._tokens):
            return False
        token = self._tokens[self._place]
        return token.kind == "op" and token.value in operators

    def _skip_newlines(self) -> None:
        while self._at("\n"):
            self._place += 1

    def _and_or(self) -> Node | None:
        left = self._pipeline()
        while left is not None and self._at("&&", "||"):
            operator = str(self._tokens[self._place].value)
            self._place += 1
            self._skip_newlines()
            right = self._pipeline()
            if right is None:
                return None
            left = Both(operator, left, right)
        return left

    def _pipeline(self) -> Node | None:
        stages: list[Node] = []
        while True:
            stage = self._simple()
            if stage is None:
                return None
            stages.append(stage)
            if not self._at("|"):
                return stages[0] if len(stages) == 1 else Apart(tuple(stages))
            self._place += 1
            self._skip_newlines()

    def _simple(self) -> Node | None:
        words: list[Word] = []
        redirects: list[Redirect] = []
        first = self._place
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            if token.kind == "op":
                break
            if token.kind == "word":
                assert isinstance(token.value, Word)
                words.append(token.value)
            else:
                redirects.append(_harmless(str(token.value)))
            self._place += 1
        if not words or _is_special(words[0]):
            return None
        text = self._text[self._tokens[first].start : self._tokens[self._place - 1].end]
        simple = Simple(tuple(words), text)
        return Redirected(simple, tuple(redirects), text) if redirects else simple


def _is_special(word: Word) -> bool:
    source = word.source
    return source in _RESERVED or _ASSIGNS.match(source) is not None


def _harmless(text: str) -> Redirect:
    if "/dev/null" in text:
        return Redirect(">", Word((Text("/dev/null"),)))
    return Redirect(">&", Word((Text(text[-1]),)))
