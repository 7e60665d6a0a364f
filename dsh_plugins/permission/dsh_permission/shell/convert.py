"""From shfmt's syntax tree to ours. A node type that is not in the tables is a `Problem`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dsh_permission.shell.tree import (
    EMPTY,
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
    Simple,
    Steps,
    Text,
    Word,
)
from dsh_permission.shell.words import WordReader, source_of, words_in

Json = Mapping[str, Any]

_NUMERIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Converter:
    """Converts the tree of one text.

    Args:
        text: What shfmt parsed.

    """

    def __init__(self, text: str):
        self._bytes = text.encode("utf-8", "surrogateescape")
        self._words = WordReader(self._bytes, self.statements)
        self._commands: Mapping[str, Callable[[Json], Node]] = {
            "CallExpr": self._call,
            "BinaryCmd": self._binary,
            "IfClause": self._if,
            "WhileClause": self._while,
            "ForClause": self._for,
            "CaseClause": self._case,
            "Block": lambda cmd: self.statements(cmd.get("Stmts")),
            "Subshell": lambda cmd: Apart((self.statements(cmd.get("Stmts")),)),
            "TimeClause": self._time,
            "TestClause": self._test,
            "FuncDecl": self._function,
            "CoprocClause": self._coproc,
            "DeclClause": self._declare,
            "LetClause": self._let,
            "ArithmCmd": self._arithmetic,
        }

    def statements(self, stmts: Iterable[Json] | None) -> Node:
        """Return what a list of statements does."""
        nodes = tuple(self._statement(stmt) for stmt in stmts or ())
        return nodes[0] if len(nodes) == 1 else Steps(nodes)

    def _statement(self, stmt: Json) -> Node:
        text = source_of(self._bytes, stmt)
        command = stmt.get("Cmd")
        node: Node = EMPTY if command is None else self._command(command)
        redirects = stmt.get("Redirs")
        if redirects:
            node = Redirected(node, tuple(self._redirect(one) for one in redirects), text)
        if stmt.get("Background") or stmt.get("Disown"):
            node = Apart((node,))
        if stmt.get("Coprocess"):
            node = Problem("it runs a coprocess", text, node)
        return node

    def _command(self, command: Json) -> Node:
        convert = self._commands.get(str(command.get("Type")))
        if convert is None:
            found = words_in(command)
            node = Expands(tuple(self._words.word(w) for w in found), "")
            return Problem(
                f"{command.get('Type')} is not understood", source_of(self._bytes, command), node
            )
        return convert(command)

    def _redirect(self, redirect: Json) -> Redirect:
        operator = str(redirect["Op"])
        name = redirect.get("N", {}).get("Value", "")
        word = self._words.word(redirect["Word"]) if redirect.get("Word") else None
        if operator in ("<<", "<<-"):
            body = redirect.get("Hdoc")
            return Redirect(operator, None, self._words.here_document(body) if body else None)
        return Redirect(operator, word, is_named=name.startswith("{"))

    # ------------------------------------------------------------------- commands

    def _call(self, command: Json) -> Node:
        words = tuple(self._words.word(word) for word in command.get("Args", ()))
        assigns, inner = self._assigns(command.get("Assigns", ()))
        simple = Simple(words, source_of(self._bytes, command), assigns)
        return Steps((*inner, simple)) if inner else simple

    def _assigns(self, found: Sequence[Json]) -> tuple[tuple[Assign, ...], tuple[Node, ...]]:
        assigns, inner = [], []
        for one in found:
            value = self._words.word(one["Value"]) if one.get("Value") else None
            name = str(one.get("Name", {}).get("Value", ""))
            extra = [part for key in ("Index", "Array") for part in words_in(one.get(key))]
            is_plain = not (one.get("Append") or one.get("Index") or one.get("Array"))
            assigns.append(Assign(name, value, is_plain and bool(name)))
            if extra:
                words = tuple(self._words.word(word) for word in extra)
                inner.append(Expands(words, source_of(self._bytes, one)))
        return tuple(assigns), tuple(inner)

    def _binary(self, command: Json) -> Node:
        left, right = self._statement(command["X"]), self._statement(command["Y"])
        operator = str(command["Op"])
        if operator in ("|", "|&"):
            return Apart((left, right))
        if operator in ("&&", "||"):
            return Both(operator, left, right)
        return Problem(
            f"{operator} is not understood", source_of(self._bytes, command), Apart((left, right))
        )

    def _if(self, command: Json) -> Node:
        condition = self.statements(command.get("Cond"))
        branches = [self.statements(command.get("Then"))]
        other = command.get("Else")
        if other is not None:
            branches.append(self._if(other))
        return Steps((condition, Maybe(tuple(branches))))

    def _while(self, command: Json) -> Node:
        body = Steps((self.statements(command.get("Cond")), self.statements(command.get("Do"))))
        return Maybe((body,))

    def _for(self, command: Json) -> Node:
        loop, body = command["Loop"], self.statements(command.get("Do"))
        text = source_of(self._bytes, command)
        if loop.get("Type") != "WordIter":
            inner = Expands(tuple(self._words.word(word) for word in words_in(loop)), text)
            return Problem("it computes with variables", text, Steps((inner, Maybe((body,)))))
        words = tuple(self._words.word(word) for word in loop.get("Items") or ())
        node = Loop(str(loop["Name"]["Value"]), words, body)
        return Problem("`select` asks somebody", text, node) if command.get("Select") else node

    def _case(self, command: Json) -> Node:
        items = command.get("Items") or ()
        words = [command["Word"], *(word for item in items for word in item.get("Patterns", ()))]
        expanded = Expands(
            tuple(self._words.word(word) for word in words), source_of(self._bytes, command)
        )
        branches = tuple(self.statements(item.get("Stmts")) for item in items)
        return Steps((expanded, Maybe(branches)))

    def _time(self, command: Json) -> Node:
        timed: Node = EMPTY
        if command.get("Stmt"):
            timed = self._statement(command["Stmt"])
        # The keyword as a command: a rule may name it, and it is transparent.
        return Steps((Simple((Word((Text("time"),)), Word((Text("true"),))), "time"), timed))

    def _test(self, command: Json) -> Node:
        text = source_of(self._bytes, command)
        words = tuple(self._words.word(word) for word in words_in(command["X"]))
        expanded = Expands(words, text)
        reason = self._test_problem(command["X"])
        return Problem(reason, text, expanded) if reason else expanded

    def _test_problem(self, test: Json) -> str | None:
        kind = test.get("Type")
        if kind == "Word":
            return None
        if kind == "ParenTest":
            return self._test_problem(test["X"])
        if kind == "UnaryTest":
            if test["Op"] in ("-v", "-R"):
                return f"{test['Op']} evaluates a name"
            return self._test_problem(test["X"])
        if kind != "BinaryTest":
            return f"{kind} is not understood"
        sides = (test["X"], test["Y"])
        if test["Op"] in _NUMERIC_TESTS and not all(self._is_integer(side) for side in sides):
            return f"{test['Op']} computes with text that is not a number"
        return self._test_problem(sides[0]) or self._test_problem(sides[1])

    def _is_integer(self, word: Json) -> bool:
        literal = self._words.word(word).literal if word.get("Type") == "Word" else None
        return literal is not None and _INTEGER.fullmatch(literal) is not None

    # --------------------------------------------------------- what changes the shell

    def _function(self, command: Json) -> Node:
        text = source_of(self._bytes, command)
        return Problem("it defines a function", text, self._statement(command["Body"]))

    def _coproc(self, command: Json) -> Node:
        text = source_of(self._bytes, command)
        return Problem("it runs a coprocess", text, self._statement(command["Stmt"]))

    def _declare(self, command: Json) -> Node:
        text = source_of(self._bytes, command)
        variant = str(command["Variant"]["Value"])
        words = [Word((Text(variant),), source=variant)]
        inner: list[Node] = []
        for one in command.get("Args") or ():
            found = [self._words.word(word) for word in words_in(one)]
            inner.append(Expands(tuple(found), text))
            words.append(Word((Text(source_of(self._bytes, one)),)))
        simple = Simple(tuple(words), text)
        return Problem(f"`{variant}` changes the shell", text, Steps((*inner, simple)))

    def _let(self, command: Json) -> Node:
        return self._computes(command, "let")

    def _arithmetic(self, command: Json) -> Node:
        return self._computes(command, "((")

    def _computes(self, command: Json, name: str) -> Node:
        text = source_of(self._bytes, command)
        words = tuple(self._words.word(word) for word in words_in(command))
        simple = Simple((Word((Text(name),)), *words), text)
        return Problem("it computes with variables", text, simple)
