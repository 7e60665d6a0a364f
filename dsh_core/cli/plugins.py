"""`dsh plugins`: what is installed, what is on, and why something is not."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from dsh_core.cli.context import CliContext, say_note, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, Parser, UsageError
from dsh_core.errors import ConfigError
from dsh_core.plugins.info import PluginInfo

VERBS = {
    "list": "List plugins and their state (the default).",
    "info": "Tell about one plugin.",
    "new": "Begin a plugin of your own from the template.",
    "check": "Find what is wrong with a plugin: in its code, its packaging, and in use.",
    "install": "Install plugins with pip, in the environment of this dsh.",
    "uninstall": "Uninstall the distributions of plugins.",
    "enable": "Switch a plugin on in the configuration file.",
    "disable": "Switch a plugin off in the configuration file.",
    "bisect": "Find the plugin that makes a command fail.",
}


def command(argv: Sequence[str], context: CliContext) -> int:
    """List plugins and their state, or work on one."""
    arguments = _parser().parse_args(argv)
    match arguments.verb:
        case "new":
            return _new(arguments.name, context.cwd / arguments.into)
        case "check":
            from dsh_core.cli.plugins_check import check_plugins

            return check_plugins(arguments.name, context, as_json=arguments.json)
        case "install" | "uninstall":
            return _installed(arguments)
        case "enable" | "disable":
            from dsh_core.cli.plugins_switch import switch

            switch(arguments.name, context, on=arguments.verb == "enable", user=arguments.user)
            return EXIT_OK
        case "bisect":
            from dsh_core.cli.plugins_bisect import bisect

            return bisect(arguments.words, context)
        case "info":
            return _info(arguments.name, context, as_json=arguments.json)
        case _:
            return _list(context, as_json=arguments.json)


def _parser() -> Parser:
    parser = Parser(prog="dsh plugins", description=command.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for verb, text in VERBS.items():
        one = verbs.add_parser(verb, help=text, description=text)
        match verb:
            case "new":
                one.add_argument("name", metavar="NAME")
                one.add_argument("--into", metavar="DIR", default=".", help="where; else here")
            case "install":
                one.add_argument(
                    "wanted", nargs="*", metavar="WHAT", help="what pip understands, or a NAME"
                )
                one.add_argument(
                    "-e", "--editable", action="append", default=[], metavar="DIR", help="a folder"
                )
                one.add_argument("--upgrade", action="store_true", help="the newest version")
            case "uninstall":
                one.add_argument("names", nargs="+", metavar="NAME")
            case "enable" | "disable":
                one.add_argument("name", metavar="NAME")
                one.add_argument("--user", action="store_true", help="in your own file")
            case "bisect":
                one.add_argument("words", nargs="*", metavar="COMMAND", help="of dsh, after --")
            case "info" | "check":
                one.add_argument("name", metavar="PATH|NAME" if verb == "check" else "NAME")
        if verb in ("list", "info", "check"):
            one.add_argument(
                "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
            )
    return parser


def _installed(arguments: argparse.Namespace) -> int:
    from dsh_core.cli.plugins_install import install, uninstall

    if arguments.verb == "uninstall":
        return uninstall(arguments.names)
    if not arguments.wanted and not arguments.editable:
        raise UsageError(
            "what to install?", where="dsh plugins install", remedy="Name it, or -e DIR."
        )
    return install(arguments.wanted, editable=arguments.editable, upgrade=arguments.upgrade)


def _new(name: str, into: Path) -> int:
    """Write a plugin and say what to do with it."""
    from dsh_core.builtin import BUILTIN_PLUGINS
    from dsh_core.cli.new_plugin import new_plugin

    folder = new_plugin(name, into, taken=frozenset(BUILTIN_PLUGINS))
    show(f"{folder} is a plugin that works. Next:")
    show(f"  cd {shlex.quote(str(folder))}")
    show("  python -m pip install -e '.[dev]'")
    show("  python -m pytest")
    return EXIT_OK


def _list(context: CliContext, *, as_json: bool) -> int:
    """Import only what is on; a broken plugin is a row, not an error."""
    from dsh_core.harness import Harness

    harness = Harness(context.config(), cwd=context.cwd)
    infos = harness.plugins.diagnose()
    if as_json:
        show(json.dumps([info.to_json() for info in infos], indent=2))
    else:
        _table(infos)
    for note in (*context.config().notes, *harness.plugins.notes):
        say_note(note)
    bad = any(info.state in ("broken", "missing") for info in infos)
    return EXIT_FAILED if bad else EXIT_OK


def _table(infos: Sequence[PluginInfo]) -> None:
    rows = [("NAME", "VERSION", "DISTRIBUTION", "STATE")]
    rows += [(i.name, i.version or "-", i.distribution, i.state) for i in infos]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for index, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        show("  ".join(cells).rstrip())
        if index and infos[index - 1].cause:
            show(f"    {infos[index - 1].cause}")
            if infos[index - 1].remedy:
                show(f"    → {infos[index - 1].remedy}")


def _info(name: str, context: CliContext, *, as_json: bool) -> int:
    from dsh_core.harness import Harness
    from dsh_core.plugins.describe import describe

    harness = Harness(context.config(), cwd=context.cwd)
    infos = {info.name: info for info in harness.plugins.diagnose()}
    if name not in infos:
        raise ConfigError(f"there is no plugin {name!r}", remedy=f"Plugins: {', '.join(infos)}.")
    facts = describe(harness, infos[name])
    if as_json:
        show(json.dumps(facts, indent=2, default=str))
        return EXIT_OK
    for key, value in facts.items():
        if isinstance(value, list):
            show(f"{key}:")
            for item in value:
                show(f"  {item}")
        else:
            show(f"{key}: {value}")
    return EXIT_OK
