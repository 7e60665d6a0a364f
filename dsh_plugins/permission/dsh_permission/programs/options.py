"""The options of a program, by allow-list: what is not listed is not understood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dsh_permission.shell.tree import Word


@dataclass(frozen=True, slots=True)
class Given:
    """What a command line gives a program.

    Args:
        options: Option names, as in `-n` and `--lines`, in order.
        values: Option name → its values.
        operands: The other words.
        problem: Why not all of it is understood.

    """

    options: tuple[str, ...] = ()
    values: dict[str, list[Word]] = field(default_factory=dict)
    operands: tuple[Word, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Options that are understood.

    Args:
        flags: Letters that stand alone.
        valued: Letters that take a value.
        longs: Long options, without dashes; `=` at the end takes a value, `?` may have one
            after `=`.
        digits: Whether `-10` is an option.
        mixed: Whether options may follow operands.

    """

    flags: str = ""
    valued: str = ""
    longs: frozenset[str] = frozenset()
    digits: bool = False
    mixed: bool = True

    @classmethod
    def of(
        cls, short: str, longs: str = "", *, digits: bool = False, mixed: bool = True
    ) -> Options:
        """Read `short` as getopt does (a letter with `:` takes a value), `longs` as words."""
        flags = valued = ""
        for index, letter in enumerate(short):
            if letter == ":":
                continue
            if short[index + 1 : index + 2] == ":":
                valued += letter
            else:
                flags += letter
        return cls(flags, valued, frozenset(longs.split()), digits, mixed)

    def read(self, words: Sequence[Word]) -> Given:
        """Sort the words after a program's name."""
        reader = _Reader(self, words)
        reader.run()
        return Given(tuple(reader.options), reader.values, tuple(reader.operands), reader.problem)


class _Reader:
    def __init__(self, known: Options, words: Sequence[Word]):
        self._known = known
        self._words = words
        self._place = 0
        self.options: list[str] = []
        self.values: dict[str, list[Word]] = {}
        self.operands: list[Word] = []
        self.problem: str | None = None

    def run(self) -> None:
        while self._place < len(self._words):
            word = self._words[self._place]
            self._place += 1
            text = leading(word)
            if text == "--" and word.literal == "--":
                self.operands.extend(self._words[self._place :])
                return
            if not text.startswith("-") or text == "-":
                self.operands.append(word)
                if not self._known.mixed:
                    self.operands.extend(self._words[self._place :])
                    return
            elif word.literal is None:
                self._problem(f"the option {word.source!r} is not known")
            elif text.startswith("--"):
                self._long(text)
            elif not (self._known.digits and text[1:].isdigit()):
                self._short(text)

    def _problem(self, text: str) -> None:
        self.problem = self.problem or text

    def _long(self, text: str) -> None:
        name, equals, value = text[2:].partition("=")
        longs = self._known.longs
        if name in longs and not equals:
            self.options.append(f"--{name}")
        elif f"{name}?" in longs or f"{name}=" in longs:
            self.options.append(f"--{name}")
            if equals:
                self._value(f"--{name}", literal_word(value))
            elif f"{name}=" in longs:
                self._next_value(f"--{name}")
        else:
            self._problem(f"the option --{name} is not one of the known harmless ones")

    def _short(self, text: str) -> None:
        for index, letter in enumerate(text[1:], 2):
            if letter in self._known.flags:
                self.options.append(f"-{letter}")
            elif letter in self._known.valued:
                self.options.append(f"-{letter}")
                if text[index:]:
                    self._value(f"-{letter}", literal_word(text[index:]))
                else:
                    self._next_value(f"-{letter}")
                return
            else:
                self._problem(f"the option -{letter} is not one of the known harmless ones")
                return

    def _next_value(self, name: str) -> None:
        if self._place >= len(self._words):
            self._problem(f"the option {name} lacks its value")
            return
        self._value(name, self._words[self._place])
        self._place += 1

    def _value(self, name: str, word: Word) -> None:
        self.values.setdefault(name, []).append(word)


def leading(word: Word) -> str:
    """Return the text a word certainly begins with."""
    from dsh_permission.shell.tree import Text

    if word.literal is not None:
        return word.literal
    first = word.pieces[0] if word.pieces else None
    return first.text if isinstance(first, Text) else ""


def literal_word(text: str) -> Word:
    """Return a word that is just this text."""
    from dsh_permission.shell.tree import Text

    return Word((Text(text, quoted=True),), source=text)
