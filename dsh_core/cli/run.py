"""`dsh run`: one prompt, one agent, until it is idle."""

from __future__ import annotations

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
    EXIT_OK,
    EXIT_USAGE,
    Parser,
    UsageError,
)
from dsh_core.cli.output import ResultOutput, result_output

if TYPE_CHECKING:
    import argparse

    from dsh_core.agents import Agent
    from dsh_core.cli.jsonl import JsonLines
    from dsh_core.cli.printer import Printer
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
    if not output.is_broken:
        return code
    if not isinstance(output.problem, BrokenPipeError):
        say(f"dsh: {output.why_broken}")
    return code or EXIT_FAILED


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
    from dsh_core.cli.event_loop import run_to_end

    if is_interactive() and output.is_live:
        ask_about_project(context)
    front_end = _front_end(options, output)
    harness = context.build(plugins=_plugins(options, front_end), trace="--trace" in options)
    arguments = parse_options(_parser(), argv, harness)
    prompt = _prompt(arguments.prompt)
    return run_to_end(_session(harness, context, arguments, prompt, output, front_end))


def _front_end(options: Sequence[str], output: ResultOutput) -> JsonLines | Printer:
    """Return the plugin that shows the run."""
    if "--json" in options:
        from dsh_core.cli.jsonl import JsonLines

        return JsonLines(output)
    from dsh_core.cli.printer import Printer

    return Printer(output, is_quiet="--quiet" in options)


def _plugins(options: Sequence[str], front_end: JsonLines | Printer) -> dict[str, object]:
    """Return the plugins that make `run` a front end."""
    from dsh_core.cli.approval import AnswerYes, AskAtTerminal

    plugins: dict[str, object] = {"yes": AnswerYes()} if "--yes" in options else {}
    if "--json" in options:
        return {**plugins, "json_output": front_end}
    plugins[PRINTER] = front_end
    if is_interactive():
        plugins["ask_at_terminal"] = AskAtTerminal()
    return plugins


def _prompt(words: Sequence[str]) -> str:
    """Return the prompt: the words, and standard input where a `-` stands or nothing does."""
    parts = [os.fsencode(word).decode("utf-8", "replace") for word in words]
    if "-" in parts or (not parts and not sys.stdin.isatty()):
        piped = _standard_input()
        said = " ".join(part for part in parts if part != "-")
        text = f"{said}\n\n{piped}" if said else piped
    else:
        text = " ".join(parts)
    if not text.strip():
        raise UsageError(
            "there is no prompt", where="dsh run", remedy='Write dsh run "…", or pipe it in.'
        )
    return text


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(
            f"standard input cannot be read: {error.strerror or error}", where="dsh run"
        ) from error


async def _session(
    harness: Harness,
    context: CliContext,
    arguments: argparse.Namespace,
    prompt: str,
    output: ResultOutput,
    front_end: JsonLines | Printer,
) -> int:
    async with harness:
        if arguments.front_end is not None and output.is_live and _is_rendered(arguments):
            await harness.plugins.unregister(PRINTER)
            await harness.plugins.register(arguments.front_end(output.write), PRINTER)
        agent = await open_agent(harness, context, arguments)
        front_end.follow(agent)
        if not arguments.quiet:
            tell_notes(harness, context)
        return await _until_idle(agent, prompt, output)


def _is_rendered(arguments: argparse.Namespace) -> bool:
    return not (arguments.json or arguments.quiet)


async def _until_idle(agent: Agent, prompt: str, output: ResultOutput) -> int:
    from dsh_core.cli.signals import Interruptions

    if output.is_broken:
        return EXIT_FAILED
    interruptions = Interruptions(agent)
    output.on_broken = interruptions.output_lost
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
