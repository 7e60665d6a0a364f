"""`dsh plugins check`: what an author got wrong, one line each, and an exit code for CI."""

from __future__ import annotations

import json

from dsh_core.cli.context import CliContext, show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK
from dsh_core.cli.screen import printable


def check_plugins(wanted: str, context: CliContext, *, as_json: bool) -> int:
    """Check the plugins that a path or a name means; 0 when nothing was found, else 1.

    Raises `UserError` when it means none.
    """
    from dsh_core.testing.checkup import check, subjects

    found = {one.name: check(one, context.config()) for one in subjects(wanted, context.cwd)}
    if as_json:
        rows = {name: [one.to_json() for one in findings] for name, findings in found.items()}
        show(json.dumps(rows, indent=2))
    else:
        for name, findings in found.items():
            for one in findings:
                show(printable(f"{name}: {one.rule}: {one.message}"))
                if one.remedy:
                    show(printable(f"    → {one.remedy}"))
            if not findings:
                show(f"{name}: nothing is wrong with it")
    return EXIT_FAILED if any(found.values()) else EXIT_OK
