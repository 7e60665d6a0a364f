"""Loading plugins: what they may be, in which order, and what they bring."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Any

import pydantic
import pytest
from registering import NOTHING_NAMED, DataSettings, Hears, asked, loaded, named, refused

from dsh_core import hookspecs
from dsh_core.commands import SlashCommand
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.errors import PluginError, UserError
from dsh_core.harness import Harness
from dsh_core.llm import AdapterFactory, ProviderConfig
from dsh_core.marks import OnError, emit, hookimpl
from dsh_core.plugins import TRUSTED_ONLY
from dsh_core.testing.hooks import spec_module
from dsh_core.tools import tool


@tool(read_only=True)
def lamp() -> str:
    """Light up."""
    return "on"


# ---------------------------------------------------------------------------- what a plugin may be


def test_a_module_of_functions_a_class_and_an_instance_are_plugins() -> None:
    module = ModuleType("spoken")
    module.agent_status = hookimpl(lambda status: None)  # type: ignore[attr-defined]
    harness = loaded(module=module, kind=Hears, instance=Hears())
    assert asked(harness, "agent_status") == ["module", "kind", "instance"]


class ModelSettings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    volume: int = 3


@pytest.mark.parametrize("kind", [DataSettings, ModelSettings])
@pytest.mark.parametrize(("values", "volume"), [({}, 3), ({"volume": "7"}, 7)])
def test_a_class_is_constructed_with_its_settings(
    kind: type[Any], values: Mapping[str, Any], volume: int
) -> None:
    class Loud:
        Settings = kind

        def __init__(self, settings: Any):
            self.settings = settings

    harness = loaded(named(loud=values), loud=Loud)
    (info,) = [info for info in harness.plugins.infos() if info.name == "loud"]
    assert isinstance(info.plugin, Loud)
    assert info.plugin.settings is info.settings
    assert info.settings.volume == volume


@pytest.mark.parametrize("plugin", [Hears, Hears()], ids=["class", "instance"])
def test_settings_for_a_plugin_that_takes_none_are_refused_with_their_place(
    plugin: object,
) -> None:
    message = refused(named(quiet={"volume": 1}), quiet=plugin)
    assert message == "dsh.yaml:2: plugins.quiet.volume: plugin 'quiet' takes no settings"
    loaded(named(quiet={}), quiet=plugin)


def test_a_plugin_given_by_code_takes_the_place_of_a_built_in_one() -> None:
    harness = loaded(retry=Hears())
    assert asked(harness, "agent_request_error") == []
    assert asked(harness, "agent_status") == ["retry"]


# ------------------------------------------------------------------------------------------- order


def wishing(before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> object:
    plugin: Any = Hears()
    plugin.before, plugin.after = before, after
    return plugin


def test_before_and_after_bend_the_asked_order() -> None:
    harness = loaded(a=Hears(), b=wishing(after=("c",)), c=Hears(), d=wishing(before=("a",)))
    assert asked(harness, "agent_status") == ["d", "a", "c", "b"]


def test_a_plugin_can_be_asked_after_a_built_in_one() -> None:
    class Measures:
        after = ("retry",)

        @hookimpl
        async def agent_request_error(self) -> None: ...

    assert asked(loaded(m=Measures()), "agent_request_error") == ["retry", "m"]


def test_a_cycle_stops_the_start_and_is_a_row_for_those_in_it() -> None:
    plugins = {"a": wishing(before=("b",)), "b": wishing(before=("a",)), "c": wishing(after=("a",))}
    assert "must each come before the other" in refused(**plugins)
    infos = {i.name: i for i in Harness(NOTHING_NAMED, plugins=plugins).plugins.diagnose()}
    assert [infos[name].state for name in "abc"] == ["broken", "broken", "on"]
    assert "a → b → a" in infos["a"].cause or "b → a → b" in infos["a"].cause


def test_a_plugin_that_is_off_makes_no_cycle() -> None:
    plugins = {"a": wishing(before=("b",)), "b": wishing(before=("a",))}
    assert asked(loaded(named(a=False), **plugins), "agent_status") == ["b"]


# -------------------------------------------------------------------------------- hooks of its own


@emit(OnError.REPORT)
def plan_changed(plan: str) -> None: ...


def planner(**attributes: Any) -> object:
    plugin: Any = Hears()
    plugin.hookspecs = attributes.get("specs") or spec_module("plans", plan_changed)
    return plugin


class HearsPlans:
    """Implements another plugin's hook."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def plan_changed(self, plan: str) -> None:
        self.heard.append(plan)


def test_a_plugin_may_implement_a_hook_of_one_that_is_asked_later() -> None:
    hears = HearsPlans()
    harness = loaded(hears=hears, planner=planner())
    harness.plugins.base.emit(plan_changed, plan="A")
    assert hears.heard == ["A"]


def test_a_hook_of_a_plugin_that_is_not_on_needs_optionalhook() -> None:
    assert "there is no such hook" in refused(hears=HearsPlans())


def test_two_plugins_cannot_bring_the_same_hook() -> None:
    message = refused(a=planner(), b=planner())
    assert message.startswith(
        "plugin 'b' (inline) cannot start: plan_changed: this hook exists already"
    )


def test_a_module_that_imports_the_cores_hooks_by_their_name_brings_none() -> None:
    loaded(a=planner(specs=hookspecs), b=planner(specs=hookspecs))


# ----------------------------------------------------------------------------------- contributions


def brings(hook: str, answer: Any) -> object:
    """A plugin that answers one of the `*_register` hooks."""
    plugin = ModuleType("brings")

    def register() -> Any:
        return answer

    setattr(plugin, hook, hookimpl(specname=hook)(register))
    return plugin


FACTORY = AdapterFactory("echo", lambda provider: None)  # type: ignore[arg-type, return-value]
COMMAND = SlashCommand("hello", "Say hello.", None)  # type: ignore[arg-type]


def test_what_a_plugin_brings_is_registered_in_its_name() -> None:
    harness = loaded(
        a=brings("tools_register", [lamp]),
        b=brings("llm_register", (FACTORY,)),
        c=brings("commands_register", iter([COMMAND])),
        d=brings("tools_register", None),
    )
    assert harness.tools.owner_of("lamp") == "a"
    with pytest.raises(UserError, match="adapter 'echo' exists already, from 'b'"):
        harness.llm.register(FACTORY, owner="x")
    with pytest.raises(UserError, match="/hello exists already, from 'c'"):
        harness.commands.register(COMMAND, owner="x")


@pytest.mark.parametrize(
    ("hook", "answer", "message"),
    [
        ("tools_register", lamp, "tools_register: answered with a Tool, not a list of Tool"),
        ("tools_register", "lamp", "answered with a str, not a list of Tool"),
        ("tools_register", [print], "builtin_function_or_method print is no Tool; decorate it"),
        ("tools_register", [5], "a int is no Tool"),
        ("tools_register", [lamp, lamp], "cannot start: tool 'lamp' exists already"),
        ("llm_register", [lamp], "a Tool is no AdapterFactory"),
        ("commands_register", [None], "a NoneType is no SlashCommand"),
    ],
)
def test_junk_in_place_of_contributions_is_refused(hook: str, answer: Any, message: str) -> None:
    assert message in refused(it=brings(hook, answer))


# ------------------------------------------------------------------------------------------- trust


def test_guarded_settings_of_an_untrusted_file_are_noted_once() -> None:
    @dataclasses.dataclass(frozen=True)
    class Guarded:
        mode: Annotated[str, TRUSTED_ONLY] = "ask"

    class Policy:
        Settings = Guarded

        def __init__(self, settings: Guarded):
            self.settings = settings

    layers = (
        Layer("dsh.yaml", {"mode": "off"}, trusted=False, settings_only=True, lines={"mode": 4}),
    )
    harness = loaded(HarnessConfig(plugins={"policy": layers}), policy=Policy)
    (info,) = [info for info in harness.plugins.infos() if info.name == "policy"]
    assert info.settings.mode == "ask"
    assert len(harness.plugins.notes) == 1
    assert harness.plugins.notes[0].startswith("dsh.yaml:4: plugins.policy.mode is ignored")


def test_providers_survive_without_plugins() -> None:
    harness = Harness(NOTHING_NAMED, providers=[ProviderConfig("p", "scripted")])
    harness.plugins.load()
    assert list(harness.llm.providers) == ["p"]


def test_a_plugin_error_of_nobody_we_know_stays_itself() -> None:
    harness = loaded()
    with pytest.raises(PluginError, match="plugin 'ghost'"), harness.plugins.starting():
        raise PluginError("ghost", "harness_start", "boo")
