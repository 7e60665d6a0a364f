"""The built-in plugin `agent_loop`: the only concrete loop code of the core.

Switch it off and install another factory through `harness.agents.set_factory` to replace it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core.marks import hookimpl
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents import AgentOptions
    from dsh_core.harness import Harness
    from dsh_core.hooks import Hooks
    from dsh_core.loop.agent import LoopAgent
    from dsh_core.session import Session, SessionLock


class AgentLoop:
    """Fills the agent factory slot while it is registered."""

    @record()
    class Settings:
        """How the loop treats what does not end."""

        grace_seconds: float = 5.0
        """How long a cancelled tool may take to end before it is abandoned. Enough for a shell
        command to die of TERM and then KILL."""

    def __init__(self, settings: Settings):
        self.settings = settings

    @hookimpl
    def harness_start(self, harness: Harness) -> None:
        """Take the factory slot."""
        harness.agents.set_factory(self, owner="agent_loop")

    def build(
        self,
        harness: Harness,
        session: Session,
        *,
        name: str,
        options: AgentOptions,
        hooks: Hooks,
        cwd: Path,
        lock: SessionLock | None,
    ) -> LoopAgent:
        """Return an agent that is not started."""
        from dsh_core.loop.agent import LoopAgent

        return LoopAgent(
            harness,
            session,
            name=name,
            options=options,
            hooks=hooks,
            cwd=cwd,
            lock=lock,
            grace_seconds=self.settings.grace_seconds,
        )
