"""A plugin given by code that is installed too: it takes the installed one's place."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from distributions import distribution

from dsh_core.builtin.retry import RetryRequests
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.errors import ConfigError
from dsh_core.harness import Harness

MODULE = """
from dataclasses import dataclass
from dsh_core import hookimpl, tool

@tool(read_only=True)
def count_words() -> str:
    "Count."
    return "3"

@dataclass(frozen=True)
class Settings:
    limit: int = 1

class WordCount:
    Settings = Settings
    def __init__(self, settings=Settings()):
        self.settings = settings
    @hookimpl
    def tools_register(self):
        return [count_words]
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An installed plugin `word_count`, its module imported as code that uses it does."""
    site = tmp_path / "site"
    distribution(
        site, "dsh-word-count", {"word_count": "words_entry : WordCount"}, words_module=MODULE
    )
    distribution(
        site,
        "dsh-as-module",
        {"as_module": "module_plugin"},
        words_entry="from words_module import WordCount",
        module_plugin="from words_module import count_words\nfrom dsh_core import hookimpl\n"
        "@hookimpl\ndef tools_register():\n    return []\n",
    )
    monkeypatch.syspath_prepend(str(site))
    importlib.import_module("module_plugin")
    yield importlib.import_module("words_entry")
    for name in ("words_entry", "words_module", "module_plugin"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def loaded(given: Any, **options: Any) -> Harness:
    harness = Harness(HarnessConfig(**options), plugins=given)
    harness.plugins.load()
    return harness


def inline(harness: Harness) -> dict[str, object]:
    return {i.name: i.plugin for i in harness.plugins.infos() if i.distribution == "inline"}


@pytest.mark.parametrize("autoload", [True, False])
def test_an_object_of_the_installed_class_is_registered_once_under_its_name(
    words: ModuleType, autoload: bool
) -> None:
    plugin = words.WordCount()
    every: list[Any] = [[plugin], {"words": plugin}, {"word_count": plugin}]
    for given in every:
        assert inline(loaded(given, autoload=autoload)) == {"word_count": plugin}


def test_a_module_and_a_class_too(words: ModuleType) -> None:
    module = importlib.import_module("module_plugin")
    harness = loaded([module, words.WordCount], plugins={"word_count": {"limit": 4}})
    assert inline(harness).keys() == {"as_module", "word_count"}
    (info,) = [i for i in harness.plugins.infos() if i.name == "word_count"]
    assert info.settings.limit == 4


def test_a_plugin_of_the_core_too() -> None:
    plugin = RetryRequests(RetryRequests.Settings())
    assert inline(loaded([plugin], autoload=False)) == {"retry": plugin}


def test_a_subclass_and_the_second_of_a_class_are_plugins_of_their_own(words: ModuleType) -> None:
    class Other(words.WordCount):  # type: ignore[name-defined,misc]
        tools_register = None

    assert inline(loaded([Other()])).keys() == {"Other"}
    harness = Harness(plugins={"a": words.WordCount(), "b": words.WordCount()})
    assert [i.name for i in harness.plugins.infos() if i.distribution == "inline"] == [
        "word_count",
        "b",
    ]


def test_settings_for_an_object_are_refused_with_what_to_do(words: ModuleType) -> None:
    layers = (Layer("dsh.yaml", {"limit": 4}, lines={"": 2, "limit": 3}),)
    with pytest.raises(ConfigError) as caught:
        loaded([words.WordCount()], plugins={"word_count": layers})
    assert "dsh.yaml:3: plugins.word_count.limit: code gave plugin" in str(caught.value)
    assert "Give the class WordCount" in str(caught.value)


def test_files_and_agents_switch_it_by_its_installed_name(words: ModuleType) -> None:
    harness = loaded([words.WordCount()], plugins={"word_count": False})
    assert harness.tools.visible(harness.plugins.base).keys().isdisjoint({"count_words"})
    harness = loaded([words.WordCount()])
    hooks = harness.plugins.hooks_for(AgentDefinition("a", plugins={"word_count": False}))  # type: ignore[dict-item]
    assert not hooks.manager.has_plugin("word_count")


def test_code_may_give_plain_settings_and_false() -> None:
    config = HarnessConfig(plugins={"shell": {"timeout_seconds": 5}, "files": False})  # type: ignore[dict-item]
    assert config.plugins == {
        "shell": (Layer("code", {"timeout_seconds": 5}),),
        "files": (Layer("code", False),),
    }


@pytest.mark.parametrize("value", [True, None, 3, "on", (1,)])
def test_anything_else_is_refused_with_what_is_wanted(value: Any) -> None:
    wanted = "plugins.shell: a mapping of settings, or False, is wanted, not a"
    with pytest.raises(ConfigError, match=wanted):
        HarnessConfig(plugins={"shell": value})
    with pytest.raises(ConfigError, match=f"agents.a.{wanted}"):
        AgentDefinition("a", plugins={"shell": value})


def test_tools_of_an_agent_are_no_text() -> None:
    with pytest.raises(ConfigError, match=r"agents\.a\.tools: a tuple of tool names is wanted"):
        AgentDefinition("a", tools="bash")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="plugins: a mapping of plugin names"):
        HarnessConfig(plugins=["shell"])  # type: ignore[arg-type]
