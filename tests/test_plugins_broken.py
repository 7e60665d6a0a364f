"""Plugins that cannot start: how it is said, and that nothing is left of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributions import distribution
from registering import NOTHING_NAMED, DataSettings, Hears, asked, loaded, named, refused

from dsh_core.commands import SlashCommand
from dsh_core.config.model import HarnessConfig
from dsh_core.errors import ConfigError, UserError
from dsh_core.harness import Harness
from dsh_core.marks import hookimpl
from dsh_core.tools import Tool, tool


@tool(read_only=True)
def lamp() -> str:
    """Light up."""
    return "on"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, as `site-packages` is."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


# ---------------------------------------------------------------------------- installed and broken


def test_an_installed_plugin_is_loaded_through_its_entry_point(site: Path) -> None:
    text = """
from dsh_core import hookimpl
@hookimpl
def agent_status(status): ...
"""
    distribution(site, "dsh-echo", {"echo": "echo_module"}, echo_module=text)
    assert asked(loaded(named(echo={})), "agent_status") == ["echo"]


BROKEN = {
    "import": ("import nothing_like_this", "ModuleNotFoundError: No module named"),
    "exit": ("raise SystemExit('bye')", "SystemExit: bye"),
    "syntax": ("def (", "SyntaxError"),
    "missing attribute": ("pass", "AttributeError"),
    "constructor": (
        "class Plugin:\n    def __init__(self): raise ValueError('no luck')",
        "ValueError: no luck",
    ),
    "users words": (
        "from dsh_core import UserError\n"
        "class Plugin:\n    def __init__(self): raise UserError('no key', remedy='Set a key.')",
        "no key",
    ),
    "signature": (
        "from dsh_core import hookimpl\n"
        "class Plugin:\n    @hookimpl\n    def agent_statsu(self): ...",
        "agent_statsu: there is no such hook; did you mean `agent_status`?",
    ),
    "settings": ("class Plugin:\n    Settings = int", "Settings must be a dataclass"),
    "wish": ("class Plugin:\n    before = 'permission'", "`before` of plugin 'broken' is no tuple"),
    "none": ("Plugin = None", "its entry point names None"),
    "registration": (
        "from dsh_core import hookimpl\n"
        "class Plugin:\n    @hookimpl\n    def tools_register(self): return 1 / 0",
        "tools_register: ZeroDivisionError",
    ),
}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, site: Path) -> str:
    """An installed plugin `broken`; returns what its error says."""
    text, cause = BROKEN[request.param]
    module = f"broken_{request.param.replace(' ', '_')}"
    distribution(
        site, "dsh-broken", {"broken": f"{module}:Plugin"}, version="0.9", **{module: text}
    )
    return cause


def test_a_broken_plugin_stops_the_start_naming_plugin_distribution_cause_and_remedy(
    broken: str,
) -> None:
    message = refused(named(broken={}))
    assert broken in message
    if "before" not in broken:
        assert "plugin 'broken' (dsh-broken 0.9) cannot start: " in message
    remedy = message.splitlines()[-1].strip()
    assert remedy in ("Set a key.", "Start with --safe, or set plugins.broken: false.") or (
        "Write before" in remedy
    )


def test_a_broken_plugin_is_a_row_and_hides_no_other(broken: str) -> None:
    harness = Harness(named(broken={}, good={}), plugins={"good": Hears()})
    infos = {info.name: info for info in harness.plugins.diagnose()}
    assert (infos["broken"].state, infos["good"].state) == ("broken", "on")
    assert broken in infos["broken"].cause
    assert "cannot start" not in infos["broken"].cause
    assert infos["broken"].remedy
    assert not harness.plugins.base.manager.has_plugin("broken")
    assert asked(harness, "agent_status") == ["good"]


def test_a_missing_plugin_stops_the_start_with_the_pip_command() -> None:
    message = refused(named(absent={}))
    assert message.splitlines() == [
        "plugin 'absent' (dsh-absent) cannot start: configured in dsh.yaml, but not installed",
        "  If it is a distribution of its own: pip install dsh-absent. "
        "Otherwise correct the name, or set plugins.absent: false.",
    ]


def test_a_typo_stops_the_start_with_the_nearest_name_and_its_line() -> None:
    message = refused(named(shel={}))
    assert message.startswith(
        "dsh.yaml:1: plugins.shel: there is no plugin 'shel'; did you mean 'shell'?\n"
    )
    assert "pip" not in message


def test_a_typo_that_switches_off_is_noted() -> None:
    harness = loaded(named(shel=False))
    assert harness.plugins.notes == [
        "dsh.yaml:1: plugins.shel: there is no plugin 'shel'; did you mean 'shell'?"
    ]


@pytest.mark.parametrize("options", [{}, {"safe": True}, {"autoload": False}])
def test_a_typo_on_the_command_line_blocks_nothing_and_so_stops_the_start(
    options: dict[str, Any],
) -> None:
    config = HarnessConfig(blocked=frozenset({"shel"}), **options)
    assert refused(config).startswith(
        "-p no:shel: there is no plugin 'shel'; did you mean 'shell'?"
    )
    harness = Harness(config)
    harness.plugins.diagnose()
    assert len(harness.plugins.notes) == 1


@pytest.mark.parametrize("name", ["shell", "retry", "mine", "absent"])
def test_what_is_known_or_configured_may_be_blocked(name: str) -> None:
    config = replace(named(absent={}), blocked=frozenset({name, "absent"}))
    loaded(config, mine=Hears())


def test_two_distributions_that_claim_a_name_stop_the_start(site: Path) -> None:
    distribution(site, "dsh-one", {"twin": "one"})
    distribution(site, "dsh-two", {"twin": "two"})
    assert "2 distributions claim the name: dsh-one, dsh-two" in refused(named(twin={}))


def test_bad_settings_name_file_and_line_and_the_plugin_still_lists_its_settings() -> None:
    class Loud:
        Settings = DataSettings

        def __init__(self, settings: Any): ...

    config = named(loud={"volume": "high"})
    assert refused(config, loud=Loud).startswith("dsh.yaml:2: plugins.loud.volume: Input should be")
    harness = Harness(config, plugins={"loud": Loud})
    harness.plugins.diagnose()
    assert harness.plugins.target("loud") is Loud


def test_missing_and_broken_plugins_are_said_before_anything_is_imported(site: Path) -> None:
    distribution(site, "dsh-bomb", {"bomb": "bomb_module"}, bomb_module="raise KeyboardInterrupt")
    assert "'absent'" in refused(named(bomb={}, absent={}))


def test_after_a_failed_start_nothing_is_left_and_it_can_be_tried_again() -> None:
    class Brings:
        @hookimpl
        def tools_register(self) -> list[Tool]:
            return [lamp]

    class Fails:
        is_fixed = False

        @hookimpl
        def commands_register(self) -> list[SlashCommand]:
            if not self.is_fixed:
                raise ValueError("not yet")
            return []

    fails = Fails()
    harness = Harness(NOTHING_NAMED, plugins={"brings": Brings(), "fails": fails})
    for _ in range(2):
        with pytest.raises(ConfigError, match="commands_register: ValueError: not yet"):
            harness.plugins.load()
        assert harness.tools.owner_of("lamp") is None
        assert not harness.plugins.base.manager.has_plugin("brings")
    fails.is_fixed = True
    harness.plugins.load()
    assert harness.tools.owner_of("lamp") == "brings"


def test_all_signatures_are_checked_before_anybody_is_registered() -> None:
    ran = []

    class First:
        @hookimpl
        def tools_register(self) -> list[Tool]:
            ran.append("first")
            return []

    class Wrong:
        @hookimpl
        def agent_status(self, statsu: str) -> None: ...

    assert "no argument `statsu`" in refused(first=First(), wrong=Wrong())
    assert ran == []


def test_ctrl_c_during_an_import_is_not_a_broken_plugin(site: Path) -> None:
    distribution(site, "dsh-stop", {"stop": "stop_module"}, stop_module="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        loaded(named(stop={}))


def test_one_object_cannot_be_two_plugins() -> None:
    plugin = Hears()
    assert "it is registered already, as 'a'" in refused(a=plugin, b=plugin)


def test_a_name_the_user_switched_off_is_off_even_when_given_by_code() -> None:
    harness = loaded(named(hears=False), hears=Hears())
    assert asked(harness, "agent_status") == []


# ---------------------------------------------------------------------------------------- start-up


class FailsAt:
    """Raises in one of the start-up hooks."""

    def __init__(self, hook: str, failure: BaseException):
        self.hook, self.failure = hook, failure
        self.stopped = 0

    def fail(self, hook: str) -> None:
        if hook == self.hook:
            raise self.failure

    @hookimpl
    async def session_store(self) -> None:
        self.fail("session_store")

    @hookimpl
    async def harness_start(self) -> None:
        self.fail("harness_start")

    @hookimpl
    async def harness_stop(self) -> None:
        self.stopped += 1


@pytest.mark.parametrize("hook", ["session_store", "harness_start"])
@pytest.mark.parametrize(
    ("failure", "cause", "remedy"),
    [
        (ValueError("no"), "ValueError: no", "Start with --safe"),
        (UserError("no folder", remedy="Make one."), "no folder", "Make one."),
        (SystemExit(3), "SystemExit: 3", "Start with --safe"),
    ],
    ids=repr,
)
async def test_a_plugin_that_fails_to_start_is_named_and_everyone_is_stopped(
    hook: str, failure: BaseException, cause: str, remedy: str
) -> None:
    fails, other = FailsAt(hook, failure), FailsAt("", failure)
    harness = Harness(NOTHING_NAMED, plugins={"other": other, "fails": fails})
    with pytest.raises(ConfigError) as caught:
        await harness.start()
    message = str(caught.value)
    assert message.startswith("plugin 'fails' (inline) cannot start: ")
    assert cause in message.splitlines()[0]
    assert remedy in message
    assert (fails.stopped, other.stopped) == (1, 1)
    assert not harness.is_running
