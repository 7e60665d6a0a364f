"""The plugin `permission`: rules for what an agent may do, down to the parts of a shell command."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from dsh_core import Approval, ApprovalRequest, Call, Effect, SlashCommand, Verdict, hookimpl
from dsh_permission.grants import PermissionGranted
from dsh_permission.guard import Guard
from dsh_permission.settings import Settings as PermissionSettings

if TYPE_CHECKING:
    from dsh_core import Agent, CliOptions, Harness

__all__ = ["Permission", "PermissionGranted", "PermissionSettings"]


class Permission:
    """Judges every tool call by the user's rules, and remembers what a person allowed."""

    Settings = PermissionSettings

    def __init__(self, *, settings: PermissionSettings | None = None):
        self._guard = Guard(settings or PermissionSettings())

    @hookimpl
    def cli_register(self, cli: CliOptions) -> None:
        """Let the command line allow more, and choose the mode."""
        cli.add_option(
            "--allow", action="append", default=[], metavar="RULE", help="allow what a rule covers"
        )
        cli.add_option(
            "--permission-mode",
            choices=["default", "accept_edits", "plan", "bypass"],
            help="what happens where no rule matches",
        )

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Refuse rules that can never fire."""
        self._guard.start(harness)

    @hookimpl
    async def harness_stop(self) -> None:
        """End what was started."""
        await self._guard.stop()

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Let searches leave out what must not be read."""
        self._guard.hide_files(agent)

    @hookimpl
    async def tool_effects(self, agent: Agent, call: Call) -> Sequence[Effect] | None:
        """Say what a shell command would do."""
        return await self._guard.effects(agent, call)

    @hookimpl
    async def tools_authorize(self, agent: Agent, call: Call) -> Verdict | None:
        """Judge a call."""
        return await self._guard.verdict(agent, call)

    @hookimpl(wrapper=True)
    def approval_request(
        self, agent: Agent, request: ApprovalRequest
    ) -> Generator[None, Approval, Approval]:
        """Remember the answer, whoever gives it."""
        approval = yield
        self._guard.answered(agent, request, approval)
        return approval

    @hookimpl
    def commands_register(self, harness: Harness) -> Sequence[SlashCommand]:
        """Show the rules."""
        return [SlashCommand("permissions", "Show the mode and every rule", self._guard.described)]
