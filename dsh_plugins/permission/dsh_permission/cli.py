"""`dsh permission check` and `dsh permission replay`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_permission.check import Defaults, answer
from dsh_permission.places import LISTS, NAME, placed, rule_places
from dsh_permission.policy import Rules

if TYPE_CHECKING:
    from dsh_core import CliContext

__all__ = ["command"]

_CHECK = """\
Reads one JSON object per line: tool, arguments, and optionally id, rules, mode, interactive,
workspace, home, read_only_tools. Writes one per line: decision, message, effects, reasons, offers.
What a line leaves out comes from the configuration."""


def command(argv: Sequence[str], context: CliContext) -> int:
    """Explain what permission rules decide."""
    parser = argparse.ArgumentParser(prog="dsh permission", description=command.__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check", help="decide calls given as JSON lines", description=_CHECK)
    replay = verbs.add_parser("replay", help="decide a recorded session's calls by other rules")
    replay.add_argument("session", help="a session's id, or a file of `dsh run --json`")
    replay.add_argument("--rules", required=True, help="YAML with allow, ask, deny and mode")
    arguments = parser.parse_args(argv)
    if arguments.verb == "check":
        return _check(context)
    from dsh_permission.replay import replay_session

    lines = replay_session(context, arguments.session, Path(arguments.rules))
    for line in lines:
        _write(line)
    return 0


def _check(context: CliContext) -> int:
    defaults = defaults_of(context)
    for line in sys.stdin:
        if line.strip():
            _write(answer(line, defaults))
    return 0


def defaults_of(context: CliContext) -> Defaults:
    """Return what the configuration says. Raises `ConfigError`."""
    harness = context.build()
    settings = next(info.settings for info in harness.plugins.infos() if info.name == NAME)
    config = context.config()
    places = rule_places(config)
    rules = Rules(**{name: placed(getattr(settings, name), name, places) for name in LISTS})
    files = [str(path) for path in config.files]
    return Defaults(
        rules,
        settings.mode,
        context.cwd,
        Path.home(),
        settings.protected,
        settings.read_only_tools,
        files[-1] if files else "dsh.yaml",
    )


def _write(line: object) -> None:
    # ASCII: a line separator inside a command must not end the line for any reader.
    print(json.dumps(line), flush=True)  # noqa: T201
