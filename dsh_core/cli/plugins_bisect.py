"""`dsh plugins bisect -- COMMAND`: which plugin breaks a run, found by halving."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

from dsh_core.cli.context import CliContext, say, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, UsageError


def bisect(command: Sequence[str], context: CliContext) -> int:
    """Run `dsh COMMAND` with fewer and fewer plugins until those are left that make it fail.

    Returns 0 when they were found. Raises `UsageError` without a command.
    """
    if not command:
        raise UsageError(
            "which command?",
            where="dsh plugins bisect",
            remedy='Write it after --, as in: dsh plugins bisect -- run "Go."',
        )
    from dsh_core.harness import Harness

    harness = Harness(context.config(), cwd=context.cwd)
    names = [i.name for i in harness.plugins.infos() if i.state == "on" and not i.is_builtin]
    trial = _Trial(command, context, names)
    if not trial.fails_with(names):
        show("it does not fail")
        return EXIT_FAILED
    if trial.fails_with([]):
        show("it fails without any plugin, too: it is not a plugin")
        return EXIT_FAILED
    guilty = smallest(names, trial.fails_with)
    show(f"it fails with {' and '.join(guilty)}, and not without")
    return EXIT_OK


class _Trial:
    """Runs the command with some plugins on."""

    def __init__(self, command: Sequence[str], context: CliContext, names: Sequence[str]):
        self._command = command
        self._context = context
        self._names = names

    def fails_with(self, on: Sequence[str]) -> bool:
        blocked = [name for name in self._names if name not in on]
        options = [option for name in blocked for option in ("-p", f"no:{name}")]
        if self._context.config_file is not None:
            options += ["-c", str(self._context.config_file)]
        for value in self._context.overrides:
            options += ["-s", value]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dsh_core", *options, *self._command],
            cwd=self._context.cwd,
            env=dict(self._context.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        said = "fails" if done.returncode else "works"
        say(f"{said} with {', '.join(on) or 'no plugin'}")
        return done.returncode != 0


def smallest(names: Sequence[str], fails_with: Callable[[Sequence[str]], bool]) -> list[str]:
    """Return a smallest part of `names` that still fails: taking any one away makes it work.

    Halves while one half alone fails, and then takes away what can be missed, smaller parts each
    time, as delta debugging does (Zeller and Hildebrandt, 2002).
    """
    left = list(names)
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        pieces = [left[start : start + size] for start in range(0, len(left), size)]
        rests = [[name for name in left if name not in piece] for piece in pieces]
        found = next((piece for piece in pieces if fails_with(piece)), None)
        if found is not None:
            left, parts = found, 2
            continue
        found = next((rest for rest in rests if len(pieces) > 2 and fails_with(rest)), None)
        if found is not None:
            left, parts = found, max(parts - 1, 2)
        elif parts >= len(left):
            return left
        else:
            parts = min(parts * 2, len(left))
    return left
