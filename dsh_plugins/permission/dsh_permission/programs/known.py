"""What a program does with its words, as far as any program is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsh_permission.programs.find import find_use
from dsh_permission.programs.git import git_use
from dsh_permission.programs.options import literal_word
from dsh_permission.programs.reading import read_use
from dsh_permission.programs.running import code_in, run_by_options
from dsh_permission.programs.sed_awk import awk_use, sed_use
from dsh_permission.programs.use import Use
from dsh_permission.programs.writers import write_use
from dsh_permission.shell.tree import Scope, Word


def use_of(name: str, words: Sequence[Word], scope: Scope) -> Use:
    """Return what a program does; `words` follow its name, which is folded."""
    use = _use_of(name, words, scope)
    use.scripts += run_by_options(name, words)
    use.code += code_in(name, words)
    if not use.read_only or name == "git":
        use.mentions += [literal_word(text) for word in words for text in _files_in(word)]
    return use


def _files_in(word: Word) -> Iterator[str]:
    """Yield what a literal word may name as a file: itself, and what follows `=`, `@` or `:`."""
    text = word.literal or ""
    if text and "\n" not in text and "://" not in text:
        yield text
        for mark in "=@:<":
            if mark in text:
                yield text.rpartition(mark)[2]


def _use_of(name: str, words: Sequence[Word], scope: Scope) -> Use:
    if name == "git":
        return git_use(words, scope)
    if name == "find":
        return find_use(words)
    if name == "sed":
        return sed_use(words)
    if name in ("awk", "gawk", "mawk", "nawk"):
        return awk_use(words)
    if name == "command" and words and words[0].literal in ("-v", "-V"):
        return Use(read_only=all(word.literal is not None for word in words))
    found = read_use(name, words) or write_use(name, words)
    return found if found is not None else Use()
