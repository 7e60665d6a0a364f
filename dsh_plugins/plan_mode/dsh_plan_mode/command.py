"""`/plan`: how a person enters and leaves plan mode."""

from __future__ import annotations

from dsh_core import Agent, PluginSource, SlashCommand
from dsh_plan_mode.state import state_of
from dsh_plan_mode.texts import ENTERED, LEFT

OFF = "off"


class PlanCommand:
    """`/plan`, `/plan TEXT` and `/plan off`."""

    def as_slash_command(self) -> SlashCommand:
        """Return what front ends offer."""
        return SlashCommand("plan", "Plan and change nothing: /plan [what], /plan off.", self.run)

    async def run(self, agent: Agent, rest: str) -> str:
        """Enter, enter and send the text, or leave; return what the person reads."""
        if rest == OFF:
            return self._leave(agent)
        was_off = state_of(agent).enter(by="command")
        if was_off:
            _tell(agent, ENTERED)
        if rest:
            agent.steer(rest)
        return "Plan mode is on." if was_off else "Plan mode is on already."

    def _leave(self, agent: Agent) -> str:
        if not state_of(agent).leave(by="command"):
            return "Plan mode is not on."
        _tell(agent, LEFT)
        return "Plan mode is off."


def _tell(agent: Agent, text: str) -> None:
    """Tell a model that has seen the other state; a new conversation needs no notice."""
    if agent.session.messages():
        agent.inject(text, source=PluginSource("plan_mode", "notice"))
