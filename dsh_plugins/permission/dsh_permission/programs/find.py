"""find: predicates that only look, and actions that do not."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_permission.names import names
from dsh_permission.programs.options import leading, literal_word
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Word

_ALONE = names(
    "! ( ) , -not -a -and -o -or -true -false -empty -readable -writable -executable -nouser "
    "-nogroup -prune -print -print0 -ls -quit -depth -d -mount -xdev -daystart -follow "
    "-noleaf -warn -nowarn"
)
_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type "
    "-xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -maxdepth "
    "-mindepth -perm -user -group -uid -gid -links -inum -samefile -regextype -printf -fstype "
    "-context -used"
)
_FILES = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DANGEROUS = RUNNING | {"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}
_LEADING = frozenset({"-H", "-P", "-L", "-D", "-O0", "-O1", "-O2", "-O3"})


def find_use(words: Sequence[Word]) -> Use:
    """Return what a find command line does; `words` follow `find`."""
    use = Use()
    place = 0
    while place < len(words) and words[place].literal in _LEADING:
        use.follows_links |= words[place].literal == "-L"
        place += 2 if words[place].literal == "-D" else 1
    while place < len(words) and not _is_expression(words[place]):
        use.lists.append(words[place])
        place += 1
    if not use.lists:
        use.lists = [literal_word(".")]
    _expression(words[place:], use)
    use.read_only = use.problem is None
    return use


def _is_expression(word: Word) -> bool:
    text = leading(word)
    return text.startswith("-") or text in ("!", "(", ",", ")")


def _expression(words: Sequence[Word], use: Use) -> None:
    place = 0
    while place < len(words):
        text = words[place].literal
        place += 1
        if text is None:
            use.problem = use.problem or "an expression is not known before it runs"
            use.danger = use.danger or use.problem
        elif text in _DANGEROUS:
            _danger(text, words[place:], use)
            place += 1 if text.startswith("-f") else 0
        elif text in _VALUED:
            if text in _FILES and place < len(words):
                use.lists.append(words[place])
            if place < len(words) and words[place].literal is None:
                use.problem = use.problem or f"the value of {text} is not known before it runs"
            place += 1
        elif text.startswith("-newer") and len(text) == 8:
            place += 1
        elif text not in _ALONE:
            use.problem = use.problem or f"{text} is not one of the known harmless expressions"


def _danger(text: str, rest: Sequence[Word], use: Use) -> None:
    reason = f"find {text} runs a program" if text in RUNNING else f"find {text} changes files"
    use.problem = use.problem or reason
    use.danger = use.danger or reason
    if text == "-delete":
        use.writes += use.lists
        use.removes += use.lists
    elif text.startswith("-f"):
        use.writes += rest[:1]


def inner_commands(words: Sequence[Word]) -> list[tuple[Word, ...]]:
    """Return the command lines after `-exec` and its like."""
    found = []
    for index, word in enumerate(words):
        if word.literal in RUNNING:
            inner: list[Word] = []
            for following in words[index + 1 :]:
                if following.literal == ";" or (
                    following.literal == "+" and inner and inner[-1].literal == "{}"
                ):
                    break
                inner.append(following)
            found.append(tuple(inner))
    return found
