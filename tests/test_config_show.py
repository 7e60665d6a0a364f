"""`dsh config show` and `dsh config schema`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, SecretStr

from dsh_core.config.load import load_config
from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.config.schema import AgentSection, ConfigFile, ModelSection, ProviderSection
from dsh_core.config.show import effective, json_schema, render
from dsh_core.config.trust import TrustStore
from dsh_core.config.yaml import read_document

PROJECT = """\
default_agent: coder
providers:
  lan:
    base_url: https://${HOST}/v1
    api_key: ${KEY}
    headers: {X-Api-Key: literal, Authorization: "Bearer ${KEY}", X-Team: a}
    models: {m: {context_window_tokens: 4096, parameters: {temperature: 0.70}}}
agents:
  coder:
    model: lan/m
    system_prompt: |
      Be brief.
      Say "no" to ${X:-nothing}.
    tools: ['on', "1.10", read]
    plugins: {permission: {deny: [Edit]}, web: false}
plugins:
  permission: {deny: [Bash, "Read(${A})"]}
  search: {token: literal, engine: '${ENGINE}', depth: 2}
  off: false
""".replace("  off:", "  'off':")

ENVIRON = {"HOST": "h", "KEY": "sk-secret", "ENGINE": "e-secret"}


@pytest.fixture
def config(tmp_path: Path) -> HarnessConfig:
    home = tmp_path / "user"
    home.mkdir()
    (home / "config.yaml").write_text(
        "plugins:\n"
        "  permission: {deny: [Write, Bash], mode: ask}\n"
        "  'off': {k: 1}\n"
        "  search: {engine: x}\n"
    )
    (tmp_path / "dsh.yaml").write_text(PROJECT)
    store = TrustStore(home)
    store.trust(tmp_path / "dsh.yaml", PROJECT.encode())
    environ = {**ENVIRON, "HOME": str(tmp_path), "DSH_USER_DIR": str(home)}
    return load_config(
        cwd=tmp_path,
        environ={**environ, "DSH_PLUGINS__SEARCH__DEPTH": "3", "DSH_PLUGINS__OFF__K": "2"},
        overrides=["providers.lan.models.m.reasoning=drop"],
        blocked=["web"],
        safe=True,
        trust=store,
    )


def test_the_settings_in_effect_have_the_files_shape(config: HarnessConfig) -> None:
    data = effective(config)

    assert list(data) == ["default_agent", "providers", "agents", "plugins", "autoload"]
    assert data["providers"]["lan"]["models"]["m"] == {
        "context_window_tokens": 4096,
        "reasoning": "drop",
        "parameters": {"temperature": 0.7},
    }
    assert data["agents"]["coder"]["tools"] == ["on", "1.10", "read"]
    assert data["agents"]["coder"]["plugins"] == {"permission": {"deny": ["Edit"]}, "web": False}
    assert data["plugins"]["off"] is False


def test_permission_rules_add_up_and_other_settings_replace(config: HarnessConfig) -> None:
    plugins = effective(config)["plugins"]

    assert plugins["permission"] == {"deny": ["Write", "Bash", "Read(${A})"], "mode": "ask"}
    assert plugins["search"]["depth"] == 3


def test_secrets_are_stars_and_variables_stay_names(config: HarnessConfig) -> None:
    data = effective(config)
    provider = data["providers"]["lan"]

    assert provider["api_key"] == "**********"
    assert provider["base_url"] == "https://${HOST}/v1"
    assert provider["headers"] == {
        "X-Api-Key": "**********",
        "Authorization": "**********",
        "X-Team": "a",
    }
    assert data["plugins"]["search"] == {"token": "**********", "engine": "${ENGINE}", "depth": 3}
    for text in (json.dumps(data), render(config)):
        assert "-secret" not in text
        assert "literal" not in text


def test_settings_that_plugins_validated_are_shown_in_place_of_layers(
    config: HarnessConfig,
) -> None:
    validated = {"search": {"engine": "e-secret", "depth": 3, "key": SecretStr("k"), "on": [1]}}
    data = effective(config, validated)

    assert data["plugins"]["search"] == {
        "engine": "${ENGINE}",
        "depth": 3,
        "key": "**********",
        "on": [1],
    }


def test_what_is_shown_can_be_read_back(config: HarnessConfig) -> None:
    assert read_document(render(config).encode(), "shown").data == effective(config)
    assert read_document(render(config, origins=False).encode(), "s").data == effective(config)


def test_each_value_names_its_origin(config: HarnessConfig, tmp_path: Path) -> None:
    lines = {line.strip() for line in render(config).splitlines()}

    assert "model: lan/m  # dsh.yaml:10:5" in lines
    assert "reasoning: drop  # -s" in lines
    assert "depth: 3  # DSH_PLUGINS__SEARCH__DEPTH" in lines
    assert "mode: ask  # user/config.yaml:2:37" in lines
    assert f"# files: {tmp_path}/user/config.yaml, {tmp_path}/dsh.yaml" in lines
    assert "# safe: built-in plugins only" in lines
    assert "# blocked: web" in lines
    assert "dsh.yaml:" not in render(config, origins=False)


def test_notes_are_shown_first() -> None:
    text = render(HarnessConfig(notes=("dsh.yaml:1: providers is ignored",)))

    assert text.splitlines()[1] == "# dsh.yaml:1: providers is ignored"


def test_a_configuration_built_in_code_can_be_shown() -> None:
    layers = (Layer("code", {"k": (1, "a"), "m": {"a": 1, "b": 1}}), Layer("more", {"m": {"b": 2}}))
    config = HarnessConfig(plugins={"p": layers})

    assert effective(config)["plugins"] == {"p": {"k": [1, "a"], "m": {"a": 1, "b": 2}}}


texts = st.text(max_size=30)
plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=15,
)


@given(st.dictionaries(texts, plain_data, max_size=4))
@settings(max_examples=75, deadline=None)
def test_any_setting_survives_being_shown_and_read(values: dict[str, Any]) -> None:
    config = HarnessConfig(plugins={"p": (Layer("code", values),)})
    data = effective(config)

    assert read_document(render(config).encode(), "shown").data == data


# The schema


class Limits(BaseModel):
    seconds: float = 5


class Settings(BaseModel):
    """Settings of a plugin."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    folder: str
    """Where results go."""

    limits: Limits = Limits()
    retries: int = 3
    """How often."""


@pytest.fixture
def schema() -> dict[str, Any]:
    return json_schema({"search": Settings.model_json_schema()})


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from walk(item)


def test_the_schema_is_one_document_of_the_2020_dialect(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(schema)) == schema
    references = {each["$ref"] for each in walk(schema) if isinstance(each.get("$ref"), str)}
    assert "#/$defs/plugin.search.Limits" in references
    for reference in references:
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def test_settings_of_plugins_are_completed_for_the_harness_and_for_agents(
    schema: dict[str, Any],
) -> None:
    agents = schema["$defs"]["AgentSection"]["properties"]["plugins"]
    for plugins in (schema["properties"]["plugins"], agents):
        assert plugins["properties"]["search"] == {
            "anyOf": [{"$ref": "#/$defs/plugin.search"}, {"type": ["boolean", "null"]}]
        }
        assert plugins["additionalProperties"] == {"type": ["object", "boolean", "null"]}


def test_a_file_may_give_a_part_of_a_plugins_settings(schema: dict[str, Any]) -> None:
    assert "required" not in schema["$defs"]["plugin.search"]
    assert schema["$defs"]["plugin.search"]["additionalProperties"] is False


def test_numbers_and_booleans_may_be_variables_except_the_switch_of_plugins(
    schema: dict[str, Any],
) -> None:
    retries = schema["$defs"]["plugin.search"]["properties"]["retries"]

    assert retries["description"] == "How often."
    assert retries["anyOf"] == [{"type": "integer"}, {"type": "string", "pattern": r"\$\{"}]
    assert schema["properties"]["autoload"]["type"] == "boolean"


@pytest.mark.parametrize("model", [ConfigFile, ProviderSection, ModelSection, AgentSection])
def test_every_key_is_described_with_the_reason_for_its_default(
    schema: dict[str, Any], model: type[BaseModel]
) -> None:
    section = schema if model is ConfigFile else schema["$defs"][model.__name__]

    for name in model.model_fields:
        assert len(section["properties"][name].get("description", "")) > 30, name


def test_the_schema_without_plugins_stands_alone() -> None:
    assert json_schema({})["properties"]["plugins"]["properties"] == {}
