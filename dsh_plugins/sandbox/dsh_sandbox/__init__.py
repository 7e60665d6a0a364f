"""The plugin `sandbox`: commands of agents run confined by the system, whoever starts them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core import Call, Executor, StashKey, ToolOutput, hookimpl
from dsh_sandbox.choice import Choice, choose
from dsh_sandbox.executor import Outcome, RefusingExecutor, SandboxExecutor
from dsh_sandbox.results import told
from dsh_sandbox.settings import Settings as SandboxSettings
from dsh_sandbox.status import SandboxRestored, SandboxStatus, Status
from dsh_sandbox.workshop import Workshop
from dsh_sandbox.zone import resolved, zone_of

if TYPE_CHECKING:
    from dsh_core import Agent, EventData

__all__ = ["Sandbox", "SandboxRestored", "SandboxSettings", "SandboxStatus"]

log = logging.getLogger("dsh.sandbox")

ROOT: StashKey[Path] = StashKey("sandbox.root")
WARNED: StashKey[bool] = StashKey("sandbox.warned")

_OUTCOMES: ContextVar[list[Outcome] | None] = ContextVar("sandbox_outcomes", default=None)
"""What became known of commands during the tool call that runs now."""

_SWITCHED_OFF = Choice(None, Status("off", "none", reason='`mode: "off"` is set'))


class Sandbox:
    """Confines commands with bubblewrap or Landlock, and seccomp."""

    Settings = SandboxSettings

    def __init__(self, settings: SandboxSettings | None = None):
        self._settings = settings or SandboxSettings()
        self._workshop = Workshop()
        self._choosing: asyncio.Task[Choice] | None = None

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Remember where the agent works: nothing it does later moves the walls."""
        agent.stash[ROOT] = resolved(agent.cwd)

    @hookimpl
    async def shell_executor(self, agent: Agent, *, call_next: Any) -> Executor:
        """Wrap whatever runs commands."""
        inner: Executor = await call_next()
        choice = await self._chosen()
        if choice.status.backend == "none" and self._settings.required:
            return RefusingExecutor(choice.status.reason)
        self._warn(agent, choice.status)
        if choice.backend is None:
            self._heard(agent, Outcome(None))
            return inner
        zone = zone_of(agent.stash.get(ROOT, None) or resolved(agent.cwd), self._settings)
        zone = replace(zone, visible=(*zone.visible, *agent.harness.readable_roots()))
        return SandboxExecutor(
            inner, choice.backend, zone, self._workshop, lambda outcome: self._heard(agent, outcome)
        )

    @hookimpl
    async def tools_execute(self, call: Call, *, call_next: Any) -> ToolOutput:
        """Say in the result what its commands could do."""
        outcomes: list[Outcome] = []
        token = _OUTCOMES.set(outcomes)
        try:
            output: ToolOutput = await call_next()
        finally:
            _OUTCOMES.reset(token)
        if self._choosing is None or not self._choosing.done():
            return output
        return told(output, outcomes, self._choosing.result().status)

    @hookimpl
    async def harness_stop(self) -> None:
        """Remove what commands left in their `/tmp`, and what stood in for missing files."""
        if self._choosing is not None:
            await asyncio.wait([self._choosing])
        self._workshop.close()

    def status_lines(self) -> Sequence[str]:
        """Return what `dsh plugins info sandbox` says of this system."""
        return self._choose().status.lines()

    async def _chosen(self) -> Choice:
        """Probe when the first command is to run: a run without commands does not pay for it."""
        if self._choosing is None:
            work = asyncio.to_thread(self._choose)
            self._choosing = asyncio.get_running_loop().create_task(work)
        return await asyncio.shield(self._choosing)

    def _choose(self) -> Choice:
        off = self._settings.mode == "off"
        return _SWITCHED_OFF if off else choose(self._settings.backend)

    def _warn(self, agent: Agent, status: Status) -> None:
        is_fine = status.enforcement == "full" or status.backend == "off"
        if not is_fine and not agent.stash.get(WARNED, False):
            agent.stash[WARNED] = True
            event = SandboxStatus(status.backend, status.enforcement, status.missing, status.reason)
            self._record(agent, event)

    def _heard(self, agent: Agent, outcome: Outcome) -> None:
        outcomes = _OUTCOMES.get()
        if outcomes is not None:
            outcomes.append(outcome)
        if outcome.failure:
            log.error("sandbox: a command was not started: %s", outcome.failure)
        if outcome.restored:
            self._record(agent, SandboxRestored(outcome.restored))

    def _record(self, agent: Agent, event: EventData) -> None:
        log.warning("sandbox: %s", event.notice)
        if agent.status != "disposed":
            agent.session.record(event)
