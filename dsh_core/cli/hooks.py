"""`dsh hooks`: the hooks in the order a run meets them, and who implements them."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Sequence
from typing import Any

from dsh_core.cli.context import CliContext, show
from dsh_core.cli.main import EXIT_OK, Parser
from dsh_core.errors import UserError
from dsh_core.hooks import Hooks
from dsh_core.hooks.chain import Chain, Implementation


def command(argv: Sequence[str], context: CliContext) -> int:
    """List all hooks, or tell about one."""
    parser = Parser(prog="dsh hooks", description="List hooks and who implements them.")
    parser.add_argument("name", nargs="?", help="tell about this hook")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    harness = context.build()
    hooks = harness.plugins.hooks_for(harness.definition(context.agent))
    names = list(hooks.modes)
    if arguments.name is not None:
        names = [_known(arguments.name, names)]
    facts = [_facts(hooks, name) for name in names]
    if arguments.json:
        show(json.dumps(facts, indent=2))
    elif arguments.name is not None:
        _one(facts[0])
    else:
        for fact in facts:
            who = ", ".join(one["plugin"] for one in fact["implementations"]) or "-"
            show(f"{fact['name']:<26} {fact['mode']:<10} {who}")
    return EXIT_OK


def _known(name: str, names: Sequence[str]) -> str:
    wanted = name.replace("/", "_").replace("-", "_")
    if wanted in names:
        return wanted
    near = difflib.get_close_matches(wanted, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else "`dsh hooks` lists them."
    raise UserError(f"there is no hook {name!r}", remedy=hint)


def _facts(hooks: Hooks, name: str) -> dict[str, Any]:
    mode = hooks.modes[name]
    chain = hooks.chain(name)
    spec = hooks.spec(name)
    return {
        "name": name,
        "mode": mode.kind,
        "async": mode.is_async,
        "on_error": mode.on_error.name,
        "arguments": list(mode.arguments),
        "replaceable": sorted(mode.replaceable),
        "doc": inspect.getdoc(spec) or "",
        "implementations": [_implementation(chain, one) for one in (*chain.wrappers, *chain.plain)],
    }


def _implementation(chain: Chain, one: Implementation) -> dict[str, Any]:
    kind = "wrapper" if one in chain.wrappers else "call_next" if one.wraps else "plain"
    code = inspect.unwrap(one.function).__code__
    return {
        "plugin": one.plugin,
        "kind": kind,
        "where": f"{code.co_filename}:{code.co_firstlineno}",
    }


def _one(fact: dict[str, Any]) -> None:
    colour = "async " if fact["async"] else ""
    show(f"{colour}def {fact['name']}({', '.join(fact['arguments'])})")
    show(f"mode: {fact['mode']}, a plugin that raises: {fact['on_error']}")
    show()
    show(fact["doc"])
    show()
    show("implementations, in call order:")
    for one in fact["implementations"]:
        show(f"  {one['plugin']} ({one['kind']})  {one['where']}")
    if not fact["implementations"]:
        show("  none")
