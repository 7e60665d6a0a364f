"""git: which commands only read, and which options run something."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from dsh_permission.programs.options import Given, Options, leading
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Scope, Word

_O = Options.of

GLOBAL_VALUED = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix",
     "--attr-source", "--exec-path", "--list-cmds"}
)  # fmt: skip
"""Options before the command that take their value as the next word."""

_GLOBAL_HARMLESS = frozenset(
    {"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"}
)
_GLOBAL_DANGER = ("-c", "--config-env", "--exec-path")

_DIFF = (
    "pusRaBMCDwbzWU:S:G:l:O:",
    "patch no-patch unified= raw stat? numstat shortstat dirstat? summary name-only name-status "
    "color? no-color word-diff? word-diff-regex= no-renames check full-index binary abbrev? "
    "find-renames? find-copies? diff-filter= pickaxe-all pickaxe-regex relative? text "
    "ignore-space-at-eol ignore-space-change ignore-all-space ignore-blank-lines "
    "inter-hunk-context= function-context exit-code quiet no-ext-diff no-textconv cached staged "
    "merge-base minimal patience histogram diff-algorithm= compact-summary src-prefix= "
    "dst-prefix= no-prefix submodule? ignore-submodules? cc combined-all-paths",
)
_LOG = (
    _DIFF[0] + "cgiEFPn:L:m",
    _DIFF[1]
    + " oneline graph decorate? no-decorate follow all branches? tags? remotes? max-count= "
    "skip= since= after= until= before= author= committer= grep= all-match invert-grep "
    "regexp-ignore-case merges no-merges first-parent reverse date= pretty? format= "
    "abbrev-commit no-abbrev-commit topo-order date-order author-date-order left-right "
    "cherry-pick cherry-mark boundary simplify-by-decoration full-history source use-mailmap "
    "walk-reflogs no-walk? show-signature notes? no-notes relative-date parents children "
    "extended-regexp fixed-strings perl-regexp ancestry-path",
)

_COMMANDS: Mapping[str, Options] = {
    "status": _O("sbvuz", "short branch show-stash porcelain? long verbose untracked-files? "
                 "ignored? ignore-submodules? column? no-column ahead-behind no-ahead-behind "
                 "renames no-renames find-renames?"),
    "diff": _O(*_DIFF),
    "log": _O(*_LOG, digits=True),
    "show": _O(*_LOG, digits=True),
    "blame": _O("L:bltfnsewc", "root show-stats reverse= porcelain line-porcelain "
                "incremental date= color-lines color-by-age show-name show-number show-email "
                "abbrev= ignore-rev="),
    "rev-parse": _O("q", "show-toplevel show-prefix show-cdup git-dir git-common-dir "
                    "absolute-git-dir is-inside-work-tree is-inside-git-dir is-bare-repository "
                    "abbrev-ref? short? verify quiet symbolic symbolic-full-name all branches? "
                    "tags? remotes? show-superproject-working-tree show-object-format? "
                    "local-env-vars"),
    "ls-files": _O("zctvfdmousikx:", "cached deleted modified others ignored stage unmerged "
                   "killed exclude= exclude-standard error-unmatch full-name abbrev? "
                   "deduplicate eol directory no-empty-directory format="),
    "ls-tree": _O("drtlz", "long name-only name-status full-name full-tree abbrev? format= "
                  "object-only"),
    "describe": _O("", "all tags contains abbrev? candidates= exact-match debug long match= "
                   "exclude= always first-parent dirty? broken?"),
    "shortlog": _O("nsecw", "numbered summary email committer group= format= since= until= all "
                   "no-merges"),
    "merge-base": _O("a", "all octopus independent is-ancestor fork-point"),
    "cat-file": _O("tsep", "allow-unknown-type"),
    "rev-list": _O("n:", "count max-count= all no-merges merges first-parent since= until= "
                   "reverse author= grep= left-right objects abbrev-commit pretty? oneline",
                   digits=True),
    "for-each-ref": _O("", "count= sort= format= points-at= merged? no-merged? contains? "
                       "no-contains?"),
    "show-ref": _O("hqds", "head heads tags branches dereference hash? verify quiet abbrev? "
                   "exists"),
    "name-rev": _O("", "tags refs= name-only always"),
    "count-objects": _O("vH", "verbose human-readable"),
    "check-ignore": _O("qvnz", "quiet verbose non-matching no-index"),
    "version": _O("", "build-options"),
    "grep": _O("EFGPivwIcLlnohqaWpe:m:A:B:C:", "extended-regexp fixed-strings basic-regexp "
               "perl-regexp ignore-case invert-match word-regexp count files-without-match "
               "files-with-matches name-only line-number only-matching no-color color? cached "
               "untracked heading break show-function function-context text column and or not "
               "all-match max-count= context= after-context= before-context=", digits=True),
    "branch": _O("arvli", "all remotes verbose list show-current contains? no-contains? merged? "
                 "no-merged? sort= points-at= format= column? no-column color? no-color "
                 "abbrev? no-abbrev ignore-case"),
    "tag": _O("lni", "list contains? no-contains? merged? no-merged? sort= points-at= format= "
              "column? no-column color? ignore-case", digits=True),
    "remote": _O("v", "verbose"),
    "stash": _O(*_DIFF),
    "reflog": _O(*_LOG, digits=True),
    "config": _O("lz", "list get get-all get-regexp show-origin show-scope name-only null type= "
                 "bool int path local"),
    "help": _O("a", "all"),
}  # fmt: skip


def command_of(words: Sequence[Word]) -> tuple[int, str | None]:
    """Return the place and the name of git's command; `words` follow `git`."""
    place = 0
    while place < len(words):
        text = leading(words[place])
        if not text.startswith("-"):
            break
        place += 2 if text in GLOBAL_VALUED and text == words[place].literal else 1
    return place, words[place].literal if place < len(words) else None


def git_use(words: Sequence[Word], scope: Scope) -> Use:
    """Return what a git command line does; `words` follow `git`.

    It only reads where it runs in the workspace itself: a folder below may be a repository whose
    configuration runs programs.
    """
    place, command = command_of(words)
    if [word.literal for word in words] == ["--version"]:
        return Use(read_only=True)
    use = Use(danger=_danger(words[:place]))
    use.problem = use.danger or _global_problem(words[:place])
    if not _is_at_root(words[:place], scope):
        use.problem = use.problem or "git runs what the configuration of another folder says"
    if command is None or command not in _COMMANDS:
        use.problem = use.problem or f"git {command or ''} may change something".replace("  ", " ")
        return use
    rest = words[place + 1 :]
    given = _COMMANDS[command].read(rest)
    use.problem = use.problem or given.problem or _operand_problem(given)
    check = _CHECKS.get(command)
    if check is not None:
        use.problem = use.problem or check(given)
    use.reads += [word for word in given.operands if _looks_outside(word)]
    use.read_only = use.problem is None
    return use


def _is_at_root(words: Sequence[Word], scope: Scope) -> bool:
    if scope.folders is None:
        return False
    folders = [str(folder) for folder in scope.folders]
    for index, word in enumerate(words):
        if word.literal == "-C":
            value = words[index + 1].literal if index + 1 < len(words) else None
            if value is None:
                return False
            folders = [os.path.realpath(os.path.join(folder, value)) for folder in folders]
    return all(folder == scope.root for folder in folders)


def _danger(words: Sequence[Word]) -> str | None:
    for word in words:
        text = leading(word)
        if text.startswith(_GLOBAL_DANGER) and not text.startswith("--cached"):
            return f"git {text} can make git run any program"
    return None


def _global_problem(words: Sequence[Word]) -> str | None:
    place = 0
    while place < len(words):
        text = words[place].literal
        if text == "-C":
            place += 1
        elif text not in _GLOBAL_HARMLESS:
            return f"git {text or words[place].source} is not one of the known harmless options"
        place += 1
    return None


def _operand_problem(given: Given) -> str | None:
    for word in given.operands:
        if word.is_unknown or word.variables() or (word.literal is None and _globs_first(word)):
            return f"{word.source!r} may become an option"
    return None


def _globs_first(word: Word) -> bool:
    return not leading(word) or leading(word)[0] in "*?["


def _looks_outside(word: Word) -> bool:
    """Operands may be names of commits; those that are paths out of the folder are judged."""
    text = leading(word)
    return (text.startswith(("/", "~", "..")) and text.strip(".") != "") or "/../" in text


def _no_operands(what: str) -> Callable[[Given], str | None]:
    def check(given: Given) -> str | None:
        listing = {"--list", "-l", "--contains", "--merged", "--no-merged", "--no-contains",
                   "--points-at"}  # fmt: skip
        if given.operands and not listing & set(given.options):
            return what
        return None

    return check


def _remote(given: Given) -> str | None:
    words = [word.literal for word in given.operands]
    if not words or words[0] == "get-url":
        return None
    return f"git remote {words[0]} may change something, or ask another machine"


def _stash(given: Given) -> str | None:
    words = [word.literal for word in given.operands]
    if words[:1] in (["list"], ["show"]):
        return None
    return "git stash changes the work tree"


def _reflog(given: Given) -> str | None:
    words = [word.literal for word in given.operands]
    if words[:1] in (["expire"], ["delete"], ["drop"]):
        return f"git reflog {words[0]} removes history"
    return None


def _config(given: Given) -> str | None:
    reading = {"--get", "--get-all", "--get-regexp", "--list", "-l"}
    if reading & set(given.options):
        return None
    if [word.literal for word in given.operands][:1] in (["get"], ["list"]):
        return None
    return "git config changes configuration"


def _help(given: Given) -> str | None:
    return None if "-a" in given.options or "--all" in given.options else "git help opens a pager"


_CHECKS: Mapping[str, Callable[[Given], str | None]] = {
    "branch": _no_operands("git branch NAME makes a branch"),
    "tag": _no_operands("git tag NAME makes a tag"),
    "remote": _remote,
    "stash": _stash,
    "reflog": _reflog,
    "config": _config,
    "help": _help,
}
