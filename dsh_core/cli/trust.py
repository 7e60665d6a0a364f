"""`dsh trust`: agree to this folder's dsh.yaml, as it is now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dsh_core.cli.context import CliContext, is_interactive, say, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, Parser
from dsh_core.cli.screen import printable
from dsh_core.config.files import PROJECT_FILE, find_project_file
from dsh_core.errors import UserError


def command(argv: Sequence[str], context: CliContext) -> int:
    """Show the file and ask, unless `--yes` says that it was read."""
    parser = Parser(prog="dsh trust", description="Agree to this folder's dsh.yaml.")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args(argv)
    path = find_project_file(context.cwd)
    if path is None:
        say(f"dsh: there is no {PROJECT_FILE} here")
        return EXIT_FAILED
    if context.trust.is_trusted(path, path.read_bytes()):
        show(f"trusted already: {path}")
        return EXIT_OK
    if not arguments.yes and not is_interactive():
        say(f"dsh: {path} is not trusted, and nobody can be asked here; read it, then use --yes")
        return EXIT_FAILED
    return EXIT_OK if ask_for_trust(context, path, ask=not arguments.yes) else EXIT_FAILED


def ask_for_trust(context: CliContext, path: Path, *, ask: bool) -> bool:
    """Show a project file and record the user's consent to exactly this content."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from error
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
