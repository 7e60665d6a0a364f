"""Environment variables in values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.config.interpolate import has_variable, holds_rules, interpolate
from dsh_core.config.mistakes import Mistake
from dsh_core.config.source import Source
from dsh_core.config.yaml import read_document

ENVIRON = {"NAME": "value", "EMPTY": "", "BLANK": "  ", "NESTED": "${NAME}", "SECRET": "sk-123"}


def source(text: str) -> Source:
    document = read_document(text.encode(), "dsh.yaml")
    return Source("dsh.yaml", "project", document.data, places=document.places)


def interpolated(text: str, environ: dict[str, str] = ENVIRON) -> tuple[Any, list[Mistake]]:
    result, mistakes = interpolate(source(text), environ)
    return result.data, mistakes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${NAME}", "value"),
        ("a ${NAME} b ${NAME}", "a value b value"),
        ("${NAME:-other}", "value"),
        ("${UNSET:-other}", "other"),
        ("${UNSET:-}", ""),
        ("${UNSET:-a b: $c}", "a b: $c"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${NESTED}", "${NAME}"),
        ("$${NAME}", "${NAME}"),
        ("$$${NAME}", "$${NAME}"),
        ("$NAME costs $5", "$NAME costs $5"),
        ("$", "$"),
    ],
)
def test_a_value_holds_the_variables_text(text: str, value: str) -> None:
    assert interpolated(f"key: '{text}'") == ({"key": value}, [])


def test_variables_are_read_at_every_depth_of_values() -> None:
    data, mistakes = interpolated("a: {b: [x, '${NAME}', {c: '${NAME}!'}], d: 1}\n")

    assert data == {"a": {"b": ["x", "value", {"c": "value!"}], "d": 1}}
    assert not mistakes


def test_what_was_interpolated_is_remembered_as_written() -> None:
    result, _ = interpolate(source("a: ['${NAME}', '$${NAME}', x]\n"), ENVIRON)

    assert result.variables == {("a", 0): "${NAME}"}


@pytest.mark.parametrize(
    ("text", "where", "message", "remedy"),
    [
        (
            "a:\n  b: ${UNSET}\n",
            "dsh.yaml:2:3: a.b",
            "the environment variable UNSET is not set",
            "Set UNSET, or give a default: ${UNSET:-…}.",
        ),
        ("a: [x, '${']\n", "dsh.yaml:1:8: a.1", "without a plain variable name", "${NAME}"),
        ("a: ${}\n", "dsh.yaml:1:1: a", "without a plain variable name", "`$${`"),
        ("a: ${NAME-x}\n", "dsh.yaml:1:1: a", "without a plain variable name", "`$${`"),
        ("a: ${1}\n", "dsh.yaml:1:1: a", "without a plain variable name", "`$${`"),
        ("a: ${A:-${B}}\n", "dsh.yaml:1:1: a", "without a plain variable name", "`$${`"),
        ("a: {'${NAME}': 1}\n", "dsh.yaml:1:5: a.${NAME}", "values only", "Write the key out."),
        (
            "providers:\n  x:\n    api_key: ${BLANK}\n",
            "dsh.yaml:3:5: providers.x.api_key",
            "the environment variable BLANK is set but empty",
            "Set it, or write ${BLANK:-} for an endpoint that needs no key.",
        ),
    ],
)
def test_a_mistake_names_place_and_variable(
    text: str, where: str, message: str, remedy: str
) -> None:
    (mistake,) = interpolated(text)[1]

    assert mistake.where == where
    assert message in mistake.message
    assert remedy in mistake.remedy


def test_all_unset_variables_are_reported_and_no_value_is_shown() -> None:
    _, mistakes = interpolated("a: ${ONE}\nb: ${TWO} ${SECRET}\nc: ${SECRET}\n")

    assert [mistake.where for mistake in mistakes] == ["dsh.yaml:1:1: a", "dsh.yaml:2:1: b"]
    assert "sk-123" not in str(mistakes)


def test_a_variable_that_is_not_utf_8_is_refused() -> None:
    _, (mistake,) = interpolated("a: ${BAD}\n", {"BAD": "\udcff"})

    assert mistake.message == "the environment variable BAD is not UTF-8 text"


@pytest.mark.parametrize("rules", ["allow", "ask", "deny"])
def test_permission_rules_keep_their_dollars(rules: str) -> None:
    text = (
        "plugins: {permission: {RULES: ['Bash(echo ${HOME})', '$${X}'], mode: '${NAME}'}}\n"
        "agents: {a: {plugins: {permission: {RULES: ['Bash(${X})']}}}}\n"
    ).replace("RULES", rules)
    data, mistakes = interpolated(text)

    assert not mistakes
    permission = data["plugins"]["permission"]
    assert permission == {rules: ["Bash(echo ${HOME})", "$${X}"], "mode": "value"}
    assert data["agents"]["a"]["plugins"]["permission"] == {rules: ["Bash(${X})"]}


def test_only_permissions_own_lists_are_rules() -> None:
    assert holds_rules(("plugins", "permission", "deny", 0))
    assert holds_rules(("agents", "a", "plugins", "permission", "ask"))
    assert not holds_rules(("plugins", "permission"))
    assert not holds_rules(("plugins", "permission", "mode"))
    assert not holds_rules(("plugins", "other", "deny"))
    assert not holds_rules(("providers", "permission", "deny"))


@given(st.text())
def test_escaping_makes_any_text_literal(text: str) -> None:
    escaped = text.replace("${", "$${")
    result, mistakes = interpolate(Source("f", "project", {"key": escaped}), {})

    if "$${" not in text:
        assert not has_variable(escaped)
        assert result.data == {"key": text}
        assert not mistakes
