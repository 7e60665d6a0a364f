"""Which plugins there are and in which state, before anything is imported."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributions import distribution

from dsh_core.builtin import BUILTIN_PLUGINS
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.plugins.discovery import Found, builtin_plugin, installed_plugins
from dsh_core.plugins.info import PluginInfo
from dsh_core.plugins.states import state_of, switch

BOOM = "raise SystemExit('imported')"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, as `site-packages` is."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


# ---------------------------------------------------------------------------------- finding


def test_an_installed_plugin_is_found_by_its_metadata_and_not_imported(site: Path) -> None:
    distribution(site, "dsh-spark", {"spark": "spark_module"}, version="2.3", spark_module=BOOM)
    found = installed_plugins()["spark"]
    assert (found.name, found.distribution, found.version) == ("spark", "dsh-spark", "2.3")
    assert found.claims == ("dsh-spark",)
    assert "spark_module" not in sys.modules


def test_loading_it_imports_what_the_entry_point_names(site: Path) -> None:
    distribution(
        site, "dsh-lamp", {"lamp": "lamp_module:Lamp"}, lamp_module="class Lamp: light = 1"
    )
    loaded: Any = installed_plugins()["lamp"].load()
    assert loaded.light == 1


def test_two_distributions_that_claim_a_name_are_both_named(site: Path) -> None:
    distribution(site, "dsh-one", {"twin": "one"})
    distribution(site, "dsh-two", {"twin": "two"})
    assert installed_plugins()["twin"].claims == ("dsh-one", "dsh-two")


def test_a_distribution_that_is_on_the_path_twice_claims_once(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution(site, "dsh_same", {"same": "x"}, version="1")
    other = tmp_path / "other"
    distribution(other, "dsh-same", {"same": "x", "gone": "y"}, version="2")
    monkeypatch.syspath_prepend(str(other))
    found = installed_plugins()
    assert found["same"].version == "2"
    assert found["same"].claims == ("dsh-same",)


def test_broken_metadata_of_one_distribution_hides_no_other(
    site: Path, caplog: pytest.LogCaptureFixture
) -> None:
    info = distribution(site, "dsh-nameless", {"nameless": "x"})
    (info / "METADATA").unlink()
    unreadable = distribution(site, "dsh-unreadable", {"unreadable": "x"})
    (unreadable / "entry_points.txt").write_text("[dsh]\nthis is no entry point\n")
    distribution(site, "dsh-good", {"good": "x"})
    with caplog.at_level(logging.WARNING, "dsh.plugins"):
        found = installed_plugins()
    assert "good" in found
    assert "unreadable" not in found


def test_nothing_is_imported_to_list_plugins(tmp_path: Path) -> None:
    distribution(tmp_path, "dsh-bomb", {"bomb": "bomb_module"}, bomb_module=BOOM)
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from dsh_core import Harness, HarnessConfig
before = set(sys.modules)
infos = {{info.name: info for info in Harness(HarnessConfig()).plugins.infos()}}
assert infos["bomb"].state == "on", infos["bomb"]
new = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(name for name in new if name.startswith("dsh_") or name == "bomb_module"))
for name in ("pydantic", "httpx", "httpx2", "yaml"):
    assert name not in sys.modules, name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


# ----------------------------------------------------------------------------------- states


def found(name: str = "spark", *claims: str) -> Found:
    return Found(name, f"dsh-{name}", "1.0", dict, claims or (f"dsh-{name}",))


def state(
    config: HarnessConfig,
    entry: Found | None,
    name: str = "spark",
    *,
    is_inline: bool = False,
) -> PluginInfo:
    return state_of(name, config, entry, is_inline=is_inline)


def configured(*layers: Layer, **options: Any) -> HarnessConfig:
    return HarnessConfig(plugins={"spark": layers}, **options)


FILE_ON = Layer("dsh.yaml", {}, lines={"": 3})
FILE_OFF = Layer("dsh.yaml", False, lines={"": 3})
ENVIRONMENT = Layer("environment", {"x": 1}, settings_only=True)


def test_installed_means_on() -> None:
    info = state(HarnessConfig(), found())
    assert (info.state, info.distribution, info.version) == ("on", "dsh-spark", "1.0")


def test_the_strongest_file_switches_and_others_only_give_settings() -> None:
    assert switch(()) is None
    assert switch((ENVIRONMENT,)) is None
    assert switch((FILE_OFF, ENVIRONMENT)) is False
    assert switch((FILE_OFF, FILE_ON)) is True
    assert switch((FILE_ON, FILE_OFF)) is False


def test_a_file_switches_off_and_the_place_is_named() -> None:
    info = state(configured(FILE_OFF, ENVIRONMENT), found())
    assert (info.state, info.cause) == ("off", "dsh.yaml:3: plugins.spark: false")


def test_the_command_line_blocks_whatever_files_say() -> None:
    info = state(configured(FILE_ON, blocked=frozenset({"spark"})), found())
    assert (info.state, info.cause) == ("blocked", "-p no:spark")


def test_without_autoload_only_named_plugins_are_on() -> None:
    assert state(HarnessConfig(autoload=False), found()).state == "off"
    assert state(configured(FILE_ON, autoload=False), found()).state == "on"
    assert state(configured(ENVIRONMENT, autoload=False), found()).state == "off"


def test_built_ins_need_no_autoload() -> None:
    entry = builtin_plugin("retry", BUILTIN_PLUGINS["retry"], "1")
    info = state(HarnessConfig(autoload=False), entry, "retry")
    assert (info.state, info.is_builtin) == ("on", True)


def test_a_plugin_that_is_configured_but_not_installed_names_the_pip_command() -> None:
    info = state(configured(FILE_ON), None, "spark")
    assert (info.state, info.cause) == ("missing", "configured in dsh.yaml, but not installed")
    assert info.remedy == (
        "If it is a distribution of its own: pip install dsh-spark. "
        "Otherwise correct the name, or set plugins.spark: false."
    )


def test_a_first_party_plugin_that_is_not_installed_names_the_pip_command() -> None:
    info = state(HarnessConfig(plugins={"shell": (FILE_ON,)}), None, "shell")
    assert info.remedy == "pip install dsh-shell, or set plugins.shell: false."


def test_a_typo_names_the_nearest_plugin_and_no_pip_command() -> None:
    config = HarnessConfig(plugins={"shel": (FILE_ON,)})
    info = state_of("shel", config, None, is_inline=False, known=("shell", "files"))
    assert (info.state, info.distribution) == ("missing", "")
    assert str(info.cannot_start(info.cause, info.remedy)).splitlines() == [
        "dsh.yaml:3: plugins.shel: there is no plugin 'shel'; did you mean 'shell'?",
        "  Write shell, or remove plugins.shel.",
    ]


@pytest.mark.parametrize(
    ("config", "state_wanted"),
    [
        (configured(FILE_ON, FILE_OFF), "off"),
        (configured(FILE_ON, blocked=frozenset({"spark"})), "blocked"),
        (configured(FILE_ON, safe=True), "off"),
        (configured(ENVIRONMENT), "off"),
    ],
)
def test_what_nobody_switches_on_need_not_be_installed(
    config: HarnessConfig, state_wanted: str
) -> None:
    assert state(config, None).state == state_wanted


def test_two_claims_are_broken_and_the_remedy_names_what_can_be_uninstalled() -> None:
    info = state(HarnessConfig(), found("spark", "dsh-a", "dsh-b"))
    assert (info.state, info.cause) == (
        "broken",
        "2 distributions claim the name: dsh-a, dsh-b",
    )
    assert info.remedy == "Uninstall one: pip uninstall dsh-a or dsh-b."


def test_a_built_in_name_cannot_be_taken_quietly() -> None:
    other = found("retry", "dsh-evil")
    info = state(
        HarnessConfig(), builtin_plugin("retry", BUILTIN_PLUGINS["retry"], "1", other), "retry"
    )
    assert info.state == "broken"
    assert "dsh-core, dsh-evil" in info.cause
    assert info.remedy == "Uninstall one: pip uninstall dsh-evil."


def test_a_name_claimed_twice_can_be_switched_off_instead() -> None:
    assert state(configured(FILE_OFF), found("spark", "dsh-a", "dsh-b")).state == "off"


def test_a_plugin_given_by_code_is_on_unless_the_user_switches_it_off() -> None:
    assert state(HarnessConfig(safe=True, autoload=False), None, is_inline=True).state == "on"
    assert state(configured(FILE_OFF), None, is_inline=True).state == "off"
    blocked = HarnessConfig(blocked=frozenset({"spark"}))
    assert state(blocked, None, is_inline=True).state == "blocked"


def test_what_a_listing_prints_is_plain_json() -> None:
    assert state(HarnessConfig(), found()).to_json() == {
        "name": "spark",
        "distribution": "dsh-spark",
        "version": "1.0",
        "state": "on",
        "cause": "",
        "remedy": "",
        "builtin": False,
    }
