import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dsh_core.errors import ToolError
from dsh_files.replacement import replace_text

TOKEN = b"<<<unique token>>>"


def replaced(body, old, new, *, replace_all=False):
    result = replace_text(body, old.encode(), new.encode(), replace_all=replace_all, written="f")
    return result.data


def failure(body, old, new="new"):
    with pytest.raises(ToolError) as caught:
        replaced(body, old, new)
    return caught.value


def test_lf_matches_crlf_and_new_lines_become_crlf():
    body = b"alpha\r\nbeta\r\ngamma\r\ndelta\r\n"
    assert replaced(body, "beta\ngamma", "BETA\nx\nGAMMA") == (
        b"alpha\r\nBETA\r\nx\r\nGAMMA\r\ndelta\r\n"
    )


def test_crlf_in_the_arguments_matches_lf_and_stays_lf():
    assert replaced(b"a\nb\nc\n", "a\r\nb", "x\r\ny") == b"x\ny\nc\n"


def test_a_file_without_any_newline_takes_the_new_text_as_it_is():
    assert replaced(b"a", "a", "b\r\nc") == b"b\r\nc"


def test_an_old_string_may_begin_and_end_with_a_newline():
    assert replaced(b"a\r\nb\r\nc", "\nb\n", "\n") == b"a\r\nc"
    assert replaced(b"a\r\n\r\nb", "\n\n", "\n") == b"a\r\nb"


def test_in_a_mixed_file_unchanged_lines_keep_their_endings():
    body = b"one\r\ntwo\nthree\r\nfour\n"
    assert replaced(body, "one\ntwo\nthree\nfour", "one\nTWO\nthree\nnew\nfour") == (
        b"one\r\nTWO\nthree\r\nnew\r\nfour\n"
    )


def test_in_a_mixed_file_a_changed_line_keeps_its_ending():
    assert replaced(b"one\r\ntwo\nthree", "one\ntwo", "ONE\nTWO") == b"ONE\r\nTWO\nthree"
    assert replaced(b"one\ntwo\r\nthree", "two\nthree", "TWO\nthree") == b"one\nTWO\r\nthree"


def test_in_a_mixed_file_added_lines_end_like_the_line_before():
    assert replaced(b"a\nb\r\nc\n", "c", "c\nd") == b"a\nb\r\nc\r\nd\n"
    assert replaced(b"a\r\nb\n", "a", "x\ny") == b"x\r\ny\r\nb\n"


def test_two_occurrences_are_refused_with_their_count():
    error = failure(b"x = 1\nx = 1\n", "x = 1")
    assert error.code == "FS_AMBIGUOUS_EDIT"
    assert "occurs 2 times" in str(error)


def test_occurrences_that_overlap_are_ambiguous_too():
    assert failure(b"aaa", "aa").code == "FS_AMBIGUOUS_EDIT"
    assert failure(b"\r\n\r\n\r\n", "\n\n").code == "FS_AMBIGUOUS_EDIT"


def test_one_crlf_is_one_occurrence():
    assert replaced(b"a\r\nb", "\nb", "\nc") == b"a\r\nc"
    assert replaced(b"a\r\nb", "\n", "-") == b"a-b"


def test_replace_all_replaces_each_once_and_leaves_the_rest():
    assert replaced(b"x y x\r\nx", "x", "xx", replace_all=True) == b"xx y xx\r\nxx"
    assert replaced(b"aaaa", "aa", "b", replace_all=True) == b"bb"


def test_what_does_not_occur_is_refused_with_advice():
    error = failure(b"abc", "1: abc")
    assert error.code == "FS_EDIT_NOT_FOUND"
    assert "without the line numbers" in str(error)


def test_a_replacement_character_copied_from_read_is_explained():
    assert "bytes that are not UTF-8" in str(failure(b"caf\xe9", "caf\ufffd"))


def test_patterns_and_backslashes_are_literal():
    assert replaced(b"a.*(b)\\1", "a.*(b)\\1", "\\g<0>\\n") == b"\\g<0>\\n"


lines = st.lists(
    st.tuples(
        st.binary(max_size=6).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"")),
        st.sampled_from([b"\n", b"\r\n", b"\r", b""]),
    ).map(b"".join),
    max_size=8,
).map(b"".join)
new_texts = st.text(alphabet="aé{\\ ", max_size=6)


@given(lines, lines, new_texts)
@example(b"\r", b"\n", "")
def test_editing_one_unique_token_changes_only_its_bytes(before, after, new):
    body = before + TOKEN + after
    assert replaced(body, TOKEN.decode(), new) == before + new.encode() + after


@given(lines, lines, st.sampled_from(["\n", "\r\n"]))
def test_editing_across_a_line_end_changes_only_the_bytes_asked_for(before, after, newline):
    assume(not before.endswith(b"\r"))
    body = before + b"<first>\r\n<second>" + after
    edited = replaced(body, f"<first>{newline}<second>", f"<FIRST>{newline}<second>")
    assert edited == before + b"<FIRST>\r\n<second>" + after


@given(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"c\n", b"d\r\n"]), min_size=2, max_size=8))
def test_in_a_mixed_file_lines_that_stay_are_byte_identical(parts):
    body = b"".join(parts)
    old = body.replace(b"\r\n", b"\n").decode()
    edited = replaced(body + b"end", f"{old}end", f"{old}new")
    assert edited == body + b"new"


@given(lines, st.integers(2, 4), new_texts)
def test_replace_all_is_every_single_replacement(between, count, new):
    assume(TOKEN not in between)
    body = between.join([TOKEN] * count)
    edited = replaced(body, TOKEN.decode(), new, replace_all=True)
    assert edited == between.join([new.encode()] * count)
