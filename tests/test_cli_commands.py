"""`dsh` and its commands beside `run`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from program import DSH, Shell

from dsh_core import __version__

HEAVY = "[m for m in ('httpx', 'httpx2', 'pydantic', 'yaml', 'dsh_files') if m in sys.modules]"


def test_the_version(dsh: Shell) -> None:
    assert dsh("--version").stdout == f"dsh {__version__}\n"


def test_the_module_is_the_same_program(dsh: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dsh_core", "--version"], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"dsh {__version__}\n"


@pytest.fixture
def hostile(dsh: Shell) -> Shell:
    """A folder whose modules shadow dsh's and Python's own, and that holds a plugin."""
    ours = ("dsh_core/__init__", "dsh_core/__main__", "yaml", "evil")
    for name in (*sys.stdlib_module_names, *ours):
        dsh.write(f"{name}.py", f"import os\nos.write(1, b'hostile {name}')\nos._exit(66)\n")
    info = "evil-1.0.dist-info"
    dsh.write(f"{info}/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    dsh.write(f"{info}/entry_points.txt", "[dsh]\nevil = evil\n[dsh.commands]\nshout = evil:e\n")
    return dsh


@pytest.mark.parametrize("start", [[], [sys.executable, "-P", "-m", "dsh_core"]])
def test_in_a_hostile_folder_nothing_of_it_is_imported(hostile: Shell, start: list[str]) -> None:
    command = [*(start or [str(DSH)]), "plugins", "--json"]
    environ = hostile.environment()
    done = subprocess.run(command, cwd=hostile.work, env=environ, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "evil" not in {plugin["name"] for plugin in json.loads(done.stdout)}


def test_isolated_python_is_safe_even_where_pythonpath_names_the_folder(hostile: Shell) -> None:
    command = [sys.executable, "-I", "-m", "dsh_core", "--version"]
    environ = {**hostile.environment(), "PYTHONPATH": f":{hostile.work}:."}
    done = subprocess.run(command, cwd=hostile.work, env=environ, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, f"dsh {__version__}\n")


@pytest.mark.parametrize("options", [["-P"], []])
def test_the_module_keeps_the_entries_of_pythonpath(dsh: Shell, options: list[str]) -> None:
    dsh.write("site/extra-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: extra\n")
    dsh.write("site/extra-1.0.dist-info/entry_points.txt", "[dsh.commands]\nshout = extra:shout\n")
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    command = [sys.executable, *options, "-m", "dsh_core", "--help"]
    environ = dsh.environment()
    done = subprocess.run(command, cwd=dsh.home, env=environ, capture_output=True, text=True)

    assert "shout        from extra" in done.stdout


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    code = f"import sys; from dsh_core.cli.main import run; run(['{argument}']); print({HEAVY})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_help_lists_commands_of_plugins_from_metadata(dsh: Shell) -> None:
    info = dsh.work / "site" / "extra-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh.commands]\nshout = missing_module:shout\n")
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")

    assert "shout        from extra" in dsh("--help").stdout
    broken = dsh("shout")
    assert broken.returncode == 2
    assert "extra" in broken.stderr
    assert "missing_module" in broken.stderr


def test_a_plugin_command_gets_its_arguments_and_a_harness(dsh: Shell) -> None:
    site = dsh.work / "site"
    info = site / "extra-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh.commands]\nshout = extra:shout\n")
    (site / "extra.py").write_text(
        "import asyncio\n"
        "def shout(argv, context):\n"
        "    async def go():\n"
        "        async with context.harness() as harness:\n"
        "            print(argv, harness.agents.create().name)\n"
        "        return 7\n"
        "    return asyncio.run(go())\n"
    )
    dsh.env["PYTHONPATH"] = str(site)
    done = dsh("shout", "a", "--b", "--safe")

    assert (done.returncode, done.stdout) == (7, "['a', '--b'] default\n")


def test_an_unknown_command_names_the_nearest(dsh: Shell) -> None:
    done = dsh("rnu")

    assert done.returncode == 2
    assert "dsh run" in done.stderr


def test_no_command_is_a_usage_error_that_helps(dsh: Shell) -> None:
    done = dsh()

    assert done.returncode == 2
    assert "commands:" in done.stdout


def test_plugins_lists_states_and_causes(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "plugins:\n  shell: false\n  permissoin: {}\n")
    done = dsh("plugins", "-c", "dsh.yaml", "-p", "no:retry")

    assert done.returncode == 1
    assert "files        0.1.0" in done.stdout
    assert "dsh.yaml:2: plugins.shell: false" in done.stdout
    assert "-p no:retry" in done.stdout
    assert "dsh.yaml:3: plugins.permissoin: there is no plugin 'permissoin'" in done.stdout
    assert "did you mean 'permission'?" in done.stdout


def test_plugins_as_json(dsh: Shell) -> None:
    states = {p["name"]: p["state"] for p in json.loads(dsh("plugins", "--json").stdout)}

    assert states["files"] == states["agent_loop"] == "on"


def test_a_broken_plugin_stops_a_run_but_neither_help_nor_the_list(dsh: Shell) -> None:
    site = dsh.work / "site"
    info = site / "bad-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dsh-bad\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[dsh]\nbad = bad_module\n")
    (site / "bad_module.py").write_text("raise SystemExit('no thanks')\n")
    dsh.env["PYTHONPATH"] = str(site)

    assert dsh("--help").returncode == 0
    listed = dsh("plugins")
    assert "broken" in listed.stdout
    assert "no thanks" in listed.stdout
    run = dsh("run", "Go.")
    assert run.returncode == 2
    assert "'bad' (dsh-bad 2.0)" in run.stderr
    assert "plugins.bad: false" in run.stderr
    assert "no model" in dsh("run", "-p", "no:bad", "Go.").stderr
    assert "no model" in dsh("run", "--safe", "Go.").stderr


def test_plugin_info_tells_hooks_tools_and_settings(dsh: Shell) -> None:
    shown = dsh("plugins", "info", "shell").stdout

    assert "tools_register" in shown
    assert "timeout_seconds" in shown
    assert "bash_output" in shown


def test_hooks_lists_implementations_in_call_order(dsh: Shell) -> None:
    facts = json.loads(dsh("hooks", "tools_register", "--json").stdout)
    order = [one["plugin"] for one in facts[0]["implementations"]]

    assert order == ["plan_mode", "files", "shell"]
    assert facts[0]["on_error"] == "START"


def test_hooks_takes_the_names_of_the_taxonomy(dsh: Shell) -> None:
    assert "Change what is sent" in dsh("hooks", "agent/request").stdout
    assert "agent_request" in dsh("hooks", "agent_requst").stderr


def test_hooks_tells_about_a_hook_of_a_plugin(dsh: Shell) -> None:
    assert "Say what takes the place" in dsh("hooks", "compaction_strategy").stdout


def test_config_check_says_what_counts(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "agents:\n  a: {tools: [bash]}\n")
    done = dsh("config", "check")

    assert done.returncode == 0
    assert "ok: " in done.stdout
    assert "agents: a" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents:\n  a: {tools: [bahs]}\n", ["bahs", "'bash'"]),
        ("agents:\n  a:\n    modle: x\n", ["dsh.yaml:3", "modle", "model"]),
        ("plugins:\n  shell: {timeout: 1}\n", ["dsh.yaml:2", "timeout_seconds"]),
        ("plugins:\n  shell: {timeout_seconds: soon}\n", ["dsh.yaml:2", "timeout_seconds"]),
        ("agents: {a: {}\n", ["dsh.yaml:"]),
        ("agents:\n  a: {}\n  a: {}\n", ["dsh.yaml:3", "agents.a"]),
        ("default_agent: b\nagents: {a: {}}\n", ["`b`", "Known: a"]),
        ("agents:\n  a: {plugins: {nothing: {}}}\n", ["nothing"]),
        ("plugins: {nothing: {}}\n", ["pip install dsh-nothing"]),
        ("plugins: {environment: {colour: blue}}\n", ["environment", "no settings"]),
    ],
    ids=lambda value: str(value).replace("\n", " ")[:40] if isinstance(value, str) else "",
)
def test_a_mistake_is_one_message_with_its_place(dsh: Shell, text: str, words: list[str]) -> None:
    dsh.write("dsh.yaml", text)
    done = dsh("config", "check", "-c", "dsh.yaml")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert [word for word in words if word not in done.stderr] == []


def test_config_schema_covers_plugins(dsh: Shell) -> None:
    schema = json.loads(dsh("config", "schema").stdout)

    assert "timeout_seconds" in json.dumps(schema)


def test_config_show_hides_keys(dsh: Shell) -> None:
    dsh.env["DEEPSEEK_API_KEY"] = "sk-visible"
    done = dsh("config", "show")

    assert "sk-visible" not in done.stdout
    assert "api.deepseek.com" in done.stdout


def test_an_untrusted_project_file_cannot_switch_plugins_off(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "plugins: {shell: false}\n")

    assert "ignored until you trust" in dsh("plugins").stderr
    assert dsh("trust").returncode == 1
    assert dsh("trust", "--yes").returncode == 0
    states = {p["name"]: p["state"] for p in json.loads(dsh("plugins", "--json").stdout)}
    assert states["shell"] == "off"


def test_a_changed_file_is_no_longer_trusted(dsh: Shell) -> None:
    path = dsh.write("dsh.yaml", "plugins: {shell: false}\n")
    dsh("trust", "--yes")
    path.write_text("plugins: {shell: false, files: false}\n")

    assert "ignored until you trust" in dsh("plugins").stderr


def test_trust_works_for_a_file_that_does_not_load(dsh: Shell) -> None:
    dsh.write("dsh.yaml", "agents: {a: {model: nowhere/m}}\n")

    assert dsh("config", "check").returncode == 2
    assert dsh("trust", "--yes").returncode == 0
    assert "trusted already" in dsh("trust").stdout


def test_config_check_opens_providers_and_tells_what_a_run_lacks(dsh: Shell) -> None:
    dsh.write(
        "dsh.yaml", "providers:\n  o: {adapter: scripted, script: gone.yaml, models: {m: {}}}\n"
    )

    broken = dsh("config", "check", "-c", "dsh.yaml")
    assert broken.returncode == 2
    assert "gone.yaml" in broken.stderr
    assert "cannot run yet" in dsh("config", "check", "-c", str(dsh.write("empty.yaml", ""))).stderr
