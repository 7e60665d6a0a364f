"""`dsh trust`: agree to this folder's dsh.yaml, as it is now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dsh_core.cli.context import CliContext, is_interactive, say, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, Parser
from dsh_core.cli.screen import printable


def command(argv: Sequence[str], context: CliContext) -> int:
    """Show the file and ask, unless `--yes` says that it was read."""
    parser = Parser(prog="dsh trust", description="Agree to this folder's dsh.yaml.")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args(argv)
    path = context.config().untrusted_file
    if path is None:
        show("There is no project file that is not trusted.")
        return EXIT_OK
    if not arguments.yes and not is_interactive():
        say(f"dsh: {path} is not trusted, and nobody can be asked here; read it, then use --yes")
        return EXIT_FAILED
    return EXIT_OK if ask_for_trust(context, path, ask=not arguments.yes) else EXIT_FAILED


def ask_for_trust(context: CliContext, path: Path, *, ask: bool) -> bool:
    """Show a project file and record the user's consent to exactly this content."""
    content = path.read_bytes()
    if ask:
        say(f"--- {path}")
        say(printable(content.decode(errors="replace")))
        say("---")
        say("It may start programs and send your keys elsewhere. Trust this content? [y/N] ")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            return False
    context.trust.trust(path, content)
    context.forget_config()
    say(f"trusted: {path}")
    return True
