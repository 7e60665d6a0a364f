"""The strict YAML reader."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_core.config import yaml as reader
from dsh_core.config.yaml import LIMIT_BYTES, Document, read_document, read_value
from dsh_core.errors import ConfigError

PARSERS = [pytest.param(pyyaml.SafeLoader, id="python")]
if pyyaml.__with_libyaml__:
    PARSERS.append(pytest.param(pyyaml.CSafeLoader, id="libyaml"))


@pytest.fixture(params=PARSERS, autouse=True)
def parser(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_LOADER", request.param)
        yield request.node.callspec.id


def read(text: str) -> Document:
    return read_document(text.encode(), "dsh.yaml")


def refused(text: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read_document(text.encode() if isinstance(text, str) else text, "dsh.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-12", -12),
        ("+3", 3),
        ("1.10", 1.1),
        ("-.5", -0.5),
        ("2.", 2.0),
        ("1.0e3", 1000.0),
        ("1.5e-3", 0.0015),
        ("08080", "08080"),
        ("0123", "0123"),
        ("0x10", "0x10"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("1e3", "1e3"),
        ("12:30", "12:30"),
        ("2026-01-02", "2026-01-02"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1.0e999", "1.0e999"),
        ("9" * 5000, "9" * 5000),
        ("=", "="),
        ("y", "y"),
        ("north", "north"),
        ("a b", "a b"),
        ("'yes'", "yes"),
        ('"1.10"', "1.10"),
        ("'null'", "null"),
        ("|\n  on\n", "on\n"),
    ],
)
def test_a_scalar_is_read_as_it_looks_or_stays_text(written: str, value: object) -> None:
    data = read(f"key: {written}\n").data["key"]

    assert data == value
    assert type(data) is type(value)


def test_a_number_keeps_its_text_for_places_that_want_text() -> None:
    document = read("model: 1.10\nlist: [7, x, 2.50]\nflag: true\nquoted: '3'\n")

    assert document.written == {("model",): "1.10", ("list", 0): "7", ("list", 2): "2.50"}


CASE_148 = """\
name: no
model: 1.10
description: on
tools: [on, off, read]
limits: {steps: 1e3, timeout: 12:30, mode: 0123}
env: {COUNTRY: NO, EMPTY: , NULLISH: null, TILDE: ~, FLAG: yes, PORT: 08080, HEX: 0x10, \
DATE: 2026-01-02}
"""


def test_every_word_that_yaml_versions_disagree_on_is_refused_by_place() -> None:
    message = str(refused(CASE_148))

    for place in (
        "dsh.yaml:1:1: name: unquoted `no`",
        "dsh.yaml:3:1: description: unquoted `on`",
        "dsh.yaml:4:9: tools.0: unquoted `on`",
        "dsh.yaml:4:13: tools.1: unquoted `off`",
        "dsh.yaml:6:7: env.COUNTRY: unquoted `NO`",
        "dsh.yaml:6:54: env.FLAG: unquoted `yes`",
    ):
        assert place in message
    assert "Write 'NO' in quotes for text, or false for a boolean." in message
    assert len(message.splitlines()) == 7


def test_quotes_make_them_text_and_nothing_else_changes_its_type() -> None:
    text = CASE_148
    for word in (" no", " on", " off", " NO", " yes"):
        text = text.replace(f"{word}\n", f" '{word.strip()}'\n")
        text = text.replace(f"{word},", f" '{word.strip()}',")
    document = read(text.replace("[on,", "['on',"))

    assert document.data == {
        "name": "no",
        "model": 1.1,
        "description": "on",
        "tools": ["on", "off", "read"],
        "limits": {"steps": "1e3", "timeout": "12:30", "mode": "0123"},
        "env": {
            "COUNTRY": "NO",
            "EMPTY": None,
            "NULLISH": None,
            "TILDE": None,
            "FLAG": "yes",
            "PORT": "08080",
            "HEX": "0x10",
            "DATE": "2026-01-02",
        },
    }
    assert document.written == {("model",): "1.10"}


@pytest.mark.parametrize("word", ["yes", "No", "ON", "off", "True", "FALSE", "tRuE"])
def test_only_lower_case_true_and_false_are_booleans(word: str) -> None:
    error = refused(f"flag: {word}\n")

    assert error.where == "dsh.yaml:1:1: flag"
    boolean = "true" if word.lower() in {"yes", "on", "true"} else "false"
    assert error.remedy == f"Write '{word}' in quotes for text, or {boolean} for a boolean."


@pytest.mark.parametrize(
    ("text", "where", "message", "remedy"),
    [
        (
            "a: 1\nb: 2\na: 3\n",
            "dsh.yaml:3:1: a",
            "the key is set twice, first on line 1",
            "Keep one.",
        ),
        (
            "x: {b: 1, b: 2}\n",
            "dsh.yaml:1:11: x.b",
            "the key is set twice, first on line 1",
            "Keep",
        ),
        ("a:\n\tb: 1\n", "dsh.yaml:2:1", "a tab stands where YAML wants spaces", "Replace the tab"),
        ("a:\n  b: 1\n\tc: 2\n", "dsh.yaml:3:1", "a tab stands where", "Replace the tab"),
        ("a:\n  - \tx\n", "dsh.yaml:2:5", "a tab stands where", "Replace the tab"),
        ("on: push\n", "dsh.yaml:1:1", "the key `on` is not text", "Write 'on' in quotes."),
        ("8080: x\n", "dsh.yaml:1:1", "the key `8080` is not text", "Write '8080' in quotes."),
        ("m: {4.1: x}\n", "dsh.yaml:1:5: m", "the key `4.1` is not text", "Write '4.1' in quotes."),
        ("null: x\n", "dsh.yaml:1:1", "the key `null` is not text", "in quotes."),
        ("? \n: 1\n", "dsh.yaml:1:2", "a key is missing before `:`", "Write one."),
        ("a: 'x' y\n", "dsh.yaml:1:8", "this line does not continue", "Check its indentation"),
        ("a: 1\n b: 2\n", "dsh.yaml:2:3", "a second `: ` stands on this line", "indentation"),
        ("a: 1\nb\nc: 2\n", "dsh.yaml:3:1", "a key without `:`", "Write `key: value`"),
        ("? [a]\n: 1\n", "dsh.yaml:1:3", "a mapping or list is used as a key", "Keys are text."),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            "dsh.yaml:3:3: c",
            "merge keys (<<)",
            "Write the keys out",
        ),
        ("a: !!python/name:os.system x\n", "dsh.yaml:1:4", "tags are not read", "Remove it"),
        ("a: !!int '3'\n", "dsh.yaml:1:4", "found `!!int`", "quotes make text"),
        ("a: !mine {}\n", "dsh.yaml:1:4", "found `!mine`", "Remove it"),
        ("a: 1\n---\nb: 2\n", "dsh.yaml:2:1", "a second document", "Remove the `---` line"),
        (
            "- a\n- b\n",
            "dsh.yaml:1:1",
            "the file must be a mapping, found a list",
            "Begin with keys",
        ),
        ("just text\n", "dsh.yaml:1:1", "must be a mapping, found text that is not shown", "Begin"),
        (
            "a: b: c\n",
            "dsh.yaml:1:5",
            "a second `: ` stands on this line",
            "Put the text in quotes",
        ),
        ("a: @home\n", "dsh.yaml:1:4", "unquoted text cannot start with `@`", "in quotes"),
        ("a: `ls`\n", "dsh.yaml:1:4", "unquoted text cannot start with ```", "in quotes"),
        ("a: *all\n", "dsh.yaml:1:4", "an alias (*) without its anchor (&)", "starts with `*`"),
        ("a: &x [*x]\n", "dsh.yaml:1:4: a.0", "an anchor contains an alias of itself", "Write the"),
        ("a: {k: ${KEY}}\n", "dsh.yaml:1:9", "`${NAME}` without quotes in brackets", "quotes"),
        ("a: 'open\n", "dsh.yaml:2:1", "found unexpected end of stream", "Check quotes"),
        ("a: \x07\n", "dsh.yaml:1", "the file holds a control character", "Remove or escape it."),
    ],
)
def test_a_bad_file_is_refused_with_place_and_remedy(
    text: str, where: str, message: str, remedy: str
) -> None:
    error = refused(text)

    assert error.where == where
    assert message in error.message
    assert remedy in (error.remedy or "")


def test_all_mistakes_that_do_not_hide_each_other_are_reported_in_order() -> None:
    lines = str(refused("b: yes\n" + "x: 1\n" * 10)).splitlines()

    assert lines[0] == "10 mistakes in the configuration"
    assert lines[1].startswith("  dsh.yaml:1:1: b: unquoted `yes`")
    assert [line.split(":")[1] for line in lines[2:]] == [str(n) for n in range(3, 12)]


@pytest.mark.parametrize("text", ["", "\n", "# nothing here\n", "---\n", "~\n", "\ufeff"])
def test_an_empty_file_is_an_empty_mapping(text: str) -> None:
    assert read(text).data == {}


def test_a_byte_order_mark_and_windows_line_ends_are_read_over() -> None:
    document = read("\ufeffa: 1\r\nb:\r\n  c: x\r\n")

    assert document.data == {"a": 1, "b": {"c": "x"}}
    assert document.places[("b", "c")] == (3, 3)


def test_bytes_that_are_not_utf_8_are_refused_by_line() -> None:
    error = refused("a: 1\nb: café\n".encode("latin-1"))

    assert error.where == "dsh.yaml:2"
    assert error.message == "byte 0xe9 is not UTF-8"


@pytest.mark.parametrize("escape", ["\\ud800", "\\UFFFFFFFF", "\\U00110000"])
def test_an_escape_that_is_no_character_is_refused(escape: str) -> None:
    assert (refused(f'a: "x{escape}"\n').where or "").startswith("dsh.yaml")


def test_places_are_those_of_keys_and_of_list_items() -> None:
    document = read("a:\n  b: [1,\n      2]\n  c:\n    - d: x\n")

    assert document.places == {
        (): (1, 1),
        ("a",): (1, 1),
        ("a", "b"): (2, 3),
        ("a", "b", 0): (2, 7),
        ("a", "b", 1): (3, 7),
        ("a", "c"): (4, 3),
        ("a", "c", 0): (5, 7),
        ("a", "c", 0, "d"): (5, 7),
    }


def test_an_alias_is_a_copy_of_its_anchor() -> None:
    data = read("a: &x {list: [1]}\nb: *x\nc: [*x]\n").data

    assert data["a"] == data["b"] == data["c"][0] == {"list": [1]}
    assert data["a"] is not data["b"]


@pytest.mark.parametrize("text", ["a: " + "[" * 200_000, "a: " + "{x: " * 5000, "- " * 500])
def test_nesting_without_end_is_refused(text: str) -> None:
    assert refused(text).message == "values nest deeper than 100 levels"


def test_nesting_up_to_the_limit_is_read() -> None:
    data: Any = read("a: " + "[" * 99 + "]" * 99).data["a"]
    for _ in range(98):
        (data,) = data

    assert data == []


def test_a_small_file_cannot_become_a_large_one_through_aliases() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        aliases = ", ".join([f"*a{level - 1}"] * 9)
        levels.append(f"a{level}: &a{level} [{aliases}]")

    assert refused("\n".join(levels)).message == "aliases make this document too large"


def test_a_large_file_is_refused_before_it_is_parsed() -> None:
    error = refused(b"a: " + b"x" * LIMIT_BYTES)

    assert error.message == "the file has more than 1048576 bytes"


def as_yaml(value: Any) -> str:
    """Write flow YAML by the specification, independently of our own writer."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        case str():
            safe = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
            return '"' + "".join(safe) + '"'
        case list():
            return "[" + ", ".join(map(as_yaml, value)) + "]"
        case _:
            return "{" + ", ".join(f"{as_yaml(k)}: {as_yaml(v)}" for k, v in value.items()) + "}"


YAML_LETTERS = "ab:-[]{}#&*!|>'\"%@`\\U dF08x1.\n\t,?~<="

plain_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner),
    max_leaves=20,
)


@given(plain_data)
@settings(max_examples=75, deadline=None)
def test_plain_data_survive_writing_and_reading(data: Any) -> None:
    assert read_value(as_yaml(data), "data").data == data


@given(st.text(max_size=60) | st.text(alphabet=YAML_LETTERS, max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused_and_never_breaks_the_reader(text: str) -> None:
    with contextlib.suppress(ConfigError):
        json.dumps(read_document(text.encode(), "dsh.yaml").data).encode()
