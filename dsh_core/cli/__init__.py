"""The command line, and what a plugin's commands need of it.

A command is `def command(argv: Sequence[str], context: CliContext) -> int`, named by an entry point
in the group `dsh.commands`. Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsh_core.cli.context import CliContext as CliContext
    from dsh_core.cli.context import is_interactive as is_interactive
    from dsh_core.cli.context import say as say
    from dsh_core.cli.context import show as show
    from dsh_core.cli.front_end import add_plugin_options as add_plugin_options
    from dsh_core.cli.front_end import add_session_options as add_session_options
    from dsh_core.cli.front_end import ask_about_project as ask_about_project
    from dsh_core.cli.front_end import open_agent as open_agent
    from dsh_core.cli.front_end import parse_options as parse_options
    from dsh_core.cli.front_end import tell_notes as tell_notes
    from dsh_core.cli.main import EXIT_FAILED as EXIT_FAILED
    from dsh_core.cli.main import EXIT_OK as EXIT_OK
    from dsh_core.cli.main import EXIT_USAGE as EXIT_USAGE
    from dsh_core.cli.main import Parser as Parser
    from dsh_core.cli.main import UsageError as UsageError
    from dsh_core.cli.remedies import remedy as remedy
    from dsh_core.cli.screen import one_line as one_line
    from dsh_core.cli.screen import printable as printable

_HOMES = {
    "CliContext": "dsh_core.cli.context",
    "EXIT_FAILED": "dsh_core.cli.main",
    "EXIT_OK": "dsh_core.cli.main",
    "EXIT_USAGE": "dsh_core.cli.main",
    "Parser": "dsh_core.cli.main",
    "UsageError": "dsh_core.cli.main",
    "add_plugin_options": "dsh_core.cli.front_end",
    "add_session_options": "dsh_core.cli.front_end",
    "ask_about_project": "dsh_core.cli.front_end",
    "is_interactive": "dsh_core.cli.context",
    "one_line": "dsh_core.cli.screen",
    "open_agent": "dsh_core.cli.front_end",
    "parse_options": "dsh_core.cli.front_end",
    "printable": "dsh_core.cli.screen",
    "remedy": "dsh_core.cli.remedies",
    "say": "dsh_core.cli.context",
    "show": "dsh_core.cli.context",
    "tell_notes": "dsh_core.cli.front_end",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
