"""What plugins may add to the command line through `cli_register`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

from dsh_core.errors import UserError

FrontEnd: TypeAlias = Callable[[Callable[[str], None]], object]


class CliOptions:
    """Collects options for `dsh run` and `dsh chat`, by plugin.

    The hook is called for one plugin at a time; `values` hands each plugin its own.
    """

    def __init__(self, parser: argparse.ArgumentParser):
        self._parser = parser
        self._owner = ""
        self._owned: dict[str, list[str]] = {}
        self.front_end: FrontEnd | None = None

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

    def offer_front_end(self, front_end: FrontEnd) -> None:
        """Offer to show `dsh run` to a person at a terminal, in place of the core's plain text.

        `front_end(write)` is called where there is one, and returns a plugin object; `write` takes
        text that was made harmless. The last offer counts.
        """
        self.front_end = front_end

    def values(self, parsed: argparse.Namespace) -> dict[str, argparse.Namespace]:
        """Return plugin name → the values of its options."""
        return {
            owner: argparse.Namespace(**{name: getattr(parsed, name) for name in names})
            for owner, names in self._owned.items()
        }
