"""The plugin as a whole: its hooks, its settings, its page, and that it is light."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from compaction_stage import fetches, staged, summarising

from dsh_compaction import Compaction
from dsh_compaction.events import CompactionStart
from dsh_compaction.settings import Settings
from dsh_core import ConfigError, EventData, Harness, HarnessConfig, Layer
from dsh_core.config.load import load_config
from dsh_core.config.trust import TrustStore

FOLDER = Path(__file__).parents[1]
README = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"threshold": 0.5, "retain": 0.5}, "retain < threshold"),
        ({"threshold": 1.1}, "threshold <= 1"),
        ({"retain": 0}, "0 < retain"),
        ({"attempts": 0}, "attempts must be at least 1"),
        ({"prune_over_characters": 5200}, "would not be shorter"),
        ({"prune_tail_characters": -1}, "must not be negative"),
        ({"strategy": "magic"}, "strategy"),
        ({"treshold": 0.7}, "threshold"),
    ],
)
async def test_settings_that_make_no_sense_stop_the_start(wrong, problem):
    with pytest.raises(ConfigError, match=problem):
        async with staged(settings=wrong):
            raise AssertionError("unreachable")


def test_an_untrusted_projects_file_changes_nothing(tmp_path):
    (tmp_path / "dsh.yaml").write_text(
        "plugins: {compaction: {model: evil/m, threshold: 0.3, retain: 0.1, automatic: false}}\n"
    )
    config = load_config(
        cwd=tmp_path,
        environ={"DSH_USER_DIR": str(tmp_path / "user")},
        trust=TrustStore(tmp_path / "user"),
    )
    layers = config.plugins["compaction"]
    assert [layer.trusted for layer in layers] == [False]


async def test_what_an_untrusted_file_says_is_ignored_and_said():
    layer = Layer("dsh.yaml", {"threshold": 0.3, "model": "evil/m"}, trusted=False)
    config = HarnessConfig(autoload=False, plugins={"compaction": (layer,)})
    async with Harness(config, plugins={"compaction": Compaction}) as harness:
        (info,) = [one for one in harness.plugins.infos() if one.name == "compaction"]
        assert info.settings == Settings()
        notes = " ".join(harness.plugins.notes)
        assert "plugins.compaction.threshold is ignored" in notes
        assert "plugins.compaction.model is ignored" in notes


async def test_a_reloaded_plugin_watches_with_its_new_settings():
    async with staged(summarising(*[fetches(700 + i) for i in range(9)])) as s:
        assert s.agent
        await s.harness.plugins.unregister("compaction")
        settings = Settings(threshold=0.4, retain=0.1)
        await s.harness.plugins.register(Compaction(settings=settings), "compaction")
        await s.run("go")
        assert s.logged(CompactionStart)[0].tokens < 0.8 * 4000


def test_importing_it_is_light():
    program = (
        "import sys, dsh_core.harness\n"
        "before = set(sys.modules)\n"
        "import dsh_compaction\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    assert not {"pydantic", "tokenizers", "yaml", "httpx"}.intersection(output)
    own = {name.partition(".")[2] for name in output if name.startswith("dsh_compaction.")}
    assert not {"compactor", "summary", "view"} & own, "only what every conversation needs"


def test_modules_below_the_plugin_know_no_pluggy():
    for path in (FOLDER / "dsh_compaction").glob("*.py"):
        if path.name != "__init__.py":
            assert not re.search(r"pluggy|@hookimpl$", path.read_text(), re.M), path


def test_the_readme_names_every_setting_with_its_default():
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    written = yaml.safe_load(block)["plugins"]["compaction"]
    defaults = Settings()
    assert written == {name: getattr(defaults, name) for name in Settings.__dataclass_fields__}


def test_the_readme_names_every_event():
    names = {name for name in EventData.cases if name.startswith("compaction/")}
    assert set(re.findall(r"\| `(compaction/\w+)` \|", README)) == names


def test_the_optional_extra_is_what_the_message_says():
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert list(project["optional-dependencies"]) == ["tokenizer"]
    assert project["dependencies"] == ["dsh-core>=0.1,<0.2"]
