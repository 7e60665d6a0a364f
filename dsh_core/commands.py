"""Slash commands: what people tell the harness, and the model never sees."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from dsh_core.errors import UserError
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents import Agent

NAME = re.compile(r"[a-z][a-z0-9_-]*")


@record()
class SlashCommand:
    """A command by its name without the slash.

    Args:
        name: Lower-case letters, digits, `_` and `-`.
        description: One line for `/help`.
        run: Called with the agent and the text after the name; returns what the person reads.
            Raises `UserError` for wrong input.

    """

    name: str
    description: str
    run: Callable[[Agent, str], Awaitable[str]]


class Commands:
    """The slash commands of a harness, with who brought them."""

    def __init__(self) -> None:
        self._commands: dict[str, tuple[str, SlashCommand]] = {}

    def register(self, command: SlashCommand, *, owner: str) -> Callable[[], None]:
        """Add a command; returns a disposer. Raises `UserError` on a bad or taken name."""
        if not NAME.fullmatch(command.name):
            raise UserError(f"{command.name!r} cannot be a command's name", where=owner)
        taken = self._commands.get(command.name)
        if taken is not None:
            raise UserError(f"/{command.name} exists already, from {taken[0]!r}", where=owner)
        entry = (owner, command)
        self._commands[command.name] = entry

        def dispose() -> None:
            if self._commands.get(command.name) is entry:
                del self._commands[command.name]

        return dispose

    def remove_owner(self, owner: str) -> None:
        """Take away everything an owner registered."""
        self._commands = {n: e for n, e in self._commands.items() if e[0] != owner}

    def list(self, agent: Agent) -> list[SlashCommand]:
        """Return the commands of the plugins that are on for an agent, by name."""
        is_on = agent.harness.plugins.is_on
        return [
            command
            for _, (owner, command) in sorted(self._commands.items())
            if is_on(owner, agent.hooks)
        ]

    async def execute(self, agent: Agent, line: str) -> str | None:
        """Run `/name rest`; None when there is no such command.

        Raises what the command raises.
        """
        name, _, rest = line.removeprefix("/").partition(" ")
        for command in self.list(agent):
            if command.name == name:
                return await command.run(agent, rest.strip())
        return None
