"""The two engines that search: ripgrep where there is one, and our own program in Python.

Both are programs with the same output, ripgrep's: names that end with NUL, or JSON lines. A program
can be stopped whatever it is doing; a regular expression inside our own process could not be.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dsh_core import ToolError
from dsh_files.atomic import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from dsh_files.child import Child, StopCause
from dsh_files.globs import Glob
from dsh_files.settings import Settings

VERSION_CONTROL = (".git", ".svn", ".hg", ".bzr", ".jj", ".sl")
"""Folders (files, in git worktrees) that are never searched."""

LEFT_OUT = (*VERSION_CONTROL, f"{TEMPORARY_PREFIX}*{TEMPORARY_SUFFIX}")
PARTLY_EXIT_CODE = 2
"""What ripgrep answers when it failed, or could not read everything; rg(1)."""

COMPLAINT_CHARACTERS = 2_000
"""How much of a program's complaint the model gets: it quotes the pattern, whatever its size."""

EXIT_CODES = (0, 1, PARTLY_EXIT_CODE)
_OWN_PROGRAM = Path(__file__).with_name("fallback.py")
_QUIET = ("--no-config", "--no-messages", "--hidden")


@dataclass(frozen=True, slots=True)
class Engine:
    """How to search. `ripgrep` is its path, or None for our own program."""

    ripgrep: str | None

    def list_files(self) -> Sequence[str]:
        """Return the program that lists all files below the working directory."""
        if self.ripgrep is None:
            return _own_program(task="list")
        left_out = (f"--glob=!{name}" for name in LEFT_OUT)
        return (self.ripgrep, "--files", "--null", "--no-ignore", *_QUIET, *left_out, "./")

    def search(
        self, pattern: str, include: Glob | None, root: Path, *, stdin: bool
    ) -> Sequence[str]:
        """Return the program that searches the files of `root`, where it runs, or standard input.

        With ripgrep, files that `include` does not match may be searched too.
        """
        if self.ripgrep is None:
            regex = include.regex if include else None
            return _own_program(task="search", pattern=pattern, include=regex, stdin=stdin)
        return (
            self.ripgrep,
            "--json",
            "--crlf",
            "--no-ignore-global",
            *(() if _is_in_repository(root) else ("--no-require-git",)),
            *_QUIET,
            *(f"--glob=!{name}" for name in LEFT_OUT),
            *_types(include),
            f"--regexp={pattern}",
            "-" if stdin else "./",
        )


def choose_engine(setting: Literal["auto", "ripgrep", "python"]) -> Engine:
    """Return the engine a setting stands for. Raises `SEARCH_FAILED` without a wanted ripgrep."""
    ripgrep = None if setting == "python" else find_ripgrep()
    if setting == "ripgrep" and ripgrep is None:
        raise ToolError(
            "ripgrep is not installed, and `plugins.files.engine` asks for it. "
            "A user can install it with `pip install ripgrep`.",
            code="SEARCH_FAILED",
        )
    return Engine(ripgrep)


def end_notes(
    child: Child, settings: Settings, *, has_results: bool, is_complete: bool | None = None
) -> list[str]:
    """Say how a search ended that did not see everything.

    Raises instead where it found nothing (`SEARCH_TIMEOUT`, `SEARCH_OUTPUT_TOO_LARGE`), or did not
    run: `SEARCH_INVALID_PATTERN`, `SEARCH_FAILED`. `is_complete` is whether the program said that
    it came to its end, None for one that does not say: exit codes alone prove nothing.
    """
    code, complaint = (0, "") if child.stopped else child.finish()
    if child.stopped:
        return [_stop_note(child.stopped, settings, has_results=has_results)]
    has_failed = bool(complaint and code) if is_complete is None else not is_complete
    if has_failed or code not in EXIT_CODES:
        complaint = _bounded(complaint.removeprefix("rg: ")) or f"it ended with code {code}"
        if "regex" in complaint:
            raise ToolError(f"Invalid pattern: {complaint}", code="SEARCH_INVALID_PATTERN")
        raise ToolError(f"The search did not run: {complaint}", code="SEARCH_FAILED")
    return ["(Some files or folders could not be read.)"] if code == PARTLY_EXIT_CODE else []


def _bounded(complaint: str) -> str:
    half = COMPLAINT_CHARACTERS // 2
    is_long = len(complaint) > COMPLAINT_CHARACTERS
    return f"{complaint[:half]}…{complaint[-half:]}" if is_long else complaint


def _stop_note(cause: StopCause, settings: Settings, *, has_results: bool) -> str:
    if cause == "time":
        code, limit = "SEARCH_TIMEOUT", f"after {settings.search_timeout_seconds:g} s"
    else:
        code = "SEARCH_OUTPUT_TOO_LARGE"
        limit = f"after {settings.search_output_limit_bytes:,} bytes of matches"
    if not has_results:
        raise ToolError(
            f"The search was stopped {limit} with nothing to show. Narrow it.", code=code
        )
    return f"(The search was stopped {limit}: there is more. Narrow the pattern or the path.)"


def find_ripgrep() -> str | None:
    """Return the path of `rg`: on PATH, or where a wheel puts programs; None where there is none.

    Relative folders on PATH do not count: they would let a project bring its own program.
    """
    folders = [folder for folder in os.get_exec_path() if os.path.isabs(folder)]
    return shutil.which("rg", path=os.pathsep.join([*folders, sysconfig.get_path("scripts")]))


def _is_in_repository(root: Path) -> bool:
    """Whether ignore files of folders above the repository do not count; else all do."""
    return any(os.path.lexists(folder / ".git") for folder in (root, *root.parents))


def _types(include: Glob | None) -> Sequence[str]:
    """Narrow by name through a file type: `--glob` would bring ignored files back."""
    names = include.names() if include else None
    if names is None:
        return ()
    return (*(f"--type-add=wanted:{name}" for name in names), "--type=wanted")


def _own_program(**task: object) -> Sequence[str]:
    """Return argv; `-I` keeps the modules of the searched folder out."""
    task["left_out"] = LEFT_OUT
    return (sys.executable, "-I", str(_OWN_PROGRAM), json.dumps(task))
