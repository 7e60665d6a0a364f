"""sed and awk: programs in a language of their own, judged by shape."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dsh_permission.programs.options import Options
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Word

_SED = Options.of(
    "nErszu",
    "quiet silent regexp-extended separate null-data unbuffered posix debug sandbox",
)
_SED_IN_PLACE = Options.of(
    "nErszuie:f:l:",
    "quiet silent regexp-extended separate null-data unbuffered posix debug sandbox in-place? "
    "expression= file= follow-symlinks line-length=",
)
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/)"
_PRINT = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~]\d+))?!?)?[pdq=]"
_PART = r"(?:[^{0}\\\n]|\\[^\n])*"
_SUBSTITUTE = "|".join(
    rf"(?:{_ADDRESS}(?:,{_ADDRESS})?)?s{re.escape(mark)}{_PART.format(re.escape(mark))}"
    rf"{re.escape(mark)}{_PART.format(re.escape(mark))}{re.escape(mark)}[gpiI0-9]*"
    for mark in "/|#,:@!%"
)
_SIMPLE = re.compile(
    rf"\s*(?:{_PRINT}|{_SUBSTITUTE})\s*(?:;\s*(?:{_PRINT}|{_SUBSTITUTE})\s*)*;?\s*"
)
_SED_RUNS = re.compile(
    r"(?:^|[\s;{}/$\d!,])e(?:$|[\s;}])|[^\w\s][gpiImM0-9]*e[gpiImM0-9]*\s*(?:$|[;}])"
)
_SED_WRITES = re.compile(r"(?:^|[\s;{}/$\d!,]|[^\w\s][gpiImM0-9]*)[wW]\s*(\S+)")
_SED_READS = re.compile(r"(?:^|[\s;{}/$\d!,])[rR]\s*(\S+)")
_SED_PROGRAM = re.compile(r"(?:^|[\s;{}/$\d!,])e\s+([^;}\n]+)")


def sed_use(words: Sequence[Word]) -> Use:
    """Return what a sed command line does; `words` follow `sed`."""
    given = _SED_IN_PLACE.read(words)
    in_place = any(_is_in_place(word.literal) for word in words)
    scripts = given.values.get("-e", []) + given.values.get("--expression", [])
    operands = list(given.operands)
    if not scripts and not {"-f", "--file"} & set(given.options):
        scripts, operands = operands[:1], operands[1:]
    use = Use(reads=operands + given.values.get("-f", []) + given.values.get("--file", []))
    if in_place:
        use.writes = list(operands)
    texts = [word.literal for word in scripts]
    _inner(texts, use)
    if "-f" in given.options or "--file" in given.options:
        use.problem = "the program comes from a file"
    elif not texts or any(text is None for text in texts):
        use.problem = "the program is not known before it runs"
        use.reads = use.reads + scripts
    elif not all(_SIMPLE.fullmatch(text or "") for text in texts):
        use.problem = "the program is more than printing lines and plain substitutions"
    elif given.problem:
        use.problem = given.problem
    elif any(word.is_unknown or word.variables() for word in operands):
        use.problem = "its files are not known before it runs"
    elif any(word.is_glob and not word.source[:1].isalnum() for word in operands):
        use.problem = "a file's name may become an option"
    use.read_only = use.problem is None and not in_place
    use.file_command = use.problem is None and in_place
    if in_place and use.problem is None:
        use.problem = "it edits files in place"
    return use


def _is_in_place(text: str | None) -> bool:
    if text is None or not text.startswith("-"):
        return False
    if text.startswith("--"):
        return text.startswith("--i")
    return "i" in text.partition("e")[0].partition("f")[0]


def _inner(texts: Sequence[str | None], use: Use) -> None:
    from dsh_permission.programs.options import literal_word

    for text in texts:
        if text is None or _SIMPLE.fullmatch(text):
            continue
        use.scripts += [found.strip() for found in _SED_PROGRAM.findall(text)]
        use.writes = use.writes + [literal_word(name) for name in _SED_WRITES.findall(text)]
        use.reads = use.reads + [literal_word(name) for name in _SED_READS.findall(text)]
        if _SED_RUNS.search(text):
            use.danger = "its program may run commands (`e`)"
        elif _SED_WRITES.search(text):
            use.danger = "its program may write files (`w`)"


_AWK = Options.of("F:v:", "csv re-interval posix traditional")
_AWK_BAD = re.compile(
    r"system|getline|\||>|@|ENVIRON|PROCINFO|close|ARGV|ARGC|FUNCTAB|SYMTAB|fflush|`"
)
_AWK_COMMANDS = re.compile(
    r'system\s*\(\s*"((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"\s*\|&?\s*getline'
    r'|\|&?\s*"((?:[^"\\]|\\.)*)"'
)
_AWK_RUNS = re.compile(r"system|getline|\||@")


def awk_use(words: Sequence[Word]) -> Use:
    """Return what an awk command line does; `words` follow `awk`."""
    given = _AWK.read(words)
    program = given.operands[0].literal if given.operands else None
    files = [word for word in given.operands[1:] if "=" not in (word.literal or "")]
    use = Use(reads=files, problem=given.problem)
    every = program if program is not None else " ".join(w.literal or "" for w in words)
    for groups in _AWK_COMMANDS.findall(every):
        use.scripts += [text.replace('\\"', '"') for text in groups if text]
    if _AWK_RUNS.search(every):
        use.danger = "its program may run commands"
    if program is None:
        use.problem = use.problem or "the program is not known before it runs"
    elif _AWK_BAD.search(program):
        use.problem = use.problem or "its program may run commands or write files"
    elif any(word.is_unknown or word.variables() for word in files):
        use.problem = use.problem or "its files are not known before it runs"
    elif any(value.literal is None for each in given.values.values() for value in each):
        use.problem = use.problem or "a value is not known before it runs"
    use.read_only = use.problem is None
    return use
