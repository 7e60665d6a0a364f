"""Settings on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from configuring import Load, refused

from dsh_core.config.model import Layer


def values(layers: Sequence[Layer]) -> list[Any]:
    return [layer.values for layer in layers]


@pytest.mark.parametrize(
    ("option", "settings"),
    [
        ("plugins.p.k=5", {"k": 5}),
        ("plugins.p.k=1.5", {"k": 1.5}),
        ("plugins.p.k=true", {"k": True}),
        ("plugins.p.k=", {"k": None}),
        ("plugins.p.k=a: b # c", {"k": "a: b # c"}),
        ("plugins.p.k='yes'", {"k": "yes"}),
        ("plugins.p.a.b=[1, two]", {"a": {"b": [1, "two"]}}),
        ("plugins.p={a: {b: 1}}", {"a": {"b": 1}}),
        ('plugins.p."a.b"=1', {"a.b": 1}),
        ("plugins.p.k=a=b", {"k": "a=b"}),
        ("plugins.p.k=${X}", {"k": "value"}),
    ],
)
def test_an_option_is_read_as_in_the_file(load: Load, option: str, settings: object) -> None:
    config = load(environ={"X": "value"}, overrides=[option])

    assert config.plugins["p"][0].values == settings


def test_an_option_may_choose_the_agent(load: Load) -> None:
    assert load("agents: {a: {}, b: {}}", overrides=["default_agent=b"]).default_agent == "b"


def test_a_later_option_wins(load: Load) -> None:
    config = load(overrides=["plugins.p.k=1", "plugins.p.l=1", "plugins.p.k=2"])

    assert values(config.plugins["p"]) == [{"k": 2, "l": 1}]


@pytest.mark.parametrize(
    ("option", "where", "message", "remedy"),
    [
        ("plugins.p.k", "-s plugins.p.k", "this is not KEY=VALUE", "-s plugins.NAME.KEY=VALUE"),
        ("=1", "-s", "this is not KEY=VALUE", "-s plugins.NAME.KEY=VALUE"),
        ("plugin.p.k=1", "-s plugin.p.k", "unknown key `plugin`", "Did you mean `plugins`?"),
        ("shell.k=1", "-s shell.k", "unknown key `shell`", "Write -s plugins.NAME.KEY=VALUE."),
        ("plugins=1", "-s plugins", "a name and a key are missing", "plugins.NAME.KEY"),
        ("autoload=false", "-s autoload", "never switches plugins on or off", "`-p no:NAME`"),
        ("plugins.p=false", "-s: plugins.p", "does not switch it on or off", "`-p no:p`"),
        (
            "plugins.p=true",
            "-s: plugins.p",
            "does not switch it on or off",
            "plugins.p in dsh.yaml",
        ),
        ("plugins.p.k=no", "-s plugins.p.k", "unquoted `no`", "Write 'no' in quotes"),
        ("plugins.p.k=[1", "-s plugins.p.k", "expected", "Check quotes"),
        ("plugins.p.k=\udcff", "-s plugins.p.k", "this is not UTF-8 text", "encoding"),
        ("agents.a.toolz=[x]", "-s: agents.a.toolz", "unknown key `toolz`", "`tools`"),
        ("plugins.p.k=${U}", "-s: plugins.p.k", "variable U is not set", "Set U"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(
    load: Load, option: str, where: str, message: str, remedy: str
) -> None:
    error = refused(load, overrides=[option])

    assert error.where == where
    assert message in error.message
    assert remedy in (error.remedy or "")


def test_blocked_names_are_passed_on(load: Load) -> None:
    assert load(blocked=["shell", "shell", "web"]).blocked == {"shell", "web"}
