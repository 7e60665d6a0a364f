"""The plugin at work in a real harness."""

from __future__ import annotations

from dsh_core import (
    Agent,
    Harness,
    HarnessConfig,
    ModelConfig,
    ProviderConfig,
    Text,
    hookimpl,
    tool,
)
from dsh_core.events import ToolResultEvent
from dsh_core.testing import assert_balanced
from dsh_invariants import Invariants


@tool
async def noop() -> str:
    """Do nothing."""
    return "done"


class Meddler:
    """Answers a call that nobody made."""

    @hookimpl
    def tools_register(self) -> list[object]:
        return [noop]

    @hookimpl
    async def agent_step_start(self, agent: Agent, turn: int, step: int) -> None:
        if step == 2:
            agent.session.append(ToolResultEvent(turn, step, "ghost", (Text("boo"),)))


def harness(*plugins: object) -> Harness:
    replies = [{"calls": [{"name": "noop"}]}, "All done.", "Again."]
    model = ProviderConfig(
        "offline", "scripted", models={"m": ModelConfig()}, options={"replies": replies}
    )
    config = HarnessConfig(autoload=False)
    return Harness(config, plugins=[Invariants(), *plugins], providers=[model])


class Tools:
    @hookimpl
    def tools_register(self) -> list[object]:
        return [noop]


async def test_a_well_behaved_run_passes() -> None:
    async with harness(Tools()) as running:
        agent = running.agents.create()
        result = await agent.run("Go.")
        agent.inject("by the way")

    assert result.text == "All done."
    assert_balanced(agent.session.events)


async def test_a_plugin_that_breaks_a_rule_ends_the_turn_and_is_named() -> None:
    async with harness(Meddler()) as running:
        agent = running.agents.create()
        broken = await agent.run("Go.")
        assert_balanced(agent.session.events)

    assert broken.reason.type == "error"
    assert "ghost" in str(broken.reason)
