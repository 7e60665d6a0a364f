"""Options and words that make a program run a command, or hold code that may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dsh_permission.names import names
from dsh_permission.shell.tree import Word

_SCRIPT_OPTIONS: Mapping[str, frozenset[str]] = {
    "git": names(
        "--exec -x --extcmd --upload-pack --receive-pack --tree-filter --index-filter "
        "--msg-filter --env-filter --parent-filter --commit-filter --tag-name-filter"
    ),
    "split": names("--filter"),
    "sort": names("--compress-program"),
    "man": names("-P --pager"),
    "zip": names("-TT --unzip-command"),
    "rsync": names("-e --rsh --rsync-path"),
    "mapfile": names("-C"),
    "readarray": names("-C"),
    "complete": names("-C"),
    "compgen": names("-C"),
    "rg": names("--pre --hostname-bin"),
    "less": names("-k --lesskey-file"),
    "psql": names("-c --command"),
    "xterm": names("-e"),
    "nc": names("-e -c --exec --sh-exec"),
    "ncat": names("-e -c --exec --sh-exec"),
    "hg": names("--config"),
    "svn": names("--diff-cmd --editor-cmd"),
    "gcc": names("-wrapper"),
}
"""Program → options whose value is a command, attached or as the next word."""

_CODE = names(
    "perl python python2 python3 ruby node deno bun php lua tclsh expect awk gawk mawk gdb lldb "
    "vim vi nvim emacs ex ed view osascript sqlite3 m4 jshell ghci irb r rscript julia socat tmux "
    "screen make gmake at batch crontab ansible script"
)
"""Programs whose words may be code that runs commands: any of them is suspected."""

_AFTER: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "git": (("bisect", "run"), ("submodule", "foreach"), ("worktree", "foreach")),
}


def run_by_options(name: str, words: Sequence[Word]) -> Iterator[str]:
    """Yield commands given as the value of an option, or after a subcommand."""
    options = _SCRIPT_OPTIONS.get(name, frozenset())
    for index, word in enumerate(words):
        text = word.literal or ""
        option, equals, value = text.partition("=")
        if option in options:
            following = words[index + 1].literal if index + 1 < len(words) else None
            yield value if equals else following or ""
        else:
            for short in options:
                if len(short) == 2 and text.startswith(short) and len(text) > 2:
                    yield text[2:].removeprefix("=")
    texts = [word.literal or "" for word in words]
    for head in _AFTER.get(name, ()):
        for place in range(len(texts) - len(head)):
            if tuple(texts[place : place + len(head)]) == head:
                rest = [t for t in texts[place + len(head) :] if not t.startswith("-")]
                yield " ".join(rest)


def code_in(name: str, words: Sequence[Word]) -> Iterator[str]:
    """Yield words that may be code which runs commands."""
    if name in _CODE:
        yield from (word.literal for word in words if word.literal and " " in word.literal)
