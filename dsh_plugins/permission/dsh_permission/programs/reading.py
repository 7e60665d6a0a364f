"""What a program of the table of readers does with its words, and whether it only reads."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_permission.programs.options import Given, leading, literal_word
from dsh_permission.programs.printers import SPECIAL, prints_only_harmless
from dsh_permission.programs.readers import ALIASES, READERS, VERSIONS, Reader
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Variable, Word


def read_use(name: str, words: Sequence[Word]) -> Use | None:
    """Return what a reading program does, None where it is not one. `words` follow its name."""
    special = SPECIAL.get(name)
    if special is not None:
        return special(words)
    if len(words) == 1 and _asks_version(name, words[0].literal):
        return Use(read_only=True)
    reader = READERS.get(ALIASES.get(name, name))
    return None if reader is None else _use_of(reader, words)


def _asks_version(name: str, word: str | None) -> bool:
    return (name in VERSIONS and word == "--version") or (name, word) in _SHORT_VERSIONS


_SHORT_VERSIONS = {("python", "-V"), ("python3", "-V"), ("go", "version"), ("git", "version")}


def _use_of(reader: Reader, words: Sequence[Word]) -> Use:
    given = reader.options.read(words)
    operands = list(given.operands)
    skip = 0 if set(given.options) & set(reader.skip_unless) else reader.skip
    skipped, files = operands[:skip], [one for one in operands[skip:] if not one.is_pipe]
    use = Use(
        is_recursive="" in reader.recursive or bool(set(given.options) & set(reader.recursive)),
        follows_links=bool(set(given.options) & set(reader.following)),
    )
    use.problem = given.problem or _word_problem(reader, skipped, files)
    if len(files) > reader.most:
        use.problem = use.problem or "it has more operands than it may have"
    if reader.operands == "read":
        use.reads = files
        if use.is_recursive and not operands[skip:]:
            use.reads = [literal_word(".")]
    elif reader.operands == "list":
        use.lists = files
    for option in reader.files_of:
        use.reads = use.reads + given.values.get(option, [])
    if use.problem is None:
        use.problem = _values_problem(given)
    use.read_only = use.problem is None
    return use


def _word_problem(reader: Reader, skipped: list[Word], files: list[Word]) -> str | None:
    for word in skipped:
        if word.literal is None:
            return f"{word.source!r} may be an option"
    for word in files:
        if reader.operands == "text":
            if not prints_only_harmless(word):
                return f"{word.source!r} is not known before it runs"
            continue
        if _begins_unknown(word) and not reader.takes_globs:
            return f"{word.source!r} may become an option"
        if word.is_unknown:
            return f"{word.source!r} is not known before it runs"
    return None


def _values_problem(given: Given) -> str | None:
    for name, values in given.values.items():
        for word in values:
            if word.literal is None and (word.is_unknown or word.variables()):
                return f"the value of {name} is not known before it runs"
    return None


def _begins_unknown(word: Word) -> bool:
    return (
        word.literal is None
        and not leading(word).strip("*?[").strip()
        and (word.is_glob or not word.pieces or not isinstance(word.pieces[0], Variable))
    )
