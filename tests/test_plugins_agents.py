"""Agents that switch plugins off or override their settings."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any, ClassVar

import pytest
from offline import offline

from dsh_core import hookspecs
from dsh_core.commands import SlashCommand
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.errors import ConfigError
from dsh_core.events import ErrorEvent
from dsh_core.harness import Harness
from dsh_core.hooks import Hooks
from dsh_core.llm import AdapterFactory
from dsh_core.marks import OnError, emit, hookimpl
from dsh_core.plugins import ADD
from dsh_core.request import Section
from dsh_core.testing.hooks import spec_module
from dsh_core.tools import Tool, tool

NAMED_ONLY = HarnessConfig(autoload=False)


@dataclasses.dataclass(frozen=True)
class Volume:
    volume: int = 1
    deny: Annotated[tuple[str, ...], ADD] = ()


def tool_named(name: str) -> Tool:
    @tool(name=name, read_only=True)
    def body() -> str:
        """Make noise."""
        return name

    return body


class Radio:
    """A plugin that contributes everything, and notes what happens to each of its instances."""

    Settings = Volume
    made: ClassVar[list[Radio]]

    def __init__(self, settings: Volume):
        self.settings = settings
        self.log: list[str] = []
        self.fails_to_start = False
        self.made.append(self)

    @hookimpl
    def tools_register(self) -> list[Tool]:
        self.log.append("tools")
        return [tool_named("play"), tool_named(f"volume_{self.settings.volume}")]

    @hookimpl
    def llm_register(self) -> list[AdapterFactory]:
        self.log.append("llm")
        return []

    @hookimpl
    def commands_register(self) -> list[SlashCommand]:
        self.log.append("commands")

        async def louder(agent: Any, rest: str) -> str:
            return "louder"

        return [SlashCommand("louder", "Turn it up.", louder)]

    @hookimpl
    async def session_store(self) -> None:
        self.log.append("store")

    @hookimpl
    async def harness_start(self) -> None:
        self.log.append("start")
        await asyncio.sleep(0)
        if self.fails_to_start:
            raise ValueError("no power")

    @hookimpl
    async def harness_stop(self) -> None:
        self.log.append("stop")

    @hookimpl
    def tools_change(self) -> None:
        self.log.append("change")

    @hookimpl
    async def system_prompt_sections(self) -> list[Section]:
        return [Section("radio", f"volume {self.settings.volume}")]


@pytest.fixture
def radio() -> type[Radio]:
    """The class, with the instances made in this test in `made`, oldest first."""

    class Fresh(Radio):
        made: ClassVar[list[Radio]] = []

    return Fresh


def agent(name: str = "coder", **plugins: Any) -> AgentDefinition:
    """A definition; a plugin's value is False or a mapping of settings."""
    layers = {
        plugin: (Layer("dsh.yaml", values, lines={"": 9}),) for plugin, values in plugins.items()
    }
    return AgentDefinition(name, plugins=layers)


def hooks_of(harness: Harness, **plugins: Any) -> Hooks:
    return harness.plugins.hooks_for(agent(**plugins))


def asked(hooks: Hooks, hook: str) -> list[str]:
    return [one.plugin for one in hooks.chain(hook).plain]


class Hears:
    """Implements one sync and one async hook, to show its place."""

    def __init__(self) -> None:
        self.heard = 0

    @hookimpl
    def tools_change(self) -> None:
        self.heard += 1

    @hookimpl
    async def harness_start(self) -> None: ...


# -------------------------------------------------------------------------------- sharing


async def test_agents_without_overrides_share_the_harnesss_hooks(radio: type[Radio]) -> None:
    async with offline(plugins={"radio": radio}) as stage:
        plugins = stage.harness.plugins
        assert plugins.hooks_for(AgentDefinition()) is plugins.base
        assert hooks_of(stage.harness, radio={}) is plugins.base
        assert len(radio.made) == 1


async def test_equal_overrides_share_hooks_wherever_they_are_written(radio: type[Radio]) -> None:
    async with offline(plugins={"radio": radio, "other": Hears()}) as stage:
        first = hooks_of(stage.harness, radio={"volume": 2, "deny": ["a"]}, other=False)
        other = Layer("user.yaml", {"deny": ["a"], "volume": 2}, lines={"volume": 77})
        again = AgentDefinition(
            "reviewer", plugins={"other": (Layer("x", False),), "radio": (other,)}
        )
        assert stage.harness.plugins.hooks_for(again) is first
        assert hooks_of(stage.harness, radio={"volume": 3}) is not first
        assert hooks_of(stage.harness, radio={"volume": 2}) is not first
        assert hooks_of(stage.harness, radio={"volume": True}) is not hooks_of(
            stage.harness, radio={"volume": 1}
        )


async def test_other_plugins_are_the_same_instances_in_the_same_order(radio: type[Radio]) -> None:
    before, after = Hears(), Hears()
    plugins = {"before": before, "radio": radio, "after": after}
    async with offline(plugins=plugins) as stage:
        hooks = hooks_of(stage.harness, radio={"volume": 5})
        base = stage.harness.plugins.base
        assert asked(hooks, "tools_change") == asked(base, "tools_change")
        assert asked(hooks, "tools_change")[:3] == ["before", "radio", "after"]
        assert hooks.manager.get_plugin("before") is before
        assert hooks.manager.get_plugin("radio") is radio.made[1]
        assert base.manager.get_plugin("radio") is radio.made[0]


async def test_an_override_is_merged_onto_the_harnesss_settings(radio: type[Radio]) -> None:
    config = HarnessConfig(
        autoload=False,
        plugins={"radio": (Layer("user.yaml", {"volume": 4, "deny": ["a"]}),)},
    )
    async with offline(plugins={"radio": radio}, config=config) as stage:
        hooks_of(stage.harness, radio={"deny": ["b"]})
        base, override = radio.made
        assert base.settings == Volume(4, ("a",))
        assert override.settings == Volume(4, ("a", "b"))


# -------------------------------------------------------------------------------- mistakes


async def test_an_override_that_does_not_fit_names_its_place_and_leaves_nothing(
    radio: type[Radio],
) -> None:
    async with offline(plugins={"radio": radio}) as stage:
        with pytest.raises(
            ConfigError, match=r"dsh\.yaml:9: agents\.coder\.plugins\.radio\.volume"
        ):
            hooks_of(stage.harness, radio={"volume": "high"})
        (info,) = [i for i in stage.harness.plugins.infos() if i.name == "radio"]
        assert info.state == "on"
        assert info.settings == Volume()


async def test_settings_of_a_plugin_that_is_off_are_refused() -> None:
    config = HarnessConfig(autoload=False, plugins={"radio": (Layer("user.yaml", False),)})
    async with offline(plugins={"radio": Radio}, config=config) as stage:
        with pytest.raises(ConfigError) as caught:
            hooks_of(stage.harness, radio={"volume": 2})
        assert str(caught.value).startswith(
            "dsh.yaml:9: agents.coder.plugins.radio: plugin 'radio' is not on"
        )
        assert hooks_of(stage.harness, radio=False) is stage.harness.plugins.base


@pytest.mark.parametrize("config", [{"blocked": frozenset({"absent"})}, {"safe": True}])
async def test_what_the_command_line_switched_off_does_not_stop_an_agent(
    config: dict[str, Any],
) -> None:
    layers = {"absent": (Layer("user.yaml", {}),)}
    async with offline(config=HarnessConfig(plugins=layers, **config)) as stage:
        assert hooks_of(stage.harness, absent={"x": 1}) is stage.harness.plugins.base


@pytest.mark.parametrize("values", [{"x": 1}, {}, False])
async def test_a_typo_in_an_override_is_refused_with_the_nearest_name(values: Any) -> None:
    async with offline() as stage:
        with pytest.raises(ConfigError) as caught:
            hooks_of(stage.harness, shel=values)
        assert str(caught.value).startswith(
            "dsh.yaml:9: agents.coder.plugins.shel: there is no plugin 'shel'; did you mean 'shell'"
        )


async def test_in_safe_mode_and_where_it_is_absent_on_purpose_an_override_is_ignored() -> None:
    async with offline(config=HarnessConfig(safe=True)) as stage:
        assert hooks_of(stage.harness, shel={"x": 1}) is stage.harness.plugins.base
    async with offline(config=NAMED_ONLY) as stage:
        assert hooks_of(stage.harness, shell=False) is stage.harness.plugins.base
        assert stage.harness.plugins.notes == []


async def test_switching_off_what_nobody_knows_is_noted() -> None:
    async with offline() as stage:
        assert hooks_of(stage.harness, raido=False) is stage.harness.plugins.base
        assert stage.harness.plugins.notes == [
            "dsh.yaml:9: agents.coder.plugins.raido names a plugin that is not installed"
        ]


async def test_the_environment_changes_settings_and_never_switches_back_on(
    radio: type[Radio],
) -> None:
    off = Layer("dsh.yaml", False)
    environment = Layer("environment", {"volume": 7}, settings_only=True)
    definition = AgentDefinition(plugins={"radio": (off, environment)})
    async with offline(plugins={"radio": radio}) as stage:
        hooks = stage.harness.plugins.hooks_for(definition)
        assert not hooks.manager.has_plugin("radio")


async def test_an_override_whose_tools_clash_leaves_no_tools(radio: type[Radio]) -> None:
    class Clashes(Radio):
        made: ClassVar[list[Radio]] = []

        @hookimpl
        def tools_register(self) -> list[Tool]:
            twice = 1 if self.settings.volume == 1 else 2
            return [tool_named("clash")] * twice

        @hookimpl
        def commands_register(self) -> list[SlashCommand]:
            return []

    async with offline(plugins={"radio": radio, "clashes": Clashes}) as stage:
        harness = stage.harness
        before = dict(harness.tools.visible(harness.plugins.base))
        with pytest.raises(ConfigError, match="tool 'clash' exists already"):
            hooks_of(harness, radio={"volume": 2}, clashes={"volume": 2})
        assert dict(harness.tools.visible(harness.plugins.base)) == before
        hooks = hooks_of(harness, radio={"volume": 2})
        assert "volume_2" in harness.tools.visible(hooks)


# ------------------------------------------------------------------------ what is taken away


async def test_a_plugin_that_is_off_takes_its_tools_sections_and_commands(
    radio: type[Radio],
) -> None:
    async with offline("hi", "hi", plugins={"radio": radio}) as stage:
        harness = stage.harness
        with_it = harness.agents.create(agent("with"))
        without = harness.agents.create(agent("without", radio=False))
        await with_it.run("go")
        await without.run("go")
        shown, hidden = stage.requests
        assert [schema.name for schema in shown.tools] == ["play", "volume_1"]
        assert hidden.tools == ()
        assert "volume 1" in shown.system
        assert "volume" not in hidden.system
        assert await harness.commands.execute(with_it, "/louder") == "louder"
        assert await harness.commands.execute(without, "/louder") is None


async def test_an_override_instances_tools_stand_for_the_base_instances(
    radio: type[Radio],
) -> None:
    async with offline("hi", plugins={"radio": radio}) as stage:
        harness = stage.harness
        loud = harness.agents.create(agent(radio={"volume": 9}))
        await loud.run("go")
        (request,) = stage.requests
        assert [schema.name for schema in request.tools] == ["play", "volume_9"]
        assert "volume 9" in request.system
        assert set(harness.tools.visible(harness.plugins.base)) == {"play", "volume_1"}
        assert await harness.commands.execute(loud, "/louder") == "louder"


async def test_hooks_of_a_plugin_that_is_off_for_an_agent_still_exist_there() -> None:
    @emit(OnError.REPORT)
    def plan_changed() -> None: ...

    class Planner(Hears):
        hookspecs = spec_module("plans", plan_changed)

    class HearsPlans:
        @hookimpl
        def plan_changed(self) -> None: ...

    async with offline(plugins={"planner": Planner(), "hears": HearsPlans()}) as stage:
        hooks = hooks_of(stage.harness, planner=False)
        assert asked(hooks, "plan_changed") == ["hears"]


# ------------------------------------------------------------------------------ its lifetime


async def test_an_override_instance_is_asked_for_tools_once_and_nothing_else(
    radio: type[Radio],
) -> None:
    async with offline("one", "two", "three", plugins={"radio": radio}) as stage:
        harness = stage.harness
        first = harness.agents.create(agent("first", radio={"volume": 2}))
        second = harness.agents.create(agent("second", radio={"volume": 2}))
        base, override = radio.made
        assert [entry for entry in override.log if entry != "change"] == ["tools"]
        await first.run("go")
        await first.run("go")
        await second.run("go")
        assert [entry for entry in override.log if entry != "change"] == ["tools", "start"]
    assert [entry for entry in base.log if entry != "change"] == [
        *["tools", "llm", "commands", "store", "start", "stop"]
    ]
    assert [entry for entry in override.log if entry != "change"] == ["tools", "start", "stop"]


async def test_two_agents_that_begin_at_once_start_the_shared_instance_once(
    radio: type[Radio],
) -> None:
    async with offline("one", "two", plugins={"radio": radio}) as stage:
        agents = [
            stage.harness.agents.create(agent(name, radio={"volume": 2})) for name in ("a", "b")
        ]
        await asyncio.gather(*(one.run("go") for one in agents))
        assert radio.made[1].log.count("start") == 1


async def test_an_instance_that_no_agent_used_is_neither_started_nor_stopped(
    radio: type[Radio],
) -> None:
    async with offline(plugins={"radio": radio}) as stage:
        hooks_of(stage.harness, radio={"volume": 2})
    assert "start" not in radio.made[1].log
    assert "stop" not in radio.made[1].log


async def test_a_failing_start_ends_that_turn_and_only_it_is_tried_again(
    radio: type[Radio],
) -> None:
    class Fine(Radio):
        made: ClassVar[list[Radio]] = []

        @hookimpl
        def tools_register(self) -> list[Tool]:
            return []

        @hookimpl
        def commands_register(self) -> list[SlashCommand]:
            return []

        @hookimpl
        async def system_prompt_sections(self) -> list[Section]:
            return []

    async with offline("at last", plugins={"fine": Fine, "radio": radio}) as stage:
        one = stage.harness.agents.create(agent(radio={"volume": 2}, fine={"volume": 2}))
        radio.made[1].fails_to_start = True
        failed = await one.run("go")
        assert failed.reason.type == "error"
        (error,) = [e.data for e in one.session.events if isinstance(e.data, ErrorEvent)]
        assert error.plugin == "radio"
        assert "no power" in error.message
        assert stage.requests == []
        radio.made[1].fails_to_start = False
        assert (await one.run("again")).text == "at last"
        assert Fine.made[1].log.count("start") == 1
        assert radio.made[1].log.count("start") == 2
    assert radio.made[1].log.count("stop") == 1


async def test_hooks_without_an_agent_reach_each_distinct_instance_once(
    radio: type[Radio],
) -> None:
    shared = Hears()
    async with offline(plugins={"shared": shared, "radio": radio}) as stage:
        hooks_of(stage.harness, radio={"volume": 2})
        hooks_of(stage.harness, radio={"volume": 3})
        hooks_of(stage.harness, shared=False)
        for one in radio.made:
            one.log.clear()
        shared.heard = 0
        stage.harness.plugins.broadcast(hookspecs.tools_change)
        assert [one.log for one in radio.made] == [["change"]] * 3
        assert shared.heard == 1


async def test_a_session_carries_its_agents_hooks(radio: type[Radio]) -> None:
    async with offline(plugins={"radio": radio}) as stage:
        one = stage.harness.agents.create(agent(radio=False))
        assert one.session.hooks is one.hooks
        alone = stage.harness.sessions.create("alone")
        assert alone.hooks is stage.harness.plugins.base
