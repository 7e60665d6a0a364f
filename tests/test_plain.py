"""Plain JSON is copied read-only; what would not survive the way to a file and back is refused."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from generated import few, json_values, nested, texts
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.codec import to_json
from dsh_core.plain import MAX_DEPTH, check, clean_text, freeze


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 1


@few
@given(json_values)
def test_freezing_loses_nothing(value: Any) -> None:
    frozen = freeze(value)

    assert to_json(frozen) == value
    assert json.loads(json.dumps(to_json(frozen))) == value


@few
@given(json_values)
def test_what_is_frozen_freezes_to_the_same(value: Any) -> None:
    assert to_json(freeze(freeze(value))) == value


def test_a_frozen_value_does_not_follow_its_source() -> None:
    inner = [1]
    source = {"list": inner, "map": {"a": inner}}
    frozen = freeze(source)

    inner.append(2)
    source["more"] = [3]

    assert to_json(frozen) == {"list": [1], "map": {"a": [1]}}


def test_a_proxy_of_a_mutable_mapping_is_copied_too() -> None:
    source = {"a": 1}
    frozen = freeze(MappingProxyType(source))

    source["a"] = 2

    assert frozen["a"] == 1


def test_a_frozen_mapping_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        freeze({"a": 1})["a"] = 2


def test_subclasses_of_the_containers_become_plain() -> None:
    assert to_json(freeze(OrderedDict(a=(1, 2)))) == {"a": [1, 2]}


def test_a_text_of_a_subclass_becomes_plain_text() -> None:
    assert type(check(Colour.RED)) is str
    assert check(Colour.RED) == "red"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "nan is not JSON"),
        (float("inf"), "inf is not JSON"),
        (-0.0, "-0.0 is not JSON"),
        (10**5000, "too large"),
        (Level.HIGH, "Level is not JSON"),
        (b"bytes", "bytes is not JSON"),
        ({1, 2}, "set is not JSON"),
        (object(), "object is not JSON"),
        ("\ud800", "lone surrogate at character 0"),
        ({"a\udfff": 1}, "lone surrogate at character 1"),
        ({1: "a"}, "key 1 is not text"),
        ({None: "a"}, "key None is not text"),
    ],
    ids=str.split("nan inf zero huge enum bytes set object half half-key int-key none-key"),
)
def test_what_json_cannot_carry_is_refused_alone_and_inside(value: Any, why: str) -> None:
    for whole in (value, [value], {"a": {"b": [value]}}):
        with pytest.raises(ValueError, match=why):
            freeze(whole)


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append({"again": circle})

    with pytest.raises(ValueError, match="contains itself"):
        freeze(circle)


def test_a_value_that_occurs_twice_is_no_circle() -> None:
    twice = ["x"]

    assert to_json(freeze([twice, {"a": twice}, twice])) == [["x"], {"a": ["x"]}, ["x"]]


def test_the_deepest_value_that_is_taken_can_be_written_and_read() -> None:
    frozen = freeze(nested(MAX_DEPTH))

    assert json.loads(json.dumps(to_json(frozen))) == nested(MAX_DEPTH)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_deeper_nesting_is_refused_without_overflow(depth: int) -> None:
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
        freeze(nested(depth))


def test_reading_repairs_lone_surrogates_in_texts_and_keys() -> None:
    assert to_json(freeze({"k\ud800": ["a\udc00b"]}, repair=True)) == {"k\ufffd": ["a\ufffdb"]}


@few
@given(st.text(st.characters()))
def test_cleaned_text_can_always_be_written(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode()
    assert clean_text(cleaned) is cleaned


@few
@given(texts)
def test_good_text_is_left_alone(text: str) -> None:
    assert clean_text(text) is text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\ud83d\ude00 ok", "😀 ok"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("é\ud83d\ude00", "é😀"),
    ],
)
def test_halves_are_joined_and_lone_ones_replaced(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned
