import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pluggy
import pytest
import yaml

from dsh_core import hookspecs
from dsh_core.policy import Call
from dsh_files import Files

FOLDER = Path(__file__).parents[1]


@pytest.fixture
def plugin():
    return Files(settings=Files.Settings())


def test_its_hooks_are_hooks_of_the_core(plugin):
    manager = pluggy.PluginManager("dsh")
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, "files")
    manager.check_pending()
    (tools,) = manager.hook.tools_register(harness=None)
    assert [tool.name for tool in tools] == ["read", "write", "edit", "glob", "grep"]


def test_it_names_the_effect_of_its_calls(plugin, hand, workspace):
    call = Call("c", "read", {"file_path": "a"}, "{}", 1, 1)
    (effect,) = plugin.tool_effects(hand.agent, call)
    assert (effect.kind, effect.target) == ("read", str(workspace / "a"))


def test_its_settings_reach_its_tools(hand, workspace):
    (workspace / "a").write_text("1\n2\n")
    plugin = Files(settings=Files.Settings(read_limit_bytes=5))
    hand.tools = plugin._tools
    assert "capped at 5 bytes" in hand.read("a")


def test_importing_it_is_light():
    program = (
        "import sys, dsh_core.harness\n"
        "before = set(sys.modules)\n"
        "import dsh_files\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    assert not {"pydantic", "pathspec", "yaml", "httpx"}.intersection(output)
    assert len([name for name in output if not name.startswith("dsh_files")]) < 25, output


def test_modules_below_the_plugin_know_no_pluggy():
    for path in (FOLDER / "dsh_files").glob("*.py"):
        if path.name != "__init__.py":
            forbidden = r"pluggy|hookimpl|dsh_core\.(loop|harness|hooks)"
            assert not re.search(forbidden, path.read_text()), path


def test_one_word_in_four_places():
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert FOLDER.name == "files"
    assert project["name"] == "dsh-files"
    assert project["entry-points"]["dsh"] == {"files": "dsh_files:Files"}
    assert any(line.startswith("dsh-core>=0.1") for line in project["dependencies"])


def test_the_readme_names_every_setting_with_its_default():
    text = (FOLDER / "README.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    written = yaml.safe_load(block)["plugins"]["files"]
    defaults = Files.Settings()
    assert set(written) == set(Files.Settings.__dataclass_fields__)
    assert written.pop("allow") == ["~/notes"]
    assert written == {name: getattr(defaults, name) for name in written}


def test_the_readme_names_every_code_a_tool_gives():
    text = (FOLDER / "README.md").read_text()
    codes = set()
    for path in (FOLDER / "dsh_files").glob("*.py"):
        codes |= set(re.findall(r"\"((?:FS|SEARCH)_[A-Z0-9_]+)\"", path.read_text()))
    assert set(re.findall(r"`((?:FS|SEARCH)_[A-Z0-9_]+)`", text)) == codes


def test_the_licence_goes_with_it():
    assert (FOLDER / "LICENSE").read_text().startswith("MIT License")


def test_installed_it_is_found_by_its_entry_point():
    found = [
        entry for entry in importlib.metadata.entry_points(group="dsh") if entry.name == "files"
    ]
    if not found:
        pytest.skip("dsh-files is not installed here")
    assert found[0].load() is Files
