"""The environment of a command: what the harness has, less its secrets, plus quiet tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from dsh_core.execution import system_text

QUIET = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""Programs neither colour their output, page it, nor ask."""

_AGAINST_QUIET = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE"})

_STEERS_BASH = frozenset(
    {"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE"}
)
_EXPORTED_FUNCTION = "BASH_FUNC_"
"""With these bash runs something else than the command says, which is what policy judged."""

_SECRET_WORDS = frozenset({"KEY", "APIKEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def ambient_environment() -> dict[str, str]:
    """Return the harness's own environment, decoded alike in every locale."""
    return {system_text(name): system_text(value) for name, value in os.environb.items()}


def command_environment(
    ambient: Mapping[str, str],
    *,
    keep: Collection[str],
    holds_secret: Callable[[str], bool],
    session_id: str,
    cwd: Path,
) -> dict[str, str]:
    """Return the whole environment of a command.

    Args:
        ambient: What the harness has.
        keep: Names that are passed on whatever they look like.
        holds_secret: Tells which values hold a secret of the harness; they are left out.
        session_id: Becomes `DSH_SESSION_ID`.
        cwd: Becomes `DSH_CWD`, and `PWD`, which is the harness's otherwise.

    """
    passed = {
        name: value
        for name, value in ambient.items()
        if name in keep
        or not (
            name in _AGAINST_QUIET
            or _steers_bash(name)
            or names_secret(name)
            or holds_secret(value)
        )
    }
    passed.pop("OLDPWD", None)
    facts = {"DSH_SESSION_ID": session_id, "DSH_CWD": str(cwd), "PWD": str(cwd)}
    return {**passed, **QUIET, **facts}


def _steers_bash(name: str) -> bool:
    return name in _STEERS_BASH or name.startswith(_EXPORTED_FUNCTION)


def names_secret(name: str) -> bool:
    """Whether a word of the name says that the value is a secret: `apiKey`, not `KEYBOARD`."""
    words = (word.upper() for word in _WORD.findall(name))
    return any(word in _SECRET_WORDS or word.removesuffix("S") in _SECRET_WORDS for word in words)
