"""The command line, and what a plugin's commands need of it.

A command is `def command(argv: Sequence[str], context: CliContext) -> int`, named by an entry point
in the group `dsh.commands`. Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsh_core.cli.context import CliContext as CliContext
    from dsh_core.cli.context import say as say
    from dsh_core.cli.context import show as show
    from dsh_core.cli.main import EXIT_FAILED as EXIT_FAILED
    from dsh_core.cli.main import EXIT_OK as EXIT_OK
    from dsh_core.cli.main import EXIT_USAGE as EXIT_USAGE
    from dsh_core.cli.main import Parser as Parser
    from dsh_core.cli.main import UsageError as UsageError
    from dsh_core.cli.screen import printable as printable

_HOMES = {
    "CliContext": "dsh_core.cli.context",
    "EXIT_FAILED": "dsh_core.cli.main",
    "EXIT_OK": "dsh_core.cli.main",
    "EXIT_USAGE": "dsh_core.cli.main",
    "Parser": "dsh_core.cli.main",
    "UsageError": "dsh_core.cli.main",
    "printable": "dsh_core.cli.screen",
    "say": "dsh_core.cli.context",
    "show": "dsh_core.cli.context",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
