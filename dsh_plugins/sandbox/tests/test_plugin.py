"""The plugin in a harness: what agents, people and the log hear of the sandbox."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import problem_of

import dsh_sandbox.choice
from dsh_core import Harness, TrustStore, load_config
from dsh_core.testing import calling
from dsh_sandbox import Sandbox, SandboxRestored, SandboxSettings, SandboxStatus
from dsh_sandbox.choice import Choice, choose
from dsh_sandbox.status import Status
from dsh_shell import Shell

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def plugins(**settings: Any) -> dict[str, Any]:
    return {"sandbox": Sandbox(SandboxSettings(**settings)), "shell": Shell()}


def results(offline: Any) -> list[Any]:
    return [event.data for event in offline.agent.session.events if event.type == "tool/result"]


@pytest.fixture(autouse=True)
def some_backend() -> None:
    if problem := problem_of("bubblewrap", "me"):
        pytest.skip(f"bubblewrap does not work here: {problem}")


async def test_commands_of_agents_run_in_it(dsh_offline: Any) -> None:
    command = "echo in > made; echo out > ../outside; ls -d /proc/[0-9]* | wc -l"
    async with dsh_offline(calling("bash", command=command), "Done.", plugins=plugins()) as offline:
        assert (await offline.agent.run("Go.")).is_success
        cwd = offline.agent.cwd
        (result,) = results(offline)
    assert (cwd / "made").read_text() == "in\n"
    assert not (cwd.parent / "outside").exists()
    assert [each.name for each in cwd.iterdir()] == ["made"]
    assert result.meta["sandbox"] == {
        "backend": "bubblewrap",
        "enforcement": "full",
        "missing": (),
        "reason": "",
        "mode": "workspace-write",
        "network": True,
    }
    assert SandboxStatus not in {type(e.data) for e in offline.agent.session.events}


async def test_the_model_hears_what_it_may_do_where_that_may_be_why_it_failed(
    dsh_offline: Any,
) -> None:
    calls = [calling("bash", command="touch dsh.yaml"), calling("bash", command="false")]
    async with dsh_offline(*calls, "Done.", plugins=plugins(network=False)) as offline:
        await offline.agent.run("Go.")
        refused, other = results(offline)
        cwd = offline.agent.cwd
    text = "".join(block.text for block in refused.content)
    assert f"commands run in a sandbox and can write {cwd} and /tmp" in text
    assert "but never .git/hooks, .git/config, .git/modules, .dsh, dsh.yaml" in text
    assert "there is no network" in text
    assert "sandbox" not in "".join(block.text for block in other.content)


async def test_background_jobs_run_in_it_too(dsh_offline: Any) -> None:
    replies = [
        calling("bash", command="touch dsh.yaml; echo over", run_in_background=True),
        calling("bash", command="sleep 0.2"),
        calling("bash_output", job_id="bash-1"),
        "Done.",
    ]
    async with dsh_offline(*replies, plugins=plugins()) as offline:
        await offline.agent.run("Go.")
        cwd = offline.agent.cwd
    assert list(cwd.iterdir()) == []


async def test_where_there_is_no_backend_commands_run_and_everybody_is_told(
    dsh_offline: Any, monkeypatch: Any, caplog: Any
) -> None:
    nothing_works(monkeypatch)
    calls = [calling("bash", command="echo ran; ls /no"), calling("bash", command="echo again")]
    with caplog.at_level(logging.WARNING, "dsh.sandbox"):
        async with dsh_offline(*calls, "Done.", plugins=plugins()) as offline:
            await offline.agent.run("Go.")
            first, _ = results(offline)
            (warning,) = offline.logged(SandboxStatus)
    assert "ran" in first.content[0].text
    assert first.meta["sandbox"]["enforcement"] == "none"
    assert warning.notice == "commands run without a sandbox: bubblewrap: broken"
    assert warning.notice in caplog.text


async def test_a_required_sandbox_that_is_not_there_refuses_commands(
    dsh_offline: Any, monkeypatch: Any
) -> None:
    nothing_works(monkeypatch)
    call = calling("bash", command="touch ran")
    async with dsh_offline(call, "Done.", plugins=plugins(required=True)) as offline:
        await offline.agent.run("Go.")
        (result,) = results(offline)
        assert list(offline.agent.cwd.iterdir()) == []
    assert result.code == "SPAWN_FAILED"
    assert "bubblewrap: broken" in result.content[0].text
    assert "plugins.sandbox.required" in result.content[0].text


def nothing_works(monkeypatch: Any) -> None:
    found = Choice(None, Status("none", "none", reason="bubblewrap: broken"))
    monkeypatch.setattr("dsh_sandbox.choose", lambda wanted: found)


async def test_it_can_be_switched_off_and_results_say_so(dsh_offline: Any) -> None:
    call = calling("bash", command="touch dsh.yaml")
    async with dsh_offline(call, "Done.", plugins=plugins(mode="off")) as offline:
        await offline.agent.run("Go.")
        (result,) = results(offline)
        assert (offline.agent.cwd / "dsh.yaml").exists()
        assert offline.logged(SandboxStatus) == []
    assert result.meta["sandbox"]["backend"] == "off"


async def test_landlock_warns_and_undoes_what_was_protected(dsh_offline: Any) -> None:
    if problem := problem_of("landlock", "me"):
        pytest.skip(problem)
    call = calling("bash", command="echo evil > dsh.yaml")
    async with dsh_offline(call, "Done.", plugins=plugins(backend="landlock")) as offline:
        await offline.agent.run("Go.")
        (result,) = results(offline)
        cwd = offline.agent.cwd
        (warning,) = offline.logged(SandboxStatus)
        (restored,) = offline.logged(SandboxRestored)
    assert list(cwd.iterdir()) == []
    assert restored.paths == (str(cwd / "dsh.yaml"),)
    assert "(landlock) does not prevent: changing mode, owner and times" in warning.notice
    assert "changes were undone" in result.content[-1].text


async def test_long_output_that_was_put_aside_can_be_read_by_commands(dsh_offline: Any) -> None:
    def read_it(request: Any) -> Any:
        result = request.messages[-1].content[0]
        (path,) = re.findall(r"whole output is in (\S+)", result.content[0].text)
        return calling("bash", command=f"tail -n 1 {path}; echo no > {path}")

    replies = [calling("bash", command="seq 100000"), read_it, "Done."]
    async with dsh_offline(*replies, plugins=plugins()) as offline:
        await offline.agent.run("Go.")
        _, second = results(offline)
    text = "".join(block.text for block in second.content)
    assert text.startswith("100000\n")
    assert "Read-only file system" in text


def broken_bwrap(folder: Path, script: str) -> Path:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_the_next_backend_is_taken_where_bubblewrap_cannot_work(
    tmp_path: Path, monkeypatch: Any
) -> None:
    if problem := problem_of("landlock", "me"):
        pytest.skip(problem)
    said = "bwrap: No permissions to create new namespace"
    folder = broken_bwrap(tmp_path, f"echo '{said}' >&2; exit 1")
    monkeypatch.setattr(os, "defpath", str(folder))
    status = choose("auto").status
    assert (status.backend, status.enforcement) == ("landlock", "partial")
    assert status.reason == f"bubblewrap: no command runs in it ({said})"
    assert choose("bubblewrap").backend is None


def test_a_bubblewrap_that_confines_nothing_is_seen_through(
    tmp_path: Path, monkeypatch: Any
) -> None:
    script = """
    while [ "$1" != -- ]; do shift; done; shift
    while [ "$1" != 9 ]; do shift; done; shift
    echo >&9; echo started >&9; cd "$(tr '\\0' '\\n' <&8 | tail -n 1)" && exec "$@"
    """
    monkeypatch.setattr(os, "defpath", str(broken_bwrap(tmp_path, script)))
    status = choose("bubblewrap").status
    assert status.enforcement == "partial"
    assert {"writing outside", "a unix socket", "TCP without network"} <= {*status.missing}


def test_on_another_system_it_says_that_there_is_none(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert choose("auto") == Choice(None, Status("none", "none", reason="there is none for darwin"))


def test_its_status_is_what_plugins_info_shows() -> None:
    assert [*Sandbox().status_lines()] == ["backend: bubblewrap", "enforcement: full"]


def test_an_unknown_processor_is_no_reason_to_crash(monkeypatch: Any) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert "system calls of this processor are not known" in choose("auto").status.reason


def test_a_file_that_nobody_trusts_changes_nothing(tmp_path: Path) -> None:
    loose = {"mode": "off", "network": True, "protected": [], "hidden": [], "writable": ["/"]}
    text = json.dumps(
        {"plugins": {"sandbox": loose}, "agents": {"a": {"plugins": {"sandbox": loose}}}}
    )
    (tmp_path / "dsh.yaml").write_text(text)
    home = tmp_path / "user"

    def settings() -> Any:
        environ = {"HOME": str(tmp_path), "DSH_USER_DIR": str(home)}
        config = load_config(cwd=tmp_path, environ=environ, trust=TrustStore(home))
        infos = Harness(config, cwd=tmp_path).plugins.diagnose()
        return next(info.settings for info in infos if info.name == "sandbox")

    assert settings() == SandboxSettings()
    TrustStore(home).trust(tmp_path / "dsh.yaml", text.encode())
    assert settings().mode == "off"


@pytest.mark.parametrize("name", ["", "/etc", "~/x", "a//b", "../x", "a/./b"])
def test_a_protected_name_lies_below_a_folder(name: str) -> None:
    with pytest.raises(ValueError, match="no name below a folder"):
        SandboxSettings(protected=(name,))


def test_the_settings_in_the_readme_are_the_defaults() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    shown = yaml.safe_load(block)["plugins"]["sandbox"]
    assert shown.pop("writable") == ["~/.cache/pip"]
    defaults = json.loads(json.dumps(dataclasses.asdict(SandboxSettings())))
    assert defaults.pop("writable") == []
    assert shown == defaults


def test_choosing_is_what_the_plugin_uses() -> None:
    assert dsh_sandbox.choice.choose is dsh_sandbox.choose  # what the tests above replace
