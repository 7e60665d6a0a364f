"""`dsh plugins`: what is installed, what is on, and why something is not."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dsh_core.cli.context import CliContext, say, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK, Parser
from dsh_core.errors import ConfigError, UserError
from dsh_core.plugins.info import PluginInfo


def command(argv: Sequence[str], context: CliContext) -> int:
    """List all plugins, or tell about one."""
    parser = Parser(prog="dsh plugins", description="List plugins and their state.")
    parser.add_argument("verb", nargs="?", choices=["list", "info"], default="list")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    if arguments.verb == "info":
        if not arguments.name:
            raise UserError("dsh plugins info needs a plugin's name")
        return _info(arguments.name, context, as_json=arguments.json)
    return _list(context, as_json=arguments.json)


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
        say(f"note: {note}")
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
