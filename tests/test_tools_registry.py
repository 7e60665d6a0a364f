"""Tools belong to their owner: they come and go with it, and no two have one name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from loop_stage import bounded, calls, stage

from dsh_core import AgentDefinition, ConfigError, Hooks, Layer, Tool, UserError, hookimpl
from dsh_core.events import ToolResultEvent
from dsh_core.testing.hooks import HookLab
from dsh_core.tools import Tools


def named(name: str, **options: Any) -> Tool:
    return Tool(name, f"Does {name}.", lambda: name, **options)


class Registry:
    """A registry whose changes are counted, and hooks with some plugins on."""

    def __init__(self, *plugins: str):
        self.base = hooks_with(*plugins)
        self.changes = 0
        self.tools = Tools(self.base, self._changed)

    def _changed(self) -> None:
        self.changes += 1


def hooks_with(*plugins: str) -> Hooks:
    return HookLab(**{name: object() for name in plugins}).hooks


def test_a_tool_is_there_until_it_is_disposed() -> None:
    r = Registry()
    dispose = r.tools.register(named("read"), owner="files")

    assert list(r.tools.visible(r.base)) == ["read"]
    assert r.tools.owner_of("read") == "files"
    dispose()
    assert list(r.tools.visible(r.base)) == []
    assert r.tools.owner_of("read") is None
    assert r.changes == 2
    dispose()
    assert r.changes == 2


def test_a_disposer_takes_away_exactly_its_own_registration() -> None:
    r, tool = Registry(), named("read")
    dispose = r.tools.register(tool, owner="files")
    dispose()
    r.tools.register(tool, owner="files")

    dispose()

    assert list(r.tools.visible(r.base)) == ["read"]


def test_tools_are_sorted_by_name_whoever_brought_them() -> None:
    r = Registry()
    for name in ("write", "bash", "read"):
        r.tools.register(named(name), owner=f"plugin-{name}")

    assert list(r.tools.visible(r.base)) == ["bash", "read", "write"]
    assert [schema.name for schema in r.tools.schemas(r.base, None)] == ["bash", "read", "write"]


def test_what_the_model_sees_is_the_same_tuple_until_tools_change() -> None:
    r = Registry()
    r.tools.register(named("read"), owner="files")
    first = r.tools.schemas(r.base, ("read",))

    assert r.tools.schemas(r.base, ("read",)) is first
    assert r.tools.for_agent(r.base, ("read",)) is r.tools.for_agent(r.base, ("read",))
    r.tools.register(named("write"), owner="files")
    assert r.tools.schemas(r.base, ("read",)) == first
    assert len(r.tools.for_agent(r.base, ("read", "write"))) == 2


def test_removing_an_owner_removes_its_tools_only() -> None:
    r = Registry()
    r.tools.register(named("a"), owner="one")
    r.tools.register(named("b"), owner="one")
    r.tools.register(named("c"), owner="two")
    changes = r.changes

    r.tools.remove_owner("one")
    r.tools.remove_owner("nobody")

    assert list(r.tools.visible(r.base)) == ["c"]
    assert r.changes == changes + 1


@pytest.mark.parametrize("name", ["", "a b", "ä", "a" * 65, "a.b", "a\n", "a/b"])
def test_a_name_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="cannot be a tool's name"):
        Registry().tools.register(named(name), owner="files")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UserError, match="must be positive"):
        Registry().tools.register(named("a", timeout_seconds=seconds), owner="files")


def test_a_taken_name_is_refused_naming_both_owners() -> None:
    r = Registry()
    r.tools.register(named("read"), owner="files")

    with pytest.raises(UserError, match="tool 'read' exists already") as refused:
        r.tools.register(named("read"), owner="other")

    assert "other" in str(refused.value)
    assert "'files' brought it" in str(refused.value)
    assert r.tools.owner_of("read") == "files"


def test_an_agent_sees_the_tools_it_names() -> None:
    r = Registry()
    for name in ("read", "write"):
        r.tools.register(named(name), owner="files")

    assert list(r.tools.for_agent(r.base, None)) == ["read", "write"]
    assert list(r.tools.for_agent(r.base, ("write", "gone"))) == ["write"]
    assert list(r.tools.for_agent(r.base, ())) == []


def test_a_name_nobody_has_is_refused_with_the_nearest() -> None:
    r = Registry()
    r.tools.register(named("read"), owner="files")
    r.tools.check_names(r.base, ("read",), "dsh.yaml:3")
    r.tools.check_names(r.base, None, None)

    with pytest.raises(ConfigError, match="there is no tool 'raed'") as refused:
        r.tools.check_names(r.base, ("raed",), "dsh.yaml:3")
    assert "dsh.yaml:3" in str(refused.value)
    assert "Did you mean 'read'? Tools: read." in str(refused.value)
    with pytest.raises(ConfigError, match="dsh-files"):
        Registry().tools.check_names(hooks_with(), ("read",), None)


# -------------------------------------------------------------------------------- per agent


def test_where_a_plugin_is_off_its_tools_are_too() -> None:
    r = Registry("files", "shell")
    quiet = hooks_with("shell")
    r.tools.register(named("read"), owner="files")
    r.tools.register(named("bash"), owner="shell")
    r.tools.register(named("mcp"), owner="a server, no plugin")

    assert list(r.tools.visible(r.base)) == ["bash", "mcp", "read"]
    assert list(r.tools.visible(quiet)) == ["bash", "mcp"]


def test_an_override_brings_its_own_tools_for_its_agents_only() -> None:
    r = Registry("files")
    special = hooks_with("files")
    r.tools.register(named("read"), owner="files")
    mine = named("read")

    r.tools.override("files", special, [mine, named("extra")])

    assert list(r.tools.visible(r.base)) == ["read"]
    assert list(r.tools.visible(special)) == ["extra", "read"]
    assert r.tools.visible(special)["read"] is mine
    r.tools.remove_owner("files")
    assert list(r.tools.visible(special)) == []


def test_an_override_of_a_plugin_without_tools_changes_nothing() -> None:
    r = Registry("files", "notes")
    r.tools.register(named("read"), owner="files")
    special = hooks_with("files", "notes")
    seen, before = r.tools.visible(special), r.changes

    r.tools.override("notes", special, [])
    r.tools.forget(special)

    assert (r.changes, r.tools.visible(special)) == (before, seen)


def test_an_override_that_brings_no_tools_hides_those_of_its_plugin() -> None:
    r = Registry("files")
    r.tools.register(named("read"), owner="files")
    special = hooks_with("files")
    assert list(r.tools.visible(special)) == ["read"]

    r.tools.override("files", special, [])
    assert list(r.tools.visible(special)) == []
    r.tools.forget(special)

    assert list(r.tools.visible(special)) == ["read"]
    assert r.changes == 3


def test_an_override_cannot_bring_a_name_of_another_plugin() -> None:
    r = Registry("files", "shell")
    special = hooks_with("files", "shell")
    r.tools.register(named("bash"), owner="shell")

    with pytest.raises(UserError, match="tool 'bash' exists already"):
        r.tools.override("files", special, [named("bash")])
    r.tools.override("files", special, [named("extra")])
    with pytest.raises(UserError, match="tool 'extra' exists already"):
        r.tools.register(named("extra"), owner="shell")


# --------------------------------------------------------------------------------- in a harness


async def test_tools_come_and_go_while_the_harness_runs_and_plugins_hear_of_it() -> None:
    class Hears:
        count = 0

        @hookimpl
        def tools_change(self) -> None:
            self.count += 1

    hears = Hears()
    async with stage(plugin=hears) as s:
        before = hears.count
        dispose = s.harness.tools.register(named("late"), owner="me")
        await bounded(s.agent.run("a"))
        dispose()
        await bounded(s.agent.run("b"))

        assert [[t.name for t in r.tools] for r in s.model.requests] == [["late"], []]
        assert hears.count == before + 2


async def test_unregistering_a_plugin_takes_its_tools_away() -> None:
    class Brings:
        @hookimpl
        def tools_register(self) -> list[Tool]:
            return [named("mine")]

    async with stage("ok", calls(("mine", "{}")), plugin=Brings()) as s:
        await bounded(s.agent.run("a"))
        await s.harness.plugins.unregister("it")
        await bounded(s.agent.run("b"))

        assert [t.name for t in s.model.requests[0].tools] == ["mine"]
        assert s.model.requests[1].tools == ()
        assert s.logged(ToolResultEvent)[0].code == "UNKNOWN_TOOL"


async def test_an_agents_override_instance_brings_its_tools() -> None:
    class Speaks:
        @dataclass(frozen=True)
        class Settings:
            word: str = "base"

        def __init__(self, settings: Settings):
            self.settings = settings

        @hookimpl
        def tools_register(self) -> list[Tool]:
            return [Tool("speak", "", lambda: self.settings.word)]

    speaks = calls(("speak", "{}"))
    async with stage(speaks, "ok", speaks, plugin=Speaks) as s:
        definition = AgentDefinition(
            "loud", model="m/x", plugins={"it": (Layer("test", {"word": "loud"}),)}
        )
        loud = s.harness.agents.create(definition)
        await bounded(loud.run("go"))
        await bounded(s.agent.run("go"))

        words = [r.content[0].text for a in (loud, s.agent) for r in s.logged(ToolResultEvent, a)]
        assert words == ["loud", "base"]
