"""The contract of a slash command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from dsh_core.errors import UserError
from dsh_core.testing.contracts.in_loop import in_loop
from dsh_core.testing.offline import offline_harness

ODD = ("", " ", "\x00", "--help", "ä" * 5000, "'\"$(id)`\\", "-1", "\n\n/x")
"""What people type, by mistake too."""


class CommandContract:
    """What every slash command does: it answers people, and the model sees nothing of it.

    Attributes:
        name: Without the slash.
        rest: What comes after the name, in a call that succeeds.

    """

    name: ClassVar[str]
    rest: ClassVar[str] = ""

    def plugin(self) -> object:
        """Return a new plugin that brings the command."""
        raise NotImplementedError

    @in_loop
    async def test_it_is_listed_with_a_description(self, tmp_path: Path) -> None:
        """People find it."""
        async with self._offline(tmp_path) as offline:
            commands = {one.name: one for one in offline.harness.commands.list(offline.agent)}
        assert self.name in commands, f"there is no /{self.name}"
        assert commands[self.name].description.strip()

    @in_loop
    async def test_it_answers_with_text_and_asks_the_model_nothing(self, tmp_path: Path) -> None:
        """On an agent that has said something, and on a new one."""
        async with self._offline(tmp_path) as offline:
            new = offline.harness.agents.create()
            await offline.agent.run("Hi.")
            requests = len(offline.requests)
            for agent in (new, offline.agent):
                messages = agent.session.messages()
                said = await offline.harness.commands.execute(agent, f"/{self.name} {self.rest}")
                assert isinstance(said, str), f"/{self.name} answered with {type(said).__name__}"
                assert agent.session.messages() == messages
            assert len(offline.requests) == requests

    @in_loop
    async def test_it_takes_whatever_people_type(self, tmp_path: Path) -> None:
        """An answer or a `UserError`, which front ends print; nothing else."""
        async with self._offline(tmp_path) as offline:
            for rest in ODD:
                try:
                    await offline.harness.commands.execute(offline.agent, f"/{self.name} {rest}")
                except UserError:
                    continue
                except Exception as error:  # noqa: BLE001 - any other is what this test is about
                    pytest.fail(f"/{self.name} {rest!r} raised {error!r}")
            assert (await offline.agent.run("Hi.")).is_success

    def _offline(self, cwd: Path) -> Any:
        return offline_harness(*["Hi."] * 3, plugin=self.plugin(), cwd=cwd)
