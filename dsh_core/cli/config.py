"""`dsh config check|show|schema`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsh_core.cli.context import CliContext, say, show
from dsh_core.cli.main import EXIT_OK, Parser


def command(argv: Sequence[str], context: CliContext) -> int:
    """Check, show or describe the configuration."""
    parser = Parser(prog="dsh config", description="Check, show or describe the configuration.")
    parser.add_argument("verb", choices=["check", "show", "schema"])
    parser.add_argument("--json", action="store_true", help="show: print JSON instead of YAML")
    arguments = parser.parse_args(argv)
    if arguments.verb == "schema":
        return _schema(context)
    if arguments.verb == "show":
        return _show(context, as_json=arguments.json)
    return _check(context)


def _check(context: CliContext) -> int:
    """Load everything a run would load; every mistake is an error with its place."""
    harness = context.build()
    config = context.config()
    for definition in (*config.agents.values(), harness.definition(context.agent)):
        hooks = harness.plugins.hooks_for(definition)
        harness.check_tools(definition, hooks)
    for note in (*config.notes, *harness.plugins.notes):
        say(f"note: {note}")
    files = ", ".join(str(path) for path in config.files) or "no files, defaults only"
    on = ", ".join(info.name for info in harness.plugins.infos() if info.state == "on")
    show(f"ok: {files}")
    show(f"agents: {', '.join(config.agents) or 'default'}")
    show(f"model: {harness.options_of(harness.definition(context.agent)).model or 'none'}")
    show(f"plugins: {on}")
    return EXIT_OK


def _show(context: CliContext, *, as_json: bool) -> int:
    from dsh_core.config.show import effective, render

    config = context.config()
    for note in config.notes:
        say(f"note: {note}")
    if as_json:
        show(json.dumps(effective(config), indent=2, ensure_ascii=False))
    else:
        show(render(config).rstrip("\n"))
    return EXIT_OK


def _schema(context: CliContext) -> int:
    from dsh_core.config.json_schema import json_schema
    from dsh_core.harness import Harness
    from dsh_core.plugins.settings import json_schema as settings_schema

    harness = Harness(context.config(), cwd=context.cwd)
    schemas: dict[str, Any] = {}
    for info in harness.plugins.diagnose():
        target = harness.plugins.target(info.name)
        if target is not None:
            schemas[info.name] = settings_schema(getattr(target, "Settings", None))
    show(json.dumps(json_schema(schemas), indent=2))
    return EXIT_OK
