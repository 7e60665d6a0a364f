"""What plugins may add to the command line through `cli_register`."""

from __future__ import annotations

import argparse
from typing import Any

from dsh_core.errors import UserError


class CliOptions:
    """Collects options for `dsh run` and `dsh chat`, by plugin.

    The hook is called for one plugin at a time; `values` hands each plugin its own.
    """

    def __init__(self, parser: argparse.ArgumentParser):
        self._parser = parser
        self._owner = ""
        self._owned: dict[str, list[str]] = {}

    def owned_by(self, owner: str) -> None:
        """Attribute what is added from here on to a plugin."""
        self._owner = owner

    def add_option(self, *flags: str, **details: Any) -> None:
        """Add an option as argparse's `add_argument` does; only long flags, no positionals.

        Raises `UserError` when the option exists already.
        """
        if not flags or not all(flag.startswith("--") for flag in flags):
            raise UserError(f"plugin {self._owner!r} may add long options only, not {flags}")
        group = self._parser
        try:
            action = group.add_argument(*flags, **details)
        except argparse.ArgumentError as error:
            raise UserError(f"plugin {self._owner!r}: {error}") from error
        self._owned.setdefault(self._owner, []).append(action.dest)

    def values(self, parsed: argparse.Namespace) -> dict[str, argparse.Namespace]:
        """Return plugin name → the values of its options."""
        return {
            owner: argparse.Namespace(**{name: getattr(parsed, name) for name in names})
            for owner, names in self._owned.items()
        }
