"""`dsh config check|show|schema`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dsh_core.cli.context import CliContext, say_note, show
from dsh_core.cli.main import EXIT_OK, Parser
from dsh_core.errors import ConfigError


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
    """Load everything a run would load; every mistake is an error with its place.

    What only a run needs, a key or a model, is a note: a check must pass where there is no key.
    """
    harness = context.build()
    config = context.config()
    harness.llm.open_all()
    notes = [*config.notes, *harness.plugins.notes]
    definitions = list(config.agents.values()) or [harness.definition(None)]
    if context.agent is not None:
        definitions = [harness.definition(context.agent)]
    for definition in definitions:
        hooks = harness.plugins.hooks_for(definition)
        harness.check_tools(definition, hooks)
        harness.tools.schemas(hooks, definition.tools)
        try:
            context.check_model(harness, definition)
        except ConfigError as error:
            notes.append(f"agent {definition.name} cannot run yet: {error}")
    for note in notes:
        say_note(note)
    files = ", ".join(str(path) for path in config.files) or "no files, defaults only"
    on = ", ".join(info.name for info in harness.plugins.infos() if info.state == "on")
    show(f"ok: {files}")
    show(f"agents: {', '.join(config.agents) or 'default'}")
    for definition in definitions:
        show(f"model of {definition.name}: {harness.options_of(definition).model or 'none'}")
    show(f"plugins: {on}")
    return EXIT_OK


def _show(context: CliContext, *, as_json: bool) -> int:
    from dsh_core.config.show import effective, render
    from dsh_core.harness import Harness
    from dsh_core.plugins.in_force import in_force

    config = in_force(Harness(context.config(), cwd=context.cwd))
    for note in config.notes:
        say_note(note)
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
