"""Exact counts, by a real tokenizer made here."""

from __future__ import annotations

import sys

import pytest
from compaction_stage import bounded, fetches, staged, summarising

from dsh_compaction import compact
from dsh_compaction.tokenizer import INLINE_CHARACTERS, Tokenizer
from dsh_core import ConfigError, Message, Reasoning, Text, ToolCall, ToolResult
from dsh_core.testing.behaviours import reply


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A tokenizer that knows whole words: one token each."""
    library = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "one": 1, "two": 2, "lorem": 3, "ipsum": 4, "read": 5}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


async def test_every_kind_of_text_is_counted(file):
    tokenizer = Tokenizer(file)
    messages = (
        Message("user", (Text("one two"),)),
        Message("assistant", (Reasoning("one"), ToolCall("c", "read", " one"))),
        Message("user", (ToolResult("c", (Text("two two two"),)),)),
    )

    assert await tokenizer.count(messages) == 2 + 1 + 2 + 3 + 3 * 4


async def test_long_texts_are_counted_too(file):
    text = "one " * INLINE_CHARACTERS

    assert await Tokenizer(file).count((Message("user", (Text(text),)),)) == INLINE_CHARACTERS + 4


async def test_with_one_the_estimate_is_exact(file):
    settings = {"tokenizer": str(file)}
    work = [fetches(1200), reply("one " * 10)]
    async with staged(summarising(*work, summary="one two"), settings=settings) as s:
        await s.run("one two")
        assert await s.harness.llm.measure(None, (Message("user", (Text("one two"),)),)) == 6
        assert (await bounded(compact(s.agent))).outcome == "compacted"


def test_a_missing_or_broken_file_says_what_to_give(tmp_path):
    for path in (tmp_path / "missing.json", tmp_path / "broken.json"):
        if path.stem == "broken":
            path.write_text("{}")
        with pytest.raises(ConfigError) as caught:
            Tokenizer(path)
        assert caught.value.where == "plugins.compaction.tokenizer"
        assert path.name in str(caught.value)
        assert "tokenizer.json that is published with the model" in str(caught.value)


def test_without_the_library_the_command_to_get_it_is_said(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)

    with pytest.raises(ConfigError, match=r"pip install 'dsh-compaction\[tokenizer\]'"):
        Tokenizer(file)


async def test_a_start_with_a_broken_one_fails_naming_the_setting(tmp_path):
    with pytest.raises(ConfigError, match=r"plugins\.compaction\.tokenizer"):
        async with staged(settings={"tokenizer": str(tmp_path / "none.json")}):
            raise AssertionError("unreachable")
