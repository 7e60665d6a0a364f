"""The plugin `plan_mode`: while it is on, nothing runs that could change something."""

# ruff: noqa: D417 - tool docstrings are for the model, which does not see `ctx`

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, cast

from dsh_core import (
    Agent,
    Call,
    Executor,
    Section,
    SlashCommand,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.execution import CanBeReadOnly
from dsh_plan_mode.command import PlanCommand
from dsh_plan_mode.judgement import EXIT_TOOL, denial
from dsh_plan_mode.settings import Settings as PlanSettings
from dsh_plan_mode.state import state_of
from dsh_plan_mode.texts import APPROVED, GUIDANCE, NOT_PLANNING, QUESTION

if TYPE_CHECKING:
    from dsh_core import CliOptions, Harness


class PlanMode:
    """Judges calls by their effects, keeps the state in the log, and lets only people leave."""

    Settings = PlanSettings

    def __init__(self, settings: PlanSettings | None = None):
        self._settings = settings or PlanSettings()
        self._starts_in_plan_mode = self._settings.start

    # ---------------------------------------------------------------- entering and leaving

    @hookimpl
    def cli_register(self, cli: CliOptions) -> None:
        """Offer `--plan`."""
        cli.add_option("--plan", action="store_true", help="look and plan, change nothing")

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        """Read `--plan`, which can tighten and never loosen."""
        given = harness.cli_options.get("plan_mode")
        self._starts_in_plan_mode |= bool(getattr(given, "plan", False))

    @hookimpl
    async def agent_turn_start(self, agent: Agent) -> None:
        """Begin in plan mode where that is asked for, once per agent: the user may leave it."""
        state = state_of(agent)
        if self._starts_in_plan_mode and not state.was_started:
            state.enter(by="start")
        state.was_started = True

    @hookimpl
    def commands_register(self) -> Sequence[SlashCommand]:
        """Offer `/plan`."""
        return [PlanCommand().as_slash_command()]

    @hookimpl
    def tools_register(self) -> Sequence[Tool]:
        """Offer `exit_plan_mode`, in plan mode and out of it: tool schemas stay the same."""
        return [self.exit_plan_mode]

    @tool(read_only=True)
    async def exit_plan_mode(self, plan: str, *, ctx: ToolContext) -> str:
        """Show the finished plan to the user, who decides whether it is carried out.

        Only for plan mode. The plan says what will be changed, where, and how it is checked.

        Args:
            plan: The whole plan, as Markdown.
        """
        state = state_of(ctx.agent)
        if not state.is_active:
            raise ToolError(NOT_PLANNING, code="NOT_IN_PLAN_MODE")
        state.leave(by="approval", turn=ctx.call.turn, step=ctx.call.step)
        return APPROVED

    # ------------------------------------------------------------------------ enforcement

    @hookimpl
    async def tools_authorize(self, agent: Agent, call: Call) -> Verdict | None:
        """Deny what would change something; put the plan to the user."""
        state = state_of(agent)
        if call.name == EXIT_TOOL:
            if state.is_active:
                return Verdict("ask", QUESTION, user_only=True)
            return Verdict("deny", NOT_PLANNING)
        reason = denial(call, self._settings.read_only_tools) if state.covers(call) else None
        return Verdict("deny", reason) if reason is not None else None

    @hookimpl
    async def tools_execute(
        self, agent: Agent, call: Call, *, call_next: Callable[[], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        """Judge again: plan mode may have begun while a person thought about the call."""
        is_covered = state_of(agent).covers(call)
        reason = denial(call, self._settings.read_only_tools) if is_covered else None
        if reason is not None:
            return ToolOutput.error("DENIED", f"denied: {reason}")
        return await call_next()

    @hookimpl
    async def shell_executor(
        self, agent: Agent, *, call_next: Callable[[], Awaitable[Executor]]
    ) -> Executor:
        """Run commands read-only where a sandbox can: a wrong judgement still writes nothing."""
        executor = await call_next()
        if state_of(agent).is_active and isinstance(executor, CanBeReadOnly):
            return cast(CanBeReadOnly, executor).read_only()
        return executor

    @hookimpl(optionalhook=True)
    async def terminal_status(self, agent: Agent) -> str | None:
        """Show in a chat that it is on."""
        return "plan" if state_of(agent).is_active else None

    # ------------------------------------------------------------------ what the model reads

    @hookimpl
    async def system_prompt_sections(self, agent: Agent) -> Sequence[Section] | None:
        """Tell the model, for as long as it lasts; compaction cannot lose this."""
        if not state_of(agent).is_active:
            return None
        return [Section("plan_mode", self._settings.guidance or GUIDANCE, order=150)]


__all__ = ["PlanMode", "PlanSettings"]
