import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_files.diff import diff_of
from dsh_files.settings import Settings

LIMITS = Settings()
texts = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"+x\n", b"-y\n", b"\xe9\n", b"\xe8\n"]),
    max_size=25,
).map(b"".join)


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(texts, texts, st.sampled_from([b"", b"end"]), st.sampled_from([b"", b"end"]))
def test_patch_makes_the_new_text_from_the_old(tmp_path, old, new, old_end, new_end):
    old, new = (old + old_end), (new + new_end)
    if b"\xe9" in old + new or b"\xe8" in old + new:
        old, new = (text.decode("latin-1").encode() for text in (old, new))
    diff = diff_of(old, new, LIMITS)
    path = tmp_path / "f"
    path.write_bytes(old)
    if diff.text:
        header = "--- f\n+++ f\n"
        subprocess.run(
            ["patch", "--binary", "--quiet", "f"],
            input=(header + diff.text).encode(),
            cwd=tmp_path,
            check=True,
        )
    assert (path.read_bytes() if path.exists() else b"") == new


def test_counts_are_of_lines():
    diff = diff_of(b"a\nb\nc\n", b"a\nB\nB2\nc\n", LIMITS)
    assert (diff.added, diff.removed) == (2, 1)
    assert diff.text == "@@ -1,3 +1,4 @@\n a\n-b\n+B\n+B2\n c\n"


def test_hunks_far_into_a_file_have_the_right_numbers():
    old = [b"%d\n" % number for number in range(1, 101)]
    new = [*old[:49], b"fifty\n", *old[50:]]
    diff = diff_of(b"".join(old), b"".join(new), LIMITS)
    assert diff.text.startswith("@@ -47,7 +47,7 @@\n 47\n 48\n 49\n-50\n+fifty\n 51\n")


def test_different_bytes_that_are_not_utf8_are_different_lines():
    assert diff_of(b"\xe9\n", b"\xe8\n", LIMITS).text == "@@ -1 +1 @@\n-\\xe9\n+\\xe8\n"


def test_no_change_is_an_empty_diff():
    diff = diff_of(b"a\n", b"a\n", LIMITS)
    assert (diff.text, diff.added, diff.removed, diff.is_cut) == ("", 0, 0, False)


def test_a_long_diff_is_cut_and_says_so_while_the_counts_stay_exact():
    new = b"".join(b"%06d\n" % number for number in range(4_000))
    diff = diff_of(b"", new, Settings(diff_text_limit_bytes=100))
    assert diff.is_cut
    assert len(diff.text) <= 100
    assert diff.text.endswith("\n")
    assert (diff.added, diff.removed) == (4_000, 0)


def test_two_large_texts_that_differ_everywhere_take_little_time():
    """A match in every second line makes difflib look at all lines for each of them."""
    lines = [b"%d\n" % number for number in range(200_000)]
    changed = [line if number % 2 else b"new " + line for number, line in enumerate(lines)]
    begin = time.monotonic()
    diff = diff_of(b"".join(lines), b"".join(changed), LIMITS)
    assert time.monotonic() - begin < 10
    assert diff.is_cut
    assert diff.added == diff.removed == 199_999


@pytest.mark.parametrize("old", [None, b"x" * 101])
def test_an_old_text_that_is_too_large_or_unknown_has_no_diff(old):
    diff = diff_of(old, b"new", Settings(diff_limit_bytes=100))
    assert diff.meta(Path("/ws/f"), "updated") == {
        "path": "/ws/f",
        "change": "updated",
        "diff": None,
        "diff_cut": False,
        "added_lines": None,
        "removed_lines": None,
    }
