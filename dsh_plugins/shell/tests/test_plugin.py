"""The plugin: its hooks, and its entry point."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import yaml

import dsh_shell
from dsh_core import Secrets, hookspecs
from dsh_core.execution import Survivor
from dsh_shell import Shell
from dsh_shell.capture import Excerpt
from dsh_shell.render import command_text
from dsh_shell.run import Outcome

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


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
    (tools,) = manager.hook.tools_register(harness=SimpleNamespace(secrets=Secrets()))
    assert [tool.name for tool in tools] == ["bash", "bash_output", "bash_kill"]


async def test_it_asks_the_harness_for_its_secrets_at_every_call(
    shell: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("INNOCENT", "rotated-secret")
    secrets = Secrets()
    plugin = Shell(settings=Shell.Settings())
    harness = SimpleNamespace(secrets=secrets)
    (bash, *_) = plugin.tools_register(harness)  # type: ignore[arg-type]
    context = shell.context("bash", {})
    command = "echo ${INNOCENT:-nothing}"
    assert (await bash.function(command=command, ctx=context)).text == "rotated-secret\n"
    secrets.add("rotated-secret")
    assert (await bash.function(command=command, ctx=context)).text == "nothing\n"
    await plugin.harness_stop()


async def test_what_an_agent_left_running_is_gone_when_the_harness_has_stopped(shell: Any) -> None:
    plugin = Shell(settings=Shell.Settings(grace_seconds=0.2))
    (bash, *_) = plugin.tools_register(SimpleNamespace(secrets=Secrets()))  # type: ignore[arg-type]
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


def test_the_settings_in_the_readme_are_the_defaults() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    shown = yaml.safe_load(block)["plugins"]["shell"]
    assert shown.pop("keep_env") == ["NPM_TOKEN"]
    defaults = dataclasses.asdict(Shell.Settings())
    assert defaults.pop("keep_env") == ()
    assert shown == defaults


def test_a_result_reads_as_the_readme_shows_it() -> None:
    outcome = Outcome(1, True, (Survivor(4711, "node"),), 120.0)
    text = command_text(
        Excerpt("collected 3 items\n"),
        Excerpt("warning: cache is read-only\n"),
        outcome,
        timeout_seconds=120,
        notice="[working directory /repo/tmp is gone; ran in /repo]",
    )
    assert f"```\n{text}\n```" in README
