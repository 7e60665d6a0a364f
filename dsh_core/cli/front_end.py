"""What front ends that talk to one agent share: options, trust, and which agent it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core.cli.context import CliContext, say_note
from dsh_core.cli.options import CliOptions

if TYPE_CHECKING:
    import argparse

    from dsh_core.agents import Agent
    from dsh_core.harness import Harness


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add `--model`, `--resume` and `--continue`, which `open_agent` reads."""
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="use this model")
    goes_on = parser.add_mutually_exclusive_group()
    goes_on.add_argument("--resume", metavar="SESSION", help="go on with a stored session")
    goes_on.add_argument(
        "--continue",
        dest="goes_on",
        action="store_true",
        help="go on with the last session of this folder",
    )


def add_plugin_options(parser: argparse.ArgumentParser, harness: Harness) -> CliOptions:
    """Let plugins add options (`cli_register`)."""
    from dsh_core import hookspecs

    options = CliOptions(parser)
    hooks = harness.plugins.base
    for implementation in hooks.chain(hookspecs.cli_register.__name__).plain:
        name = implementation.plugin
        options.owned_by(name)
        with harness.plugins.at_start_up():
            hooks.emit_from(name, hookspecs.cli_register, cli=options)
    return options


def parse_options(
    parser: argparse.ArgumentParser, argv: Sequence[str], harness: Harness
) -> argparse.Namespace:
    """Parse a command line with the options of plugins, and keep their values for them.

    The result's `front_end` is what a plugin offered, or None. To be called before the harness
    starts. Raises `UsageError`.
    """
    options = add_plugin_options(parser, harness)
    arguments = parser.parse_args(argv)
    harness.cli_options.update(options.values(arguments))
    arguments.front_end = options.front_end
    return arguments


async def open_agent(harness: Harness, context: CliContext, arguments: argparse.Namespace) -> Agent:
    """Create the agent that `-a` and the session options ask for, or resume it.

    Raises `UserError` where there is no such agent or session, or it could not ask any model.
    """
    from dataclasses import replace

    from dsh_core.cli.resume import last_session

    session_id = await last_session(harness) if arguments.goes_on else arguments.resume
    if session_id is None:
        definition = harness.definition(context.agent)
        if arguments.model:
            definition = replace(definition, model=arguments.model)
        context.check_model(harness, definition)
        return harness.agents.create(definition)
    agent = await harness.agents.resume(session_id, definition=context.agent, model=arguments.model)
    context.check_model(harness, replace(harness.definition(agent.name), model=agent.options.model))
    return agent


def ask_about_project(context: CliContext) -> None:
    """Ask the person at the terminal whether to trust the folder's file, where that is open."""
    from dsh_core.cli.trust import ask_for_trust

    untrusted = context.config().untrusted_file
    if untrusted is not None:
        ask_for_trust(context, untrusted, ask=True)


def tell_notes(harness: Harness, context: CliContext) -> None:
    """Say what the configuration and the plugins want a person to know."""
    for note in (*context.config().notes, *harness.plugins.notes):
        say_note(note)
