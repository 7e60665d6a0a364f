"""Builtins and programs that print or test their words, `date`, and `jq`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from dsh_permission.names import names
from dsh_permission.programs.options import Options
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Unknown, Word

_HARMLESS_NAMES = re.compile(
    r"HOME|PWD|OLDPWD|USER|LOGNAME|LANG|LC_[A-Z]+|TERM|SHELL|HOSTNAME|OSTYPE|UID|EUID|PPID|RANDOM|"
    r"SECONDS|LINENO|COLUMNS|LINES|TMPDIR|[?#$!@*0-9-]|[1-9][0-9]*"
)


def is_harmless_name(name: str) -> bool:
    """Whether printing a variable gives nothing away."""
    return _HARMLESS_NAMES.fullmatch(name) is not None


def prints_only_harmless(word: Word) -> bool:
    """Whether a word shows no variable that may be a secret."""
    is_quiet = all(p.what in _QUIET for p in word.pieces if isinstance(p, Unknown))
    return is_quiet and all(is_harmless_name(name) for name in word.variables())


def _echo(words: Sequence[Word]) -> Use:
    return _printing(words)


def _printf(words: Sequence[Word]) -> Use:
    rest = list(words)
    if rest and rest[0].literal == "--":
        rest = rest[1:]
    first = rest[0].literal if rest else None
    if first is None:
        return Use(problem="the format is not known before it runs")
    if first.startswith("-"):
        return Use(problem=f"printf {first} assigns a variable")
    return _printing(rest)


def _printing(words: Sequence[Word]) -> Use:
    names = [n for word in words for n in word.variables() if not is_harmless_name(n)]
    if names:
        return Use(problem=f"it prints the variable {names[0]}, which may be a secret")
    if any(isinstance(p, Unknown) and p.what not in _QUIET for w in words for p in w.pieces):
        return Use(problem="it prints the value of a variable, which may be a secret")
    return Use(read_only=True)


_QUIET = frozenset({"substitution", "a number"})


def _colon(words: Sequence[Word]) -> Use:
    return _printing(words)


_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuwxzGLNOS")
_BINARY = names("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")


def _test(words: Sequence[Word]) -> Use:
    texts = [word.literal for word in words]
    if any(text in ("-v", "-R") for text in texts):
        return Use(problem="it evaluates a name")
    if all(text is not None for text in texts):
        return Use(read_only=True)
    if texts[:1] == ["!"]:
        texts = texts[1:]
    is_unary = len(texts) == 2 and texts[0] in _UNARY
    is_binary = len(texts) == 3 and texts[1] in _BINARY
    # Unquoted words may become several, an operator among them.
    if (is_unary or is_binary) and not any(_splits(word) for word in words):
        return Use(read_only=True)
    return Use(problem="an operand may become an operator that evaluates a name")


def _splits(word: Word) -> bool:
    """Whether a word is not quoted as a whole where it is unknown."""
    return word.literal is None and not word.source.startswith('"')


def _bracket(words: Sequence[Word]) -> Use:
    if not words or words[-1].literal != "]":
        return Use(problem="the closing ] is missing")
    return _test(words[:-1])


def _date(words: Sequence[Word]) -> Use:
    given = _DATE.read(words)
    formats = [word.literal for word in given.operands]
    if given.problem or len(formats) > 1:
        return Use(problem=given.problem or "it may set the clock")
    if formats and not (formats[0] or "").startswith("+"):
        return Use(problem="it may set the clock")
    return Use(read_only=True)


_DATE = Options.of("uRId:r:", "utc universal iso-8601? rfc-email rfc-3339= date=")


def _jq(words: Sequence[Word]) -> Use:
    given = _JQ.read(words)
    program = given.operands[0].literal if given.operands else None
    use = Use(reads=list(given.operands[1:]), problem=given.problem)
    if program is None:
        use.problem = use.problem or "the filter is not known before it runs"
    elif re.search(r"\benv\b|\$ENV|\b(import|include|input_filename|halt|getpath)\b|\$__", program):
        use.problem = use.problem or "the filter may read more than its files"
    use.read_only = use.problem is None
    return use


_JQ = Options.of(
    "nrcsSCMeajR",
    "null-input raw-output compact-output slurp sort-keys color-output monochrome-output "
    "exit-status ascii-output join-output raw-input tab",
)

SPECIAL: Mapping[str, Callable[[Sequence[Word]], Use]] = {
    "echo": _echo,
    "printf": _printf,
    ":": _colon,
    "test": _test,
    "[": _bracket,
    "date": _date,
    "jq": _jq,
}
