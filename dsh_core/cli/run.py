"""`dsh run`: one prompt, one agent, until it is idle."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dsh_core.cli.context import CliContext, is_interactive, say
from dsh_core.cli.main import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_USAGE,
    Parser,
    UsageError,
)
from dsh_core.cli.options import CliOptions

if TYPE_CHECKING:
    import argparse

    from dsh_core.agents import Agent
    from dsh_core.events import TurnEndReason
    from dsh_core.harness import Harness

EXIT_TERMINATED = 143
CONFIGURATION_CODES = frozenset(
    {"CONFIG", "MISSING_CREDENTIAL", "INVALID_CREDENTIAL", "NO_ADAPTER"}
)
"""Failures that a change of the configuration cures: exit code 2."""


def command(argv: Sequence[str], context: CliContext) -> int:
    """Run an agent on a prompt."""
    if "-h" in argv or "--help" in argv:
        return _help(context)
    as_json = "--json" in _options_of(argv)
    if not as_json:
        return _run(argv, context, None)
    with _take_stdout() as output:
        try:
            return _run(argv, context, output)
        except Exception as error:
            from dsh_core.cli.jsonl import error_line

            output.write(error_line(error))
            raise


def _options_of(argv: Sequence[str]) -> Sequence[str]:
    return argv[: list(argv).index("--")] if "--" in argv else argv


def _help(context: CliContext) -> int:
    _parser(context, None).print_help()
    return EXIT_OK


def _parser(context: CliContext, harness: Harness | None) -> argparse.ArgumentParser:
    parser = Parser(prog="dsh run", description=command.__doc__, allow_abbrev=False)
    parser.add_argument("prompt", nargs="*", help="what to do; - reads it from standard input")
    parser.add_argument("--json", action="store_true", help="print events as JSON lines")
    parser.add_argument("--yes", action="store_true", help="answer yes to every question")
    parser.add_argument("--quiet", action="store_true", help="print the answer only")
    parser.add_argument("--trace", action="store_true", help="record which plugin did what")
    parser.add_argument("--model", metavar="PROVIDER/MODEL", help="use this model")
    if harness is not None:
        _add_plugin_options(parser, harness)
    return parser


def _add_plugin_options(parser: argparse.ArgumentParser, harness: Harness) -> None:
    """Let plugins add options, and keep their values for `harness_start`."""
    from dsh_core import hookspecs

    options = CliOptions(parser)
    for implementation in harness.plugins.base.chain("cli_register").plain:
        options.owned_by(implementation.plugin)
        harness.plugins.base.emit_from(implementation.plugin, hookspecs.cli_register, cli=options)
    parser.set_defaults(plugin_options=options)


def _run(argv: Sequence[str], context: CliContext, output: Any) -> int:
    from dsh_core.cli.trust import ask_for_trust

    untrusted = context.config().untrusted_file
    if untrusted is not None and is_interactive() and output is None:
        ask_for_trust(context, untrusted, ask=True)
    is_traced = "--trace" in _options_of(argv)
    harness = context.build(plugins=_front_end(argv, output), trace=is_traced)
    arguments = _parser(context, harness).parse_args(argv)
    harness.cli_options.update(arguments.plugin_options.values(arguments))
    prompt = _prompt(arguments.prompt)
    return asyncio.run(_session(harness, context, arguments, prompt))


def _front_end(argv: Sequence[str], output: Any) -> dict[str, object]:
    """Return the plugins that make `run` a front end."""
    from dsh_core.cli.approval import AnswerYes, AskAtTerminal

    options = _options_of(argv)
    plugins: dict[str, object] = {}
    if "--yes" in options:
        plugins["yes"] = AnswerYes()
    if output is not None:
        from dsh_core.cli.jsonl import JsonLines

        plugins["json_output"] = JsonLines(output)
    else:
        from dsh_core.cli.printer import Printer

        plugins["printer"] = Printer(is_live=sys.stdout.isatty(), is_quiet="--quiet" in options)
    if is_interactive() and output is None:
        plugins["ask_at_terminal"] = AskAtTerminal()
    return plugins


def _take_stdout() -> Any:
    """Keep standard output for JSON: whatever else prints goes to standard error."""
    sys.stdout.flush()
    mine = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(mine, "w", encoding="utf-8", errors="replace", newline="\n")


def _prompt(words: Sequence[str]) -> str:
    """Return the prompt from the arguments, or from standard input; never waits for both."""
    if list(words) == ["-"] or (not words and not sys.stdin.isatty()):
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        text = os.fsencode(" ".join(words)).decode("utf-8", "replace")
    if not text.strip():
        raise UsageError(
            "there is no prompt", where="dsh run", remedy='Write dsh run "…", or pipe it in.'
        )
    return text


async def _session(
    harness: Harness, context: CliContext, arguments: argparse.Namespace, prompt: str
) -> int:
    async with harness:
        agent = _agent(harness, context, arguments.model)
        _tell_notes(harness, context, agent, arguments)
        return await _until_idle(agent, prompt)


def _agent(harness: Harness, context: CliContext, model: str | None) -> Agent:
    from dataclasses import replace

    definition = harness.definition(context.agent)
    if model:
        definition = replace(definition, model=model)
    context.check_model(harness, definition)
    return harness.agents.create(definition)


def _tell_notes(
    harness: Harness, context: CliContext, agent: Agent, arguments: argparse.Namespace
) -> None:
    from dsh_core import hookspecs

    if arguments.quiet:
        return
    for note in (*context.config().notes, *harness.plugins.notes):
        say(f"note: {note}")
    tools = harness.tools.for_agent(agent.hooks, agent.options.tools)
    if tools and not agent.hooks.has(hookspecs.tools_authorize):
        say("note: no permission plugin is on: tools run without asking")


async def _until_idle(agent: Agent, prompt: str) -> int:
    """Run the prompt; Ctrl-C aborts the turn, a second one exits, SIGTERM ends in good order."""
    signals = _Signals(agent)
    signals.install()
    try:
        result = await agent.run(prompt)
    finally:
        signals.remove()
    if signals.exit_code is not None:
        return signals.exit_code
    return _exit_code(result.reason)


def _exit_code(reason: TurnEndReason) -> int:
    if reason.type == "completed":
        return EXIT_OK
    if getattr(reason, "code", None) in CONFIGURATION_CODES:
        return EXIT_USAGE
    return EXIT_FAILED


class _Signals:
    """What SIGINT and SIGTERM do while an agent runs."""

    def __init__(self, agent: Agent):
        self._agent = agent
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self.exit_code: int | None = None

    def install(self) -> None:
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
        self._loop.add_signal_handler(signal.SIGTERM, self._terminate)

    def remove(self) -> None:
        self._loop.remove_signal_handler(signal.SIGINT)
        self._loop.remove_signal_handler(signal.SIGTERM)

    def _interrupt(self) -> None:
        if self.exit_code is not None:
            os._exit(EXIT_INTERRUPTED)
        self.exit_code = EXIT_INTERRUPTED
        say("interrupted; press Ctrl-C again to leave at once")
        self._agent.abort("interrupted by the user")

    def _terminate(self) -> None:
        self.exit_code = EXIT_TERMINATED
        self._agent.abort("terminated")
