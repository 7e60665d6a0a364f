"""`dsh trust`: agree to this folder's dsh.yaml, as it is now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dsh_core.cli.context import CliContext, is_interactive, say, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, Parser
from dsh_core.config.files import PROJECT_FILE, find_project_file, read_file


def command(argv: Sequence[str], context: CliContext) -> int:
    """Show the file and ask, unless `--yes` says that it was read."""
    parser = Parser(prog="dsh trust", description="Agree to this folder's dsh.yaml.")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    arguments = parser.parse_args(argv)
    path = find_project_file(context.cwd)
    if path is None:
        say(f"dsh: there is no {PROJECT_FILE} here")
        return EXIT_FAILED
    if context.trust.is_trusted(path, read_file(path, context.cwd).content):
        show(f"trusted already: {path}")
        return EXIT_OK
    if not arguments.yes and not is_interactive():
        say(f"dsh: {path} is not trusted, and nobody can be asked here; read it, then use --yes")
        return EXIT_FAILED
    return EXIT_OK if ask_for_trust(context, path, ask=not arguments.yes) else EXIT_FAILED


def ask_for_trust(context: CliContext, path: Path, *, ask: bool) -> bool:
    """Show a project file and record the user's consent to exactly this content."""
    content = read_file(path, context.cwd).content
    if ask and not _agrees(path, content):
        return False
    context.trust.trust(path, content)
    context.forget_config()
    say(f"trusted: {path}")
    return True


def _agrees(path: Path, content: bytes) -> bool:
    """Show the text, then what agreeing makes active, then ask."""
    from dsh_core.config.consent import activated, numbered, too_long

    reason = too_long(content)
    if reason is not None:
        say(f"{path} is not trusted, and too long to be judged on a screen: {reason}.")
        say("Read it in an editor, then run `dsh trust --yes`. Until then it counts in part only.")
        return False
    say(f"{path}:")
    for line in numbered(content):
        say(line)
    say("")
    say("Agreeing makes this count, as dsh reads it:")
    for line in activated(content, path.name):
        say(line)
    say(f"Trust this content of {path}? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
