"""Specs that plugins bring, and registering and taking out plugins."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pluggy
import pytest

from dsh_core import hookspecs
from dsh_core.errors import PluginError
from dsh_core.marks import OnError, emit, hookimpl
from dsh_core.testing.hooks import HookLab, spec_module


@emit(OnError.REPORT)
def plan_changed(plan: str) -> None: ...


class Hears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl(optionalhook=True)
    def plan_changed(self, plan: str) -> None:
        self.heard.append(plan)


class Idle:
    """Implements nothing."""


def test_a_plugin_brings_hooks_of_its_own_and_calls_them() -> None:
    hears = Hears()
    lab = HookLab(hears=hears)
    lab.hooks.add_specs(spec_module("plans", plan_changed), owner="plans")
    lab.hooks.emit(plan_changed, plan="A")
    assert hears.heard == ["A"]
    assert list(lab.hooks.modes)[-1] == "plan_changed"


def test_a_hook_of_a_plugin_that_is_not_here_has_no_implementations() -> None:
    lab = HookLab(hears=Hears())
    assert not lab.hooks.has(plan_changed)
    lab.hooks.emit(plan_changed, plan="A")


def test_a_name_that_is_taken_is_refused_and_changes_nothing() -> None:
    @emit()
    def agent_status(status: int) -> None: ...

    lab = HookLab()
    with pytest.raises(PluginError, match="plugin 'plans' in agent_status: this hook exists"):
        lab.hooks.add_specs(spec_module("plans", plan_changed, agent_status), owner="plans")
    assert "plan_changed" not in lab.hooks.modes


def test_hooks_a_module_only_imports_are_not_its_own() -> None:
    module = spec_module("plans", plan_changed)
    module.agent_status = hookspecs.agent_status  # type: ignore[attr-defined]
    lab = HookLab()
    lab.hooks.add_specs(module, owner="plans")
    assert "plan_changed" in lab.hooks.modes


def test_hooks_without_a_mode_a_module_without_hooks_and_no_module_are_refused() -> None:
    @pluggy.HookspecMarker("dsh")
    def bare(value: int) -> None: ...

    lab = HookLab()
    with pytest.raises(PluginError, match="plugin 'plans' in bare: has no mode"):
        lab.hooks.add_specs(spec_module("plans", bare), owner="plans")
    with pytest.raises(PluginError, match="empty declares no hooks"):
        lab.hooks.add_specs(ModuleType("empty"), owner="plans")
    with pytest.raises(PluginError, match="must be a module"):
        lab.hooks.add_specs(Idle, owner="plans")  # type: ignore[arg-type]


def test_a_plugin_that_implements_a_late_hook_wrongly_is_named() -> None:
    class Wrong:
        @hookimpl(optionalhook=True)
        def plan_changed(self, paln: str) -> None: ...

    lab = HookLab(wrong=Wrong())
    with pytest.raises(PluginError, match=r"plugin 'wrong' in plan_changed: .*no argument `paln`"):
        lab.hooks.add_specs(spec_module("plans", plan_changed), owner="plans")
    assert "plan_changed" not in lab.hooks.modes


def test_hooks_go_with_their_plugin_and_may_come_back_changed() -> None:
    @emit(OnError.REPORT)
    def plan_changed(plan: str, author: str) -> None: ...

    first, second = (
        spec_module("plans", globals()["plan_changed"]),
        spec_module("plans", plan_changed),
    )
    hears = Hears()
    lab = HookLab(hears=hears, plans=Idle())
    lab.hooks.add_specs(first, owner="plans")
    lab.hooks.unregister("plans")
    assert "plan_changed" not in lab.hooks.modes
    lab.add("plans", Idle())
    lab.hooks.add_specs(second, owner="plans")
    lab.hooks.emit(plan_changed, plan="B", author="me")
    assert hears.heard == ["B"]


def test_taking_a_plugin_out_takes_all_its_implementations_away() -> None:
    hears = Hears()
    lab = HookLab(plan_changed, hears=hears)
    lab.hooks.unregister("hears")
    lab.hooks.emit(plan_changed, plan="A")
    assert hears.heard == []
    assert not lab.hooks.manager.has_plugin("hears")
    lab.hooks.unregister("hears")  # nothing to do


def test_a_plugin_that_is_false_can_be_taken_out_too() -> None:
    class Empty(Hears):
        def __len__(self) -> int:
            return 0

    lab = HookLab(plan_changed, empty=Empty())
    lab.hooks.unregister("empty")
    assert not lab.hooks.manager.has_plugin("empty")
    lab.add("empty", Empty())


def test_one_object_cannot_be_two_plugins_and_one_name_cannot_be_taken_twice() -> None:
    one = Idle()
    lab = HookLab(one=one)
    with pytest.raises(PluginError, match=r"plugin 'two' in registration: .*already, as 'one'"):
        lab.add("two", one)
    with pytest.raises(PluginError, match="a plugin of this name is registered"):
        lab.add("one", Idle())


def test_plugins_that_equal_each_other_are_refused_with_the_reason() -> None:
    @dataclass
    class Equal:
        value: int = 1

    lab = HookLab(one=Equal())
    with pytest.raises(PluginError, match=r"it equals the plugin 'one'.*eq=False"):
        lab.add("two", Equal())


def test_a_chain_is_compiled_once_per_change() -> None:
    lab = HookLab(plan_changed, a=Hears())
    chain = lab.hooks.chain("plan_changed")
    assert lab.hooks.chain("plan_changed") is chain
    lab.add("b", Hears())
    assert [one.plugin for one in lab.hooks.chain("plan_changed").plain] == ["a", "b"]


def test_specs_are_found_in_the_order_of_their_text() -> None:
    from dsh_core.hooks import specs_in

    names = [name for name, _ in specs_in(hookspecs)]
    assert names[0] == "cli_register"
    assert names[-1] == "harness_stop"
    modes: Any = dict(specs_in(hookspecs))
    assert names == list(HookLab().hooks.modes) == list(modes)
