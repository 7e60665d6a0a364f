"""Registering and unregistering plugins while the harness runs."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from offline import calling, offline

from dsh_core.agents import Agent, StashKey
from dsh_core.commands import SlashCommand
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.errors import AgentError, ConfigError, UserError
from dsh_core.events import ToolResultEvent
from dsh_core.harness import Harness
from dsh_core.hooks import Hooks
from dsh_core.llm import AdapterFactory, ProviderConfig
from dsh_core.marks import OnError, emit, hookimpl
from dsh_core.request import Section
from dsh_core.testing.hooks import spec_module
from dsh_core.tools import Tool, tool


@dataclasses.dataclass(frozen=True)
class Volume:
    volume: int = 1


class Radio:
    """Contributes everything there is."""

    Settings = Volume

    def __init__(self, settings: Volume):
        self.settings = settings
        self.log: list[str] = []

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return [play(self.settings.volume)]

    @hookimpl
    def llm_register(self) -> list[AdapterFactory]:
        return [AdapterFactory("radio", lambda provider: None)]  # type: ignore[arg-type, return-value]

    @hookimpl
    def commands_register(self) -> list[SlashCommand]:
        return [SlashCommand("louder", "Turn it up.", None)]  # type: ignore[arg-type]

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        self.log.append("start")
        harness.prompt.register(Section("radio", "It plays."), owner="radio")
        harness.llm.register_provider(ProviderConfig("waves", "radio"), owner="radio")

    @hookimpl
    async def harness_stop(self, harness: Harness) -> None:
        has_tools = harness.tools.owner_of(f"play_{self.settings.volume}") is not None
        self.log.append("stop with tools" if has_tools else "stop")

    @hookimpl
    def agent_status(self) -> None: ...


def play(volume: int) -> Tool:
    @tool(name=f"play_{volume}")
    async def body() -> str:
        """Make noise."""
        return "noise"

    return body


def contributions(harness: Harness, hooks: Hooks | None = None) -> dict[str, Any]:
    """What of the radio can be seen."""
    hooks = hooks or harness.plugins.base
    return {
        "tools": [name for name in harness.tools.visible(hooks) if name.startswith("play")],
        "providers": [name for name in harness.llm.providers if name == "waves"],
        "commands": [name for name in harness.commands._commands if name == "louder"],
        "sections": [section.name for _, section in harness.prompt._sections],
        "hooks": asked(hooks, "agent_status").count("radio"),
    }


EVERYTHING = {
    "tools": ["play_1"],
    "providers": ["waves"],
    "commands": ["louder"],
    "sections": ["radio"],
    "hooks": 1,
}
NOTHING: dict[str, Any] = {
    "tools": [],
    "providers": [],
    "commands": [],
    "sections": [],
    "hooks": 0,
}


def asked(hooks: Hooks, hook: str) -> list[str]:
    chain = hooks.chain(hook)
    plugins = [one.plugin for one in (*chain.wrappers, *chain.plain)]
    return [name for name in plugins if name != "invariants"]


def state_of(harness: Harness, name: str) -> str | None:
    return {info.name: info.state for info in harness.plugins.infos()}.get(name)


class Hears:
    """Implements `agent_status`."""

    @hookimpl
    def agent_status(self) -> None: ...


# --------------------------------------------------------------------------------- coming


async def test_a_plugin_that_comes_at_run_time_is_started_and_contributes() -> None:
    async with offline() as stage:
        await stage.harness.plugins.register(Radio, "radio")
        assert contributions(stage.harness) == EVERYTHING
        (info,) = [i for i in stage.harness.plugins.infos() if i.name == "radio"]
        assert (info.state, info.distribution) == ("on", "inline")
        assert isinstance(info.plugin, Radio)
        assert info.plugin.log == ["start"]
    assert info.plugin.log == ["start", "stop with tools"]


async def test_before_the_start_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="comes too early: give it to Harness"):
        await Harness(HarnessConfig(autoload=False)).plugins.register(Hears(), "hears")


async def test_loaded_but_not_started_it_waits_for_the_start() -> None:
    harness = Harness(HarnessConfig(autoload=False))
    harness.plugins.load()
    await harness.plugins.register(Radio, "radio")
    (info,) = [i for i in harness.plugins.infos() if i.name == "radio"]
    radio: Any = info.plugin
    assert radio.log == []
    async with harness:
        assert radio.log == ["start"]


async def test_a_plugin_may_register_another_while_it_starts() -> None:
    radios = []

    class Mother:
        @hookimpl
        async def harness_start(self, harness: Harness) -> None:
            radio = Radio(Volume())
            radios.append(radio)
            await harness.plugins.register(radio, "radio")

    async with offline(plugins={"mother": Mother()}):
        assert radios[0].log == ["start"]
    assert radios[0].log == ["start", "stop with tools"]


async def test_late_plugins_are_asked_last_among_plugins_in_the_order_they_came() -> None:
    class Late(Hears):
        @hookimpl
        async def harness_start(self) -> None: ...

    async with offline(plugins={"early": Late()}) as stage:
        await stage.harness.plugins.register(Late(), "z")
        await stage.harness.plugins.register(Late(), "a")
        order = asked(stage.harness.plugins.base, "harness_start")
        assert order.index("early") < order.index("z") < order.index("a")
        assert order.index("a") < order.index("agent_loop")


async def test_the_wishes_of_a_late_plugin_count() -> None:
    class First(Hears):
        before = ("early",)

    async with offline(plugins={"early": Hears()}) as stage:
        await stage.harness.plugins.register(First(), "first")
        assert asked(stage.harness.plugins.base, "agent_status") == ["first", "early"]


async def test_a_name_that_is_on_is_taken_also_a_built_in_one() -> None:
    async with offline(plugins={"hears": Hears()}) as stage:
        for name in ("hears", "retry"):
            with pytest.raises(ConfigError, match=f"a plugin '{name}' is registered already"):
                await stage.harness.plugins.register(Hears(), name)
        assert asked(stage.harness.plugins.base, "agent_status") == ["hears"]


class Broken(Radio):
    """A radio that fails at one point."""

    def __init__(self, settings: Volume, point: str = ""):
        super().__init__(settings)
        self.point = point

    @hookimpl
    def commands_register(self) -> list[SlashCommand]:
        if self.point == "register":
            raise ValueError("no")
        return super().commands_register()

    @hookimpl
    async def harness_start(self, harness: Harness) -> None:
        await super().harness_start(harness)
        if self.point == "start":
            raise ValueError("no")


class Misspelt(Radio):
    @hookimpl
    def agent_statsu(self) -> None: ...


class Cyclic(Radio):
    before = ("other",)
    after = ("other",)


@pytest.mark.parametrize(
    ("plugin", "stopped"),
    [
        (Broken(Volume(), "register"), []),
        (Broken(Volume(), "start"), ["start", "stop"]),
        (Misspelt(Volume()), []),
        (Cyclic(Volume()), []),
    ],
    ids=["contributing", "starting", "signature", "cycle"],
)
async def test_a_late_plugin_that_cannot_work_leaves_nothing(
    plugin: Radio, stopped: list[str]
) -> None:
    async with offline(plugins={"other": Hears()}) as stage:
        hooks = stage.harness.plugins.hooks_for(override())
        with pytest.raises(ConfigError, match="plugin 'radio' \\(inline\\) cannot start"):
            await stage.harness.plugins.register(plugin, "radio")
        assert contributions(stage.harness) == NOTHING
        assert contributions(stage.harness, hooks) == NOTHING
        assert state_of(stage.harness, "radio") is None
        assert plugin.log == stopped
        await stage.harness.plugins.register(Radio(Volume()), "radio")
        assert contributions(stage.harness) == EVERYTHING


def override(**plugins: Any) -> AgentDefinition:
    layers = {name: (Layer("dsh.yaml", values),) for name, values in plugins.items()}
    return AgentDefinition(plugins=layers or {"other": (Layer("dsh.yaml", False),)})


# --------------------------------------------------------------------------------- going


async def test_unregistering_takes_everything_away_everywhere_and_then_stops() -> None:
    async with offline(plugins={"other": Hears()}) as stage:
        harness = stage.harness
        hooks = harness.plugins.hooks_for(override())
        radio = Radio(Volume())
        await harness.plugins.register(radio, "radio")
        assert contributions(harness, hooks) == EVERYTHING
        await harness.plugins.unregister("radio")
        assert contributions(harness) == contributions(harness, hooks) == NOTHING
        assert state_of(harness, "radio") == "off"
        assert radio.log == ["start", "stop"]
        with pytest.raises(UserError, match="no plugin 'radio' is on"):
            await harness.plugins.unregister("radio")
    assert radio.log == ["start", "stop"]


async def test_unregistering_the_loop_empties_the_factory_slot() -> None:
    async with offline() as stage:
        await stage.harness.plugins.unregister("agent_loop")
        with pytest.raises(AgentError, match="no plugin creates agents"):
            stage.harness.agents.create()


async def test_a_plugin_that_fails_to_stop_is_gone_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stuck(Hears):
        @hookimpl
        async def harness_stop(self) -> None:
            raise OSError("stuck")

    async with offline(plugins={"stuck": Stuck()}) as stage:
        await stage.harness.plugins.unregister("stuck")
        assert asked(stage.harness.plugins.base, "agent_status") == []
    assert caplog.text.count("plugin 'stuck' in harness_stop: OSError: stuck") == 1


async def test_a_turn_that_runs_finishes_with_the_plugin_and_the_next_one_goes_without() -> None:
    inside, release = asyncio.Event(), asyncio.Event()
    judged = []

    class Guards:
        @hookimpl
        def tools_register(self) -> list[Tool]:
            @tool
            async def work() -> str:
                """Work."""
                inside.set()
                await release.wait()
                return "done"

            return [work]

        @hookimpl
        async def tools_execute(self, *, call_next: Any) -> Any:
            result = await call_next()
            judged.append("around")
            return result

    async with offline(
        calling("work"), "finished", calling("work"), "really", plugins={"guards": Guards()}
    ) as stage:
        running = asyncio.create_task(stage.agent.run("go"))
        await inside.wait()
        await stage.harness.plugins.unregister("guards")
        release.set()
        assert (await running).text == "finished"
        assert judged == ["around"]
        await stage.agent.run("again")
        first, second = stage.logged(ToolResultEvent)
        assert not first.is_error
        assert (second.is_error, second.code) == (True, "UNKNOWN_TOOL")
        assert judged == ["around"]


async def test_a_reloaded_plugin_gets_its_old_place_and_its_settings() -> None:
    config = HarnessConfig(autoload=False, plugins={"radio": (Layer("dsh.yaml", {"volume": 6}),)})
    plugins = {"a": Hears(), "radio": Radio, "z": Hears()}
    async with offline(plugins=plugins, config=config) as stage:
        registrar = stage.harness.plugins
        await registrar.unregister("radio")
        assert asked(registrar.base, "agent_status") == ["a", "z"]
        await registrar.register(Radio, "radio")
        assert asked(registrar.base, "agent_status") == ["a", "radio", "z"]
        (info,) = [i for i in registrar.infos() if i.name == "radio"]
        assert info.settings == Volume(6)


async def test_agents_keep_their_overrides_of_a_plugin_that_is_reloaded() -> None:
    async with offline("hi", plugins={"radio": Radio}) as stage:
        harness = stage.harness
        off = harness.plugins.hooks_for(override(radio=False))
        loud = harness.agents.create(override(radio={"volume": 8}))
        await loud.run("go")
        old: Any = loud.hooks.manager.get_plugin("radio")
        await harness.plugins.unregister("radio")
        assert old.log == ["start", "stop"]
        await harness.plugins.register(Radio, "radio")
        assert not off.manager.has_plugin("radio")
        assert list(harness.tools.visible(off)) == []
        assert list(harness.tools.visible(loud.hooks)) == ["play_8"]
        new: Any = loud.hooks.manager.get_plugin("radio")
        assert (new.settings, new.log) == (Volume(8), [])


async def test_hooks_a_plugin_brought_go_and_come_with_it() -> None:
    @emit(OnError.REPORT)
    def plan_changed() -> None: ...

    heard = []

    class Planner:
        hookspecs = spec_module("plans", plan_changed)

    class HearsPlans:
        @hookimpl
        def plan_changed(self) -> None:
            heard.append("plan")

    async with offline(plugins={"planner": Planner(), "hears": HearsPlans()}) as stage:
        registrar = stage.harness.plugins
        hooks = registrar.hooks_for(override(hears=False))
        await registrar.unregister("planner")
        assert "plan_changed" not in registrar.base.modes
        assert "plan_changed" not in hooks.modes
        registrar.base.emit(plan_changed)
        await registrar.register(Hears(), "unrelated")
        await registrar.register(Planner(), "planner")
        registrar.base.emit(plan_changed)
        assert heard == ["plan"]


async def test_stopping_the_harness_stops_what_came_late_once() -> None:
    radio = Radio(Volume())
    async with offline() as stage:
        await stage.harness.plugins.register(radio, "radio")
    assert radio.log == ["start", "stop with tools"]


async def test_what_agents_stash_under_a_plugins_name_goes_after_it_stopped() -> None:
    mine, own = StashKey[int]("it.mine"), StashKey[int]("item.own")
    seen: list[bool] = []

    class Keeps:
        @hookimpl
        async def agent_turn_start(self, agent: Agent) -> None:
            agent.stash[mine] = agent.stash[own] = 1

        @hookimpl
        async def harness_stop(self, harness: Harness) -> None:
            seen.extend(mine in agent.stash for agent in harness.agents.list())

    async with offline("Hi.", plugin=Keeps()) as it:
        await it.agent.run("Hi.")
        await it.harness.plugins.unregister("it")

        assert seen == [True]
        assert (mine in it.agent.stash, own in it.agent.stash) == (False, True)
