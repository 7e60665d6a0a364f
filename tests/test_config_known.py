"""Providers that only need a key, and what is said without a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from configuring import Load, refused

from dsh_core.config.load import missing_key_error, missing_model_error
from dsh_core.secret import Secret

KEYED = """\
providers:
  deepseek: {api_key: "${DEEPSEEK_API_KEY}"}
"""


def test_a_key_in_the_environment_is_enough(load: Load) -> None:
    config = load(environ={"DEEPSEEK_API_KEY": " sk-1 "})

    provider = config.providers["deepseek"]
    assert (provider.base_url, provider.api_key) == ("https://api.deepseek.com", Secret("sk-1"))
    assert list(provider.models) == ["deepseek-chat"]
    assert provider.key_hint == "DEEPSEEK_API_KEY, or providers.deepseek.api_key in dsh.yaml"
    assert config.agents["default"].model is None


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"DEEPSEEK_API_KEY": "a", "OPENAI_API_KEY": "b"}, "deepseek"),
        ({"DEEPSEEK_API_KEY": "", "OPENAI_API_KEY": "b"}, "openai"),
        ({"DEEPSEEK_API_KEY": "  ", "OPENAI_API_KEY": "b"}, "openai"),
    ],
)
def test_of_several_keys_the_first_that_is_not_blank_counts(
    load: Load, environ: dict[str, str], name: str
) -> None:
    assert list(load(environ=environ).providers) == [name]


def test_the_address_of_a_known_provider_can_be_set_by_variable(load: Load) -> None:
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}
    provider = load(environ=environ).providers["openai"]

    assert provider.base_url == "http://127.0.0.1:8000/v1"
    assert provider.model("gpt-4.1-mini").context_window_tokens is None

    error = refused(load, environ={**environ, "OPENAI_BASE_URL": "127.0.0.1"})
    assert error.where == "OPENAI_BASE_URL"


def test_an_address_nobody_uses_is_not_judged(load: Load) -> None:
    environ = {"DEEPSEEK_API_KEY": "k", "OPENAI_BASE_URL": "127.0.0.1"}

    assert list(load(environ=environ).providers) == ["deepseek"]


@pytest.mark.parametrize(
    ("model", "route"),
    [
        ("gpt-x", "openai/gpt-x"),
        ("openai/gpt-x", "openai/gpt-x"),
        ("deepseek/v9", "deepseek/v9"),
        ("meta/llama", "openai/meta/llama"),
    ],
)
def test_the_model_of_agents_that_name_none_can_be_set_by_variable(
    load: Load, model: str, route: str
) -> None:
    config = load(
        "agents: {a: {}, b: {model: deepseek/deepseek-reasoner}}",
        environ={"OPENAI_API_KEY": "k", "DSH_MODEL": model},
    )

    assert config.agents["a"].model == route
    assert config.agents["b"].model == "deepseek/deepseek-reasoner"


def test_an_agent_may_name_a_known_provider_that_no_file_mentions(load: Load) -> None:
    config = load(
        "agents: {a: {model: openai/gpt-x}}\nproviders: {local: {base_url: http://x}}\n",
        environ={"OPENAI_API_KEY": "k", "DEEPSEEK_API_KEY": "k"},
    )

    assert list(config.providers) == ["local", "openai"]
    assert config.providers["openai"].api_key == Secret("k")


def test_a_known_providers_section_is_completed(load: Load) -> None:
    config = load(
        "providers: {deepseek: {models: {deepseek-reasoner: }}}", environ={"DEEPSEEK_API_KEY": "k"}
    )

    provider = config.providers["deepseek"]
    assert (provider.base_url, provider.api_key) == ("https://api.deepseek.com", Secret("k"))
    assert list(provider.models) == ["deepseek-reasoner"]


@pytest.mark.parametrize("section", ["base_url: http://evil.example", "adapter: other"])
def test_a_key_is_never_taken_to_an_address_that_is_not_its_own(load: Load, section: str) -> None:
    config = load(f"providers: {{deepseek: {{{section}}}}}", environ={"DEEPSEEK_API_KEY": "k"})

    assert config.providers["deepseek"].api_key is None
    assert config.providers["deepseek"].key_hint is None


@pytest.mark.parametrize("key", ["", "api_key: ''", "api_key: ", "api_key: '${UNSET:-}'"])
def test_an_endpoint_that_needs_no_key_works_without(load: Load, key: str) -> None:
    config = load(f"providers:\n  local:\n    base_url: http://127.0.0.1:1\n    {key}\n")

    assert config.providers["local"].api_key is None
    assert config.providers["local"].key_hint is None


def test_a_key_variable_that_is_set_but_empty_is_named(load: Load) -> None:
    error = refused(load, KEYED, environ={"DEEPSEEK_API_KEY": " "})

    assert error.where == "dsh.yaml:2:14: providers.deepseek.api_key"
    assert error.message == "the environment variable DEEPSEEK_API_KEY is set but empty"


# No model


def test_without_a_model_the_message_says_what_was_looked_for_and_where(
    load: Load, tmp_path: Path
) -> None:
    environ = {"OPENAI_API_KEY": ""}
    error = missing_model_error(load(environ=environ), environ)

    assert str(error) == (
        "no model is configured: DEEPSEEK_API_KEY is not set, OPENAI_API_KEY is set but empty, and "
        f"there is no dsh.yaml in {tmp_path} or above and no {tmp_path}/user/config.yaml\n"
        "  Set DEEPSEEK_API_KEY or OPENAI_API_KEY, or write providers.NAME with base_url, api_key "
        "and models in dsh.yaml."
    )


def test_without_a_model_files_that_set_no_provider_are_named(load: Load, tmp_path: Path) -> None:
    error = missing_model_error(load("plugins: {}"), {})

    assert f"and {tmp_path}/dsh.yaml sets no providers" in error.message


def test_a_provider_without_models_is_named_with_the_route_to_write(load: Load) -> None:
    error = missing_model_error(load("providers: {local: {base_url: http://x}}"), {})

    assert "providers.local lists none" in error.message
    assert error.remedy == "Write `model: local/NAME` in the agent, or set DSH_MODEL=local/NAME."


def test_a_missing_key_names_the_variable_and_the_key_path(load: Load) -> None:
    config = load("agents: {a: {model: openai/m}}", environ={"OPENAI_API_KEY": ""})
    error = missing_key_error(config.providers["openai"], {"OPENAI_API_KEY": ""})

    assert error.message == "provider openai has no key: OPENAI_API_KEY is set but empty"
    assert error.remedy == "Set OPENAI_API_KEY, or providers.openai.api_key in dsh.yaml."
