from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.codec import freeze
from dsh_core.errors import UserError
from dsh_core.tools.schema import Parameters, parameters_from_schema
from dsh_core.tools.tool import InvalidArgumentsError


def violations(parameters: Parameters, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidArgumentsError) as caught:
        parameters.validate(arguments)
    return caught.value.violations


RAW = {
    "type": "object",
    "title": "read",
    "properties": {
        "offset": {"type": "integer", "minimum": 1, "maximum": 9, "x-note": "ignored"},
        "ratio": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "name": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"},
        "unicode": {"type": "string", "pattern": r"^\p{L}+$"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        "mode": {"enum": ["r", "w", 1, None]},
        "fixed": {"const": 3},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
        "one": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 10}]},
        "both": {"allOf": [{"type": "integer"}, {"minimum": 5}]},
        "tree": {"$ref": "#/$defs/tree"},
        "open": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "closed": {
            "type": "object",
            "patternProperties": {"^x-": {"type": "integer"}},
            "additionalProperties": False,
        },
        "never": False,
        "any": True,
    },
    "additionalProperties": False,
    "$defs": {
        "tag": {"type": "string", "enum": ["a", "b"]},
        "tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/tree"}, "value": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize(
    ("name", "value", "checked"),
    [
        ("offset", "2", 2),
        ("offset", 2.0, 2),
        ("ratio", 0.5, 0.5),
        ("name", "abc", "abc"),
        ("unicode", "1", "1"),
        ("tags", '["a"]', ["a"]),
        ("pair", ["a"], ["a"]),
        ("mode", 1, 1),
        ("fixed", "3", 3),
        ("maybe", None, None),
        ("maybe", "4", 4),
        ("either", "[1]", [1]),
        ("one", 5, 5),
        ("both", "6", 6),
        ("tree", {"left": {"left": {}, "value": "1"}}, {"left": {"left": {}, "value": 1}}),
        ("open", {"a": 1, "b": "2"}, {"a": 1, "b": "2"}),
        ("env", '{"a": "b"}', {"a": "b"}),
        ("closed", {"x-a": "1"}, {"x-a": 1}),
        ("any", {"a": ["1"]}, {"a": ["1"]}),
    ],
)
def test_a_brought_schema_checks_and_coerces(name, value, checked):
    validated = parameters_from_schema(RAW).validate({name: value})

    assert validated.values == {name: checked}
    assert type(validated.values[name]) is type(checked)


@pytest.mark.parametrize(
    ("name", "value", "violation"),
    [
        ("offset", 0, "`offset`: expected at least 1, got 0"),
        ("offset", 10, "`offset`: expected at most 9, got 10"),
        ("ratio", 0, "`ratio`: expected more than 0, got 0"),
        ("ratio", 1.0, "`ratio`: expected less than 1, got 1.0"),
        ("name", "a", "`name`: expected at least 2 characters, got 1"),
        ("name", "abcd", "`name`: expected at most 3 characters, got 4"),
        ("name", "AB", "`name`: expected text that matches ^[a-z]+$, got 'AB'"),
        ("tags", [], "`tags`: expected at least 1 item, got 0"),
        ("tags", ["c"], "`tags[0]`: expected one of 'a', 'b', got 'c'"),
        ("pair", ["a", 1], "`pair[1]`: is not allowed"),
        ("mode", "x", "`mode`: expected one of 'r', 'w', 1, null, got 'x'"),
        ("mode", True, "`mode`: expected a string, an integer or null, got true"),
        ("fixed", 4, "`fixed`: expected 3, got 4"),
        ("either", "x", "`either`: expected an integer or a list, got 'x'"),
        ("one", 11, "`one`: fits more than one of the forms of which it must have one"),
        ("both", 4, "`both`: expected at least 5, got 4"),
        (
            "tree",
            {"left": {"right": 1}},
            "`tree.left.right`: unknown field; there is `left`, `value`",
        ),
        ("closed", {"y": 1}, "`closed.y`: unknown field; there is none"),
        ("never", 1, "`never`: unknown argument; there is `offset`"),
        ("ofset", 1, "`ofset`: unknown argument; did you mean `offset`?"),
    ],
)
def test_a_brought_schema_refuses(name, value, violation):
    (found,) = violations(parameters_from_schema(RAW), {name: value})

    assert found.startswith(violation)


def test_a_brought_schema_is_shown_as_it_came():
    assert parameters_from_schema(RAW).schema == RAW


def test_an_open_schema_takes_unknown_arguments_as_they_are():
    validated = parameters_from_schema({"type": "object"}).validate({"a": ["1"]})

    assert validated.values == {"a": ["1"]}
    assert validated.arguments == {"a": ("1",)}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "strng"}, "#/type"),
        ({"type": "string"}, "#/type"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": {"type": 3}}}, "#/properties/a/type"),
        ({"properties": {"a": 3}}, "#/properties/a"),
        ({"required": True}, "#/required"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "#/properties/a/$ref"),
        ({"properties": {"a": {"$ref": "https://example.org/s"}}}, "#/properties/a/$ref"),
        ({"properties": {"a": {"$ref": 3}}}, "#/properties/a/$ref"),
        ({"properties": {"a": {"minimum": "1"}}}, "#/properties/a/minimum"),
        ({"$ref": "#"}, "#"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "#"),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "#"),
    ],
    ids=str,
)
def test_what_is_no_json_schema_is_refused_with_its_key_path(schema, where):
    with pytest.raises(UserError) as caught:
        parameters_from_schema(schema)

    assert caught.value.where == where


def test_forms_that_multiply_are_given_up_and_not_tried_for_ever():
    form = {"type": "array", "items": {"$ref": "#/$defs/a"}}
    schema = {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [form, form]}}}
    value: Any = [1]
    for _ in range(40):
        value = [value]

    (violation,) = violations(parameters_from_schema(schema), {"x": value})

    assert violation == "`arguments`: has too many forms to try them all"


def test_a_frozen_schema_checks_what_it_validated_again():
    schema = freeze({"properties": {"x": {"enum": [[1], {"a": [2]}]}}})
    parameters = parameters_from_schema(schema)
    validated = parameters.validate({"x": {"a": [2]}})

    assert parameters.validate(validated.arguments) == validated
    assert parameters.schema == {"properties": {"x": {"enum": [[1], {"a": [2]}]}}}


# Properties

types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
names = st.sampled_from(["a", "b", "kind"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["", "1", "true", "a", "[1]", '{"a": "1"}']),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
references = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/nowhere"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    forms = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=3),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2),
            "additionalProperties": inner,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "["]), inner, max_size=1),
            "items": inner,
            "prefixItems": st.lists(inner, max_size=2),
            "anyOf": forms,
            "oneOf": forms,
            "allOf": forms,
            "enum": st.lists(values, max_size=3),
            "minimum": st.integers(-1, 1),
            "maxLength": st.integers(0, 2),
            "minItems": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "(", r"\p{L}"]),
        },
    )


schemas = st.recursive(
    st.booleans()
    | st.builds(dict)
    | types.map(lambda name: {"type": name})
    | references.map(lambda reference: {"$ref": reference}),
    keywords,
    max_leaves=6,
)
roots = st.fixed_dictionaries(
    {"properties": st.dictionaries(names, schemas, min_size=1, max_size=3)},
    optional={
        "required": st.lists(names, max_size=2),
        "additionalProperties": st.booleans(),
        "$defs": st.dictionaries(st.sampled_from(["a", "b"]), schemas, max_size=2),
    },
)


@given(schema=roots, arguments=st.dictionaries(names, values, max_size=3))
def test_any_schema_refuses_or_validates_any_arguments_and_keeps_what_it_validated(
    schema, arguments
):
    try:
        parameters = parameters_from_schema(schema)
        validated = parameters.validate(arguments)
    except (UserError, InvalidArgumentsError):
        return

    assert parameters.validate(validated.arguments) == validated
