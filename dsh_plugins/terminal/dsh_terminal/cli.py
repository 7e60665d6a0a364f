"""`dsh chat` and `dsh init`. What draws is imported when it is drawn."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from dsh_core import HarnessError
from dsh_core.cli import (
    EXIT_OK,
    CliContext,
    Parser,
    UsageError,
    add_plugin_options,
    add_session_options,
    ask_about_project,
    is_interactive,
    open_agent,
    parse_options,
    say,
    tell_notes,
)
from dsh_terminal import SETTINGS, TerminalSettings

if TYPE_CHECKING:
    import argparse

    from dsh_core import Harness
    from dsh_terminal.chat import Chat

EXIT_TERMINATED = 143


def chat(argv: Sequence[str], context: CliContext) -> int:
    """Talk with an agent at the terminal."""
    if "-h" in argv or "--help" in argv:
        return _help(context)
    if not (is_interactive() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to chat at", where="dsh chat", remedy='Use dsh run "…".'
        )
    ask_about_project(context)
    from dsh_terminal.chat import Chat
    from dsh_terminal.paint import Paint

    talk = Chat(Paint(encoding=sys.stdout.encoding or "ascii"))
    harness = context.build(plugins={"chat": talk.front_end}, trace="--trace" in argv)
    arguments = parse_options(_parser(), argv, harness)
    return asyncio.run(_chat(harness, context, arguments, talk))


def init(argv: Sequence[str], context: CliContext) -> int:
    """Write a commented dsh.yaml for this project."""
    from dsh_terminal.init import command

    return command(argv, context)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dsh chat", description=chat.__doc__, allow_abbrev=False)
    parser.add_argument("--trace", action="store_true", help="record which plugin did what")
    add_session_options(parser)
    return parser


def _help(context: CliContext) -> int:
    parser = _parser()
    try:
        add_plugin_options(parser, context.build())
    except HarnessError as error:
        say(f"note: options of plugins are not shown: {error}")
    parser.print_help()
    return EXIT_OK


async def _chat(
    harness: Harness, context: CliContext, arguments: argparse.Namespace, talk: Chat
) -> int:
    code = EXIT_OK

    def end() -> None:
        nonlocal code
        code = EXIT_TERMINATED
        talk.leave()

    async with harness:
        agent = await open_agent(harness, context, arguments)
        tell_notes(harness, context)
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, end)
        await talk.run(harness, agent, agent.stash.get(SETTINGS, TerminalSettings()))
        last = talk.seat.agent
        is_worth_it = harness.store is not None and bool(last.session.events)
    if is_worth_it:
        with suppress(OSError):
            say(f"to go on: dsh chat --resume {last.id}")
    return code
