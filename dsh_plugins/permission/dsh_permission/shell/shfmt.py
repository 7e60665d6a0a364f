"""Asking shfmt, the authority on what a command means: its program, started per question."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 5.0
"""Parsing 10,000 characters takes milliseconds; this bounds a machine that is stuck."""

TEXT_LIMIT_CHARACTERS = 100_000
"""Longer commands are only scanned: their JSON is some 40 times as long."""


class UnparsableError(Exception):
    """shfmt is missing, says that this is no bash, or gave up; the message is for people."""


@cache
def program() -> str | None:
    """Return where shfmt is: beside this Python, where its wheel puts it, or on PATH."""
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("shfmt")


def syntax_tree(text: str) -> dict[str, Any]:
    """Return shfmt's syntax tree of a bash command. Raises `UnparsableError`. Blocks."""
    path = program()
    if path is None:
        raise UnparsableError("it is more than a plain command, and shfmt is not installed")
    if len(text) > TEXT_LIMIT_CHARACTERS:
        raise UnparsableError("it is too long")
    try:
        done = subprocess.run(
            [os.path.abspath(path), "-ln", "bash", "--to-json"],
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            close_fds=False,  # a spawn instead of a fork; Python's descriptors stay here
            env={"PATH": os.defpath},
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
            raise UnparsableError(f"it does not parse: {said.removeprefix('<standard input>:')}")
        tree: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise UnparsableError("parsing it takes too long") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UnparsableError(f"it cannot be parsed: {error}") from error
    return tree
