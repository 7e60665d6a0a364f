"""Settings in environment variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from configuring import Load, refused

from dsh_core.config.model import Layer
from dsh_core.secret import Secret


def values(layers: Sequence[Layer]) -> list[Any]:
    return [layer.values for layer in layers]


@pytest.mark.parametrize(
    "variable",
    ["DSH_PLUGINS__SHELL__TIMEOUT_SECONDS", "dsh_plugins__shell__timeout_seconds"],
)
def test_a_variables_name_is_read_in_any_case(load: Load, variable: str) -> None:
    assert values(load(environ={variable: "5"}).plugins["shell"]) == [{"timeout_seconds": 5}]


def test_names_with_dashes_and_dots_are_reached_by_underscores(load: Load) -> None:
    config = load(
        "providers: {my-gateway: {models: {gpt-4.1: {}}}}\nplugins: {p: {Camel: {key-x: 1}}}\n",
        environ={
            "DSH_PROVIDERS__MY_GATEWAY__BASE_URL": "http://x",
            "DSH_PROVIDERS__MY_GATEWAY__MODELS__GPT_4_1__CONTEXT_WINDOW_TOKENS": "9",
            "DSH_PLUGINS__P__CAMEL__KEY_X": "2",
            "DSH_PLUGINS__P__CAMEL__KEY_Y": "3",
        },
    )

    assert config.providers["my-gateway"].base_url == "http://x"
    assert config.providers["my-gateway"].model("gpt-4.1").context_window_tokens == 9
    assert config.plugins["p"][1].values == {"Camel": {"key-x": 2, "key_y": 3}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("true", True),
        ("yes", "yes"),
        ("a: b", "a: b"),
        ("[a, {b: 1}]", ["a", {"b": 1}]),
        ('["Bash(git push:*)"]', ["Bash(git push:*)"]),
        ("[INST] do this", "[INST] do this"),
        ("${HOME}", "${HOME}"),
    ],
)
def test_a_variables_value_is_text_a_number_a_boolean_or_in_brackets(
    load: Load, text: str, value: object
) -> None:
    assert load(environ={"DSH_PLUGINS__P__K": text}).plugins["p"][0].values == {"k": value}


def test_text_from_the_environment_stays_text_where_text_is_wanted(load: Load) -> None:
    config = load(
        environ={
            "DSH_PROVIDERS__X__API_KEY": "0012",
            "DSH_PROVIDERS__X__BASE_URL": "http://x",
            "DSH_AGENTS__A__SYSTEM_PROMPT": "[be, brief]",
            "DSH_AGENTS__B__SYSTEM_PROMPT": "true",
            "DSH_DEFAULT_AGENT": "a",
        }
    )

    assert config.providers["x"].api_key == Secret("0012")
    assert config.agents["a"].system_prompt == "[be, brief]"
    assert config.agents["b"].system_prompt == "true"
    assert config.default_agent == "a"


def test_an_empty_variable_counts_as_not_set(load: Load) -> None:
    config = load(
        environ={"DSH_PROVIDERS__X__BASE_URL": " ", "DSH_DEFAULT_AGENT": "", "DSH_SAFE": ""}
    )

    assert (config.providers, config.default_agent, config.safe) == ({}, "default", False)


@pytest.mark.parametrize(
    ("variable", "value", "message", "remedy"),
    [
        ("DSH_PROVIDRS__X__BASE_URL", "x", "unknown variable", "Write DSH_PROVIDERS__NAME__KEY."),
        ("DSH_FOO__BAR", "x", "unknown variable", "one of providers, agents, plugins"),
        ("DSH_DEFAULT_AGNT", "x", "unknown variable", "Did you mean DSH_DEFAULT_AGENT?"),
        ("DSH_SAEF", "1", "unknown variable", "Did you mean DSH_SAFE?"),
        ("DSH_PLUGIN", "x", "unknown variable", "Did you mean DSH_PLUGINS__NAME__KEY?"),
        ("DSH_AUTOLOAD", "true", "never switches plugins", "Write `autoload` in dsh.yaml."),
        (
            "DSH_PLUGINS__SHELL",
            "false",
            "switch nothing on",
            "Write DSH_PLUGINS__SHELL__KEY=VALUE.",
        ),
        ("DSH_PLUGINS____K", "1", "unknown variable", "Write DSH_PLUGINS__NAME__KEY."),
        ("DSH_SAFE", "maybe", "1 or 0 is wanted", "Write DSH_SAFE=1."),
        ("DSH_STREAM_IDLE_S", "soon", "a number of seconds is wanted", "DSH_STREAM_IDLE_S=60"),
        ("DSH_STREAM_IDLE_S", "0", "a number of seconds is wanted", "DSH_STREAM_IDLE_S=60"),
        ("DSH_MODEL", "openai/", "a route or the name of a model", "Write PROVIDER/MODEL."),
        ("DSH_PLUGINS__P__K", "\udcff", "its value is not UTF-8 text", "Set it anew."),
    ],
)
def test_a_variable_that_cannot_be_meant_is_refused(
    load: Load, variable: str, value: str, message: str, remedy: str
) -> None:
    error = refused(load, environ={variable: value})

    assert error.where == variable
    assert message in error.message
    assert remedy in (error.remedy or "")


def test_a_wrong_value_names_its_variable_and_key_path(load: Load) -> None:
    error = refused(load, environ={"DSH_PROVIDERS__X__BASE_URL": "localhost"})

    assert error.where == "DSH_PROVIDERS__X__BASE_URL: providers.x.base_url"


def test_a_variable_that_fits_two_names_is_refused(load: Load) -> None:
    error = refused(
        load,
        "providers: {a-b: {}, a.b: {}}",
        environ={"DSH_PROVIDERS__A_B__BASE_URL": "http://x"},
    )

    assert error.message == "this names both a-b and a.b"
    assert error.remedy == "Use -s providers.NAME.KEY=VALUE."


@pytest.mark.parametrize("variable", ["DSH_HTTP", "DSH_LOG", "DSH_FOO", "DSH_WEB_PORT", "DSHX"])
def test_other_variables_are_left_alone(load: Load, variable: str) -> None:
    assert load(environ={variable: "anything"}).plugins == {}


@pytest.mark.parametrize("variable", ["DSH_SAFE", "DSH_NO_PLUGINS"])
@pytest.mark.parametrize(("value", "safe"), [("1", True), ("true", True), ("0", False)])
def test_safe_mode_is_asked_for_by_variable(
    load: Load, variable: str, value: str, safe: bool
) -> None:
    assert load(environ={variable: value}).safe is safe
    assert load(environ={variable: value}, safe=True).safe is True


def test_the_idle_limit_of_the_environment_reaches_every_provider(load: Load) -> None:
    config = load(
        "providers: {x: {base_url: http://x, stream_idle_seconds: 9}, y: {base_url: http://y}}\n"
        "agents: {a: {model: openai/m}}\n",
        environ={"DSH_STREAM_IDLE_S": "2.5"},
        overrides=["providers.y.stream_idle_seconds=7"],
    )

    seconds = {name: each.options["stream_idle_seconds"] for name, each in config.providers.items()}
    assert seconds == {"x": 2.5, "y": 7, "openai": 2.5}
