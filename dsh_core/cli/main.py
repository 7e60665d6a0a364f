"""Finds the command and runs it; says errors the user's way. Imports nothing heavy itself."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import NoReturn

from dsh_core import __version__
from dsh_core.cli.screen import bounded, printable
from dsh_core.cli.standard import (
    is_lost_output,
    lost_output,
    open_closed_streams,
    say,
    survive_any_locale,
)
from dsh_core.errors import HarnessError, UserError, error_chain

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_HUNG_UP = 129
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

MISTAKES_LIMIT = 20_000
"""Characters of an error that are shown: a configuration may have many mistakes."""

COMMANDS = {
    "run": ("dsh_core.cli.run:command", "Give an agent a prompt and see it work."),
    "plugins": ("dsh_core.cli.plugins:command", "List plugins and their state."),
    "hooks": ("dsh_core.cli.hooks:command", "List hooks and who implements them."),
    "trace": ("dsh_core.cli.trace:command", "Show which plugin changed what in a session."),
    "config": ("dsh_core.cli.config:command", "Check, show or describe the configuration."),
    "trust": ("dsh_core.cli.trust:command", "Agree to this folder's dsh.yaml."),
}
COMMAND_GROUP = "dsh.commands"

_HELP = """\
usage: dsh [options] COMMAND [arguments]

An agent harness: it calls a model, runs tools and repeats. Everything else is a plugin.

commands:
{commands}

options, before or after the command:
  -c, --config FILE     read FILE in place of dsh.yaml, and trust it
  -a, --agent NAME      use this agent of the configuration
  -p no:NAME            switch a plugin off for this run
  -s KEY=VALUE          set a configuration key, as in plugins.shell.timeout_seconds=5
      --safe            built-in plugins only
      --version         print the version
  -h, --help            print this; `dsh COMMAND --help` has more
"""


class UsageError(UserError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are `UsageError`s."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting."""
        raise UsageError(message, where=self.prog, remedy=f"`{self.prog} --help` says what fits.")


def core_parser() -> argparse.ArgumentParser:
    """Return the parser of the options that every command has."""
    parser = Parser(prog="dsh", add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--config", metavar="FILE")
    parser.add_argument("-a", "--agent", metavar="NAME")
    parser.add_argument("-p", dest="block", action="append", default=[], metavar="no:NAME")
    parser.add_argument("-s", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--safe", action="store_true")
    return parser


def run(argv: Sequence[str]) -> int:
    """Run `dsh ARGV` and return the exit code: 0, 1 failed, 2 usage, 130 interrupted.

    What was printed has been written when it returns; where that failed, the code is not 0.
    """
    open_closed_streams()
    survive_any_locale()
    lost: OSError | None = None
    try:
        code = _dispatch(argv)
    except UserError as error:
        say(f"dsh: {bounded(str(error), MISTAKES_LIMIT)}")
        code = EXIT_USAGE
    except HarnessError as error:
        say(f"dsh: {bounded(error_chain(error), MISTAKES_LIMIT)}")
        code = EXIT_FAILED
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except SystemExit as leaving:  # argparse, after --help
        code = leaving.code if isinstance(leaving.code, int) else EXIT_OK
    except OSError as error:
        if not is_lost_output(error):
            raise
        code, lost = EXIT_FAILED, error
    lost = lost_output() or lost
    if lost is None:
        return code
    if not isinstance(lost, BrokenPipeError):  # a reader that has enough is no surprise
        say(f"dsh: the output could not be written: {lost.strerror}")
    return code or EXIT_FAILED


def _dispatch(argv: Sequence[str]) -> int:
    if list(argv) in (["--version"], ["-V"]):
        print(f"dsh {__version__}")  # noqa: T201
        return EXIT_OK
    options, rest = core_parser().parse_known_args(_before_dashes(argv))
    rest += argv[len(_before_dashes(argv)) :]
    if not rest or rest[0] in ("-h", "--help", "help"):
        print(printable(_HELP.format(commands=_command_list())), end="")  # noqa: T201
        return EXIT_OK if rest else EXIT_USAGE
    name, *arguments = rest
    command = _command(name)
    from dsh_core.cli.context import CliContext

    return command(arguments, CliContext.from_options(options, command=name))


def _before_dashes(argv: Sequence[str]) -> list[str]:
    """Return what stands before a `--`, which ends the options."""
    arguments = list(argv)
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _command(name: str) -> Callable[..., int]:
    """Import a command: the core's own, or a plugin's. Raises `UsageError` for an unknown one."""
    if name in COMMANDS:
        module, _, attribute = COMMANDS[name][0].partition(":")
        own: Callable[..., int] = getattr(importlib.import_module(module), attribute)
        return own
    if name.startswith("-"):
        raise UsageError(f"unknown option {name}", remedy="`dsh --help` lists the options.")
    from dsh_core.cli.plugin_commands import find

    return find(name, known=list(COMMANDS))


def _command_list() -> str:
    from dsh_core.cli.plugin_commands import names

    lines = [f"  {name:<12} {text}" for name, (_, text) in COMMANDS.items()]
    lines += [f"  {name:<12} from {owner}" for name, owner in names(known=list(COMMANDS))]
    return "\n".join(lines)
