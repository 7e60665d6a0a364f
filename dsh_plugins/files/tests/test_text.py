import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import ToolError
from dsh_files.text import (
    encoded,
    is_mostly_utf8,
    is_utf8,
    line_ending,
    lines_of,
    refuse_unless_text,
    with_line_ending,
)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_other_unicode_encodings_are_refused_by_name(encoding):
    data = ("" if encoding != "utf-16-be" else "\ufeff") + "text"
    with pytest.raises(ToolError, match=r"UTF-(16|32) \((little|big) endian\)") as caught:
        refuse_unless_text(data.encode(encoding), "f")
    assert caught.value.code == "FS_NOT_TEXT"


def test_a_nul_byte_near_the_start_means_no_text():
    with pytest.raises(ToolError, match="NUL byte at position 3") as caught:
        refuse_unless_text(b"abc\0", "f")
    assert caught.value.code == "FS_NOT_TEXT"
    refuse_unless_text(b"x" * 8192 + b"\0", "f")


@pytest.mark.parametrize("data", [b"", b"plain", "é".encode(), b"caf\xe9", b"\xef\xbb\xbfbom"])
def test_everything_else_is_text(data):
    refuse_unless_text(data, "f")


def test_legacy_encodings_are_told_from_damaged_utf8():
    assert is_mostly_utf8(b"ascii")
    assert is_mostly_utf8("naïve résumé".encode())
    assert is_mostly_utf8("schöne Grüße".encode() + b"\xff")
    for text, encoding in [("naïve", "latin-1"), ("中文文本测试", "gbk"), ("日本語", "shift-jis")]:
        data = text.encode(encoding)
        assert not is_utf8(data)
        assert not is_mostly_utf8(data)


def test_a_lone_surrogate_is_refused_naming_the_argument():
    with pytest.raises(ToolError, match="content holds a lone surrogate at character 2"):
        encoded("ab\ud99c", "content")


@pytest.mark.parametrize(
    ("data", "ending"),
    [(b"a\r\nb\r\n", b"\r\n"), (b"a\nb", b"\n"), (b"a\r\nb\n", None), (b"a\rb", None), (b"", None)],
)
def test_the_line_ending_is_the_one_all_lines_have(data, ending):
    assert line_ending(data) == ending


@given(st.text(alphabet="ab\r\n").map(str.encode))
def test_writing_line_endings_leaves_nothing_but_that_ending(data):
    assert line_ending(with_line_ending(data, b"\r\n")) in (b"\r\n", None)
    assert b"\r\n" not in with_line_ending(data.replace(b"\r", b""), b"\n")


@given(st.binary())
def test_lines_joined_are_the_data(data):
    lines = lines_of(data)
    assert b"".join(lines) == data
    assert all(line.endswith(b"\n") for line in lines[:-1])
    assert b"" not in lines
