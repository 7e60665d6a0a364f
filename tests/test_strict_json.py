"""Whichever parser is installed, the same is JSON and the same is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dsh_core.adapters.openai_chat.failures import Failures
from dsh_core.adapters.openai_chat.reply import Reply
from dsh_core.adapters.strict_json import parser
from dsh_core.chunks import TextDelta

Parse = Callable[[bytes | str], Any]


@pytest.fixture(params=["orjson", "pydantic_core"])
def parse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parse]:
    """Each parser in turn, as if the other were not installed."""
    if request.param == "orjson":
        pytest.importorskip("orjson", reason="the extra `fast` is not installed")
    else:
        monkeypatch.setitem(sys.modules, "orjson", None)
    parser.cache_clear()
    yield parser()
    parser.cache_clear()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        ('"\u00e9"'.encode(), "\u00e9"),
        ('{"text": "\u00e9"}', {"text": "\u00e9"}),
        (b" 1 ", 1),
    ],
)
def test_json_is_parsed(parse: Parse, text: bytes | str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [b"", b"[DONE]", b"NaN", b"-Infinity", b'"\\ud83d"', b'"\xff"', b"{} {}", b"[" * 100_000],
)
def test_what_is_not_strict_json_is_refused(parse: Parse, text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each parser has words of its own
        parse(text)


def test_a_lone_surrogate_in_text_is_refused(parse: Parse) -> None:
    with pytest.raises((TypeError, ValueError)):
        parse('{"a": "\ud83d"}')


@pytest.mark.parametrize(
    ("escaped", "text"),
    [(b"\\ud83d", "\ufffd"), (b"\\ud83d\\ude00", "\U0001f600"), (b"\xff", "\ufffd")],
)
def test_a_chunk_with_damaged_text_is_read_the_same(
    parse: Parse, escaped: bytes, text: str
) -> None:
    reply = Reply(Failures("http://127.0.0.1", "the key", []))
    reply.take(b'{"choices":[{"index":0,"delta":{"content":"a%bb"}}]}' % escaped)

    assert TextDelta(0, f"a{text}b") in reply.out


def test_with_orjson_the_adapter_does_not_import_pydantic() -> None:
    pytest.importorskip("orjson", reason="the extra `fast` is not installed")
    code = (
        "import sys\n"
        "from dsh_core.adapters.strict_json import parser\n"
        "parser()(b'{}')\n"
        "print([m for m in sys.modules if m.startswith('pydantic')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"
