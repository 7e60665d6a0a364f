"""The plugin: its hooks, and its entry point."""

from __future__ import annotations

import asyncio
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy

import dsh_shell
from dsh_core import hookspecs
from dsh_shell import Shell

PROJECT = Path(__file__).parents[1]


def plugin_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager("dsh")
    manager.add_hookspecs(hookspecs)
    return manager


def test_every_hook_it_implements_exists() -> None:
    manager = plugin_manager()
    manager.register(Shell(settings=Shell.Settings()))
    manager.check_pending()


def test_it_registers_its_tools() -> None:
    manager = plugin_manager()
    manager.register(Shell(settings=Shell.Settings()))
    (tools,) = manager.hook.tools_register(harness=SimpleNamespace(secrets=frozenset))
    assert [tool.name for tool in tools] == ["bash", "bash_output", "bash_kill"]


async def test_it_asks_the_harness_for_its_secrets_at_every_call(
    shell: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("INNOCENT", "rotated-secret")
    secrets: set[str] = set()
    plugin = Shell(settings=Shell.Settings())
    harness = SimpleNamespace(secrets=lambda: frozenset(secrets))
    (bash, *_) = plugin.tools_register(harness)  # type: ignore[arg-type]
    context = shell.context("bash", {})
    command = "echo ${INNOCENT:-nothing}"
    assert (await bash.function(command=command, ctx=context)).text == "rotated-secret"
    secrets.add("rotated-secret")
    assert (await bash.function(command=command, ctx=context)).text == "nothing"
    await plugin.harness_stop()


async def test_what_an_agent_left_running_is_gone_when_the_harness_has_stopped(shell: Any) -> None:
    plugin = Shell(settings=Shell.Settings(grace_seconds=0.2))
    (bash, *_) = plugin.tools_register(SimpleNamespace(secrets=frozenset))  # type: ignore[arg-type]
    context = shell.context("bash", {})
    await bash.function(command="sleep 300 &", ctx=context)
    await bash.function(command="sleep 300", run_in_background=True, ctx=context)
    running = plugin._tools._local._leftovers.family
    assert len(running.members()) == 2
    plugin.agent_disposed(shell.agent)
    await asyncio.sleep(0)
    await plugin.harness_stop()
    assert running.members() == {}


async def test_an_agent_that_ran_nothing_is_disposed_without_ado(shell: Any) -> None:
    plugin = Shell(settings=Shell.Settings())
    plugin.agent_disposed(shell.agent)
    await plugin.harness_stop()


def test_its_entry_point_names_the_class() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["dsh"]["shell"].partition(":")
    assert getattr(import_module(module), name) is dsh_shell.Shell
    assert project["name"] == "dsh-shell"


def test_settings_that_weaken_a_boundary_are_for_trusted_files_only() -> None:
    fields = Shell.Settings.__dataclass_fields__
    trusted = {name for name, setting in fields.items() if setting.metadata.get("trusted_only")}
    assert trusted == {"keep_env", "shell"}
