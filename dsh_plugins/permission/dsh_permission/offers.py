"""Which rule a person is offered for a part that no rule allows: narrow, and exactly as stored."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from dsh_permission.actions import Run
from dsh_permission.command_rule import CommandPattern, compile_command, program_name
from dsh_permission.names import names
from dsh_permission.shell.tree import Word

_ARITY: Mapping[str, int] = {
    **dict.fromkeys(
        names(
            "git cargo go pip pip3 brew apt apt-get dnf systemctl journalctl terraform tofu "
            "helm gh glab hg svn conda mamba poetry pipenv hatch tox nox rustup gradle mvn "
            "dotnet composer bundle bazel flutter dart swift mix rebar3 stack cabal nix"
        ),
        2,
    ),
    "npm run": 3,
    "pnpm run": 3,
    "yarn run": 3,
    "bun run": 3,
    "uv run": 3,
    "npm": 2,
    "pnpm": 2,
    "yarn": 2,
    "bun": 2,
    "uv": 2,
    "poetry run": 3,
    "git remote": 3,
    "git stash": 3,
    "git submodule": 3,
    "git worktree": 3,
    "gh pr": 3,
    "gh issue": 3,
    **dict.fromkeys(
        names(
            "pytest ruff mypy black isort flake8 pylint eslint prettier tsc jest vitest rustc "
            "gofmt golangci-lint shellcheck shfmt pre-commit"
        ),
        1,
    ),
}
"""How many words name what is done; only these are offered as a prefix."""

_EXACT_ONLY = names(
    "bash sh zsh dash ksh fish python python2 python3 node deno bun ruby perl php lua awk "
    "gawk sed sudo doas su xargs find env ssh docker podman kubectl make npx uvx pipx npm "
    "parallel eval exec source . command builtin nohup timeout time nice stdbuf watch script "
    "flock setsid strace curl wget rm mv cp dd chmod chown ln"
)


def offer_for(run: Run) -> str | None:
    """Return the rule to offer for a command, None where none is narrow enough."""
    literals = [word.literal for word in run.words]
    if run.problem is not None or run.use.danger is not None:
        return None
    if literals[0] is None or any(_is_open(word) for word in run.words):
        return None
    texts = [text for text in literals if text is not None]
    if len(texts) != len(literals):
        return _prefix(texts, [t is not None for t in literals])
    name = program_name(texts[0])
    prefix = _prefix(texts, [True] * len(texts))
    if prefix is not None and "/" not in texts[0] and not (name in _EXACT_ONLY and len(texts) < 2):
        return prefix
    return _exact(texts)


def _is_open(word: Word) -> bool:
    return word.is_unknown or bool(word.variables()) or word.has_brace


def _prefix(texts: list[str], known: list[bool]) -> str | None:
    """Return a prefix rule up to the subcommand, for programs where that says what is done."""
    if not texts:
        return None
    arity = _ARITY.get(" ".join(texts[:2])) or _ARITY.get(texts[0])
    if arity is None or len(texts) < arity or not all(known[:arity]):
        return None
    head = texts[:arity]
    if any(text.startswith("-") for text in head[1:]):
        return None
    if texts[0] in _EXACT_ONLY and arity < 3 and texts[1:2] not in (["test"], ["lint"]):
        return None
    return _checked(shlex.join(head) + ":*", CommandPattern(tuple(head), is_prefix=True))


def _exact(texts: list[str]) -> str | None:
    """Return a rule for exactly these words, None where a rule cannot say them."""
    return _checked(shlex.join(texts), CommandPattern(tuple(texts), is_prefix=False))


def _checked(spec: str, meaning: CommandPattern) -> str | None:
    if any("*" in word for word in meaning.words) or "\n" in spec:
        return None
    try:
        read_back = compile_command(spec)
    except ValueError:
        return None
    return f"Bash({spec})" if read_back == meaning else None
