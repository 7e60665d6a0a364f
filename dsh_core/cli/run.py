"""`dsh run`: one prompt, one agent, until it is idle."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core.cli.context import CliContext, is_interactive, say
from dsh_core.cli.front_end import (
    add_plugin_options,
    add_session_options,
    ask_about_project,
    open_agent,
    parse_options,
    tell_notes,
)
from dsh_core.cli.main import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    EXIT_USAGE,
    Parser,
    UsageError,
)
from dsh_core.cli.output import ResultOutput, result_output

if TYPE_CHECKING:
    import argparse

    from dsh_core.agents import Agent
    from dsh_core.events import TurnEndReason
    from dsh_core.harness import Harness

PRINTER = "printer"
"""The plugin that shows a run as text."""

CONFIGURATION_CODES = frozenset(
    {"CONFIG", "MISSING_CREDENTIAL", "INVALID_CREDENTIAL", "NO_ADAPTER"}
)
"""Failures that a change of the configuration cures: exit code 2."""


def command(argv: Sequence[str], context: CliContext) -> int:
    """Run an agent on a prompt."""
    options = argv[: list(argv).index("--")] if "--" in argv else argv
    if "-h" in options or "--help" in options:
        return _help(context)
    as_json = "--json" in options
    with result_output(as_json=as_json) as output:
        try:
            code = _run(argv, options, context, output)
        except Exception as error:
            if as_json:
                from dsh_core.cli.jsonl import error_line

                output.write(error_line(error))
            raise
    if output.is_broken and code == EXIT_OK:
        say("dsh: the result could not be written")
        return EXIT_FAILED
    return code


def _help(context: CliContext) -> int:
    """Print the options, those of plugins too where the plugins load."""
    from dsh_core.errors import HarnessError

    try:
        harness = context.build()
    except HarnessError as error:
        _parser().print_help()
        say(f"note: options of plugins are not shown: {error}")
        return EXIT_OK
    parser = _parser()
    add_plugin_options(parser, harness)
    parser.print_help()
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="dsh run", description=command.__doc__, allow_abbrev=False)
    parser.add_argument(
        "prompt", nargs="*", help="what to do; a - stands for what standard input holds"
    )
    parser.add_argument("--json", action="store_true", help="print events as JSON lines")
    parser.add_argument("--yes", action="store_true", help="answer yes to every question")
    parser.add_argument("--quiet", action="store_true", help="print the answer only")
    parser.add_argument("--trace", action="store_true", help="record which plugin did what")
    add_session_options(parser)
    return parser


def _run(
    argv: Sequence[str], options: Sequence[str], context: CliContext, output: ResultOutput
) -> int:
    if is_interactive() and output.is_live:
        ask_about_project(context)
    plugins = _front_end(options, output)
    harness = context.build(plugins=plugins, trace="--trace" in options)
    arguments = parse_options(_parser(), argv, harness)
    prompt = _prompt(arguments.prompt)
    return asyncio.run(_session(harness, context, arguments, prompt, output))


def _front_end(options: Sequence[str], output: ResultOutput) -> dict[str, object]:
    """Return the plugins that make `run` a front end."""
    from dsh_core.cli.approval import AnswerYes, AskAtTerminal

    plugins: dict[str, object] = {}
    if "--yes" in options:
        plugins["yes"] = AnswerYes()
    if "--json" in options:
        from dsh_core.cli.jsonl import JsonLines

        plugins["json_output"] = JsonLines(output)
    else:
        from dsh_core.cli.printer import Printer

        plugins[PRINTER] = Printer(output, is_quiet="--quiet" in options)
        if is_interactive():
            plugins["ask_at_terminal"] = AskAtTerminal()
    return plugins


def _prompt(words: Sequence[str]) -> str:
    """Return the prompt: the words, and standard input where a `-` stands or nothing does."""
    parts = [os.fsencode(word).decode("utf-8", "replace") for word in words]
    if "-" in parts or (not parts and not sys.stdin.isatty()):
        piped = sys.stdin.buffer.read().decode("utf-8", "replace")
        said = " ".join(part for part in parts if part != "-")
        text = f"{said}\n\n{piped}" if said else piped
    else:
        text = " ".join(parts)
    if not text.strip():
        raise UsageError(
            "there is no prompt", where="dsh run", remedy='Write dsh run "…", or pipe it in.'
        )
    return text


async def _session(
    harness: Harness,
    context: CliContext,
    arguments: argparse.Namespace,
    prompt: str,
    output: ResultOutput,
) -> int:
    async with harness:
        if arguments.front_end is not None and output.is_live and not arguments.quiet:
            await harness.plugins.unregister(PRINTER)
            await harness.plugins.register(arguments.front_end(output.write), PRINTER)
        agent = await open_agent(harness, context, arguments)
        if not arguments.quiet:
            tell_notes(harness, context)
        code = await _until_idle(agent, prompt, output)
    if code in (EXIT_INTERRUPTED, EXIT_TERMINATED):
        # All is disposed and stopped; threads that a plugin left running must not hold the exit.
        sys.stderr.flush()
        os._exit(code)
    return code


async def _until_idle(agent: Agent, prompt: str, output: ResultOutput) -> int:
    from dsh_core.cli.signals import Interruptions

    interruptions = Interruptions(agent)
    output.on_broken = interruptions.reader_left
    interruptions.install()
    try:
        result = await agent.run(prompt)
    finally:
        interruptions.remove()
    if interruptions.exit_code is not None:
        return interruptions.exit_code
    return _exit_code(result.reason)


def _exit_code(reason: TurnEndReason) -> int:
    if reason.type == "completed":
        return EXIT_OK
    if getattr(reason, "code", None) in CONFIGURATION_CODES:
        return EXIT_USAGE
    return EXIT_FAILED
