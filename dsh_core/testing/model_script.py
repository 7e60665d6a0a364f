"""Scripts for the model server in YAML, and the command that serves one.

::

    - call: {name: bash, arguments: {command: ls}}
    - rate_limit: {retry_after: 2}
    - server_error
    - reply: That is a README.

An item is the name of a behaviour (`dsh_core.testing.behaviours`), or its name with its first
argument, or its name with all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from dsh_core.errors import ConfigError, UserError
from dsh_core.testing.behaviours import BEHAVIOURS, reply
from dsh_core.testing.exchange import Behaviour
from dsh_core.testing.model_server import ModelServer


def read_script(path: Path) -> list[Behaviour]:
    """Read a script. Raises `ConfigError` naming the file and the item."""
    import yaml

    try:
        items = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"is not YAML: {error}", where=str(path)) from None
    if not isinstance(items, list):
        remedy = "Write one behaviour per item, as in `- reply: Hello`."
        raise ConfigError("expected a list of behaviours", where=str(path), remedy=remedy)
    return [_behaviour(item, f"{path}, item {n}") for n, item in enumerate(items, start=1)]


def _behaviour(item: Any, where: str) -> Behaviour:
    from pydantic import ValidationError, validate_call

    name: Any = item
    argument: Any = {}
    if isinstance(item, dict) and len(item) == 1:
        ((name, argument),) = item.items()
    if not isinstance(name, str) or name not in BEHAVIOURS:
        remedy = f"Behaviours are {', '.join(BEHAVIOURS)}."
        raise ConfigError(f"{item!r} is no behaviour", where=where, remedy=remedy)
    make = validate_call(BEHAVIOURS[name])
    try:
        return make(**argument) if isinstance(argument, dict) else make(argument)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(step) for step in first["loc"])
        raise ConfigError(f"{name}: {path}: {first['msg']}", where=where) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a script until interrupted; prints the URL, then a line per request."""
    parser = argparse.ArgumentParser(
        prog="python -m dsh_core.testing.model_server",
        description="A model server that says what its script says, for trying a product on it.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("script", nargs="?", type=Path, help="YAML list of behaviours")
    source.add_argument("--say", metavar="TEXT", help="answer TEXT to every request")
    parser.add_argument("--port", type=int, default=0, help="0 = a free one (default)")
    parser.add_argument("--strict", action="store_true", help="refuse what a provider would refuse")
    options = parser.parse_args(argv)
    try:
        script = read_script(options.script) if options.script else []
        default = None if options.say is None else reply(options.say)
        server = ModelServer(script, default=default, strict=options.strict, port=options.port)
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(server))
    except (UserError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


async def _serve(server: ModelServer) -> None:
    async with server:
        _say(server.base_url)
        shown = 0
        while True:
            await server.until(partial(_any_settled, server, shown), timeout_seconds=None)
            for request in server.requests[shown : _settled(server)]:
                _say(repr(request))
                shown += 1


def _settled(server: ModelServer) -> int:
    """How many requests, from the first on, are over."""
    states = [request.state for request in server.requests]
    return states.index("open") if "open" in states else len(states)


def _any_settled(server: ModelServer, shown: int) -> bool:
    return _settled(server) > shown


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
