import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.errors import ToolError
from dsh_files.globs import Glob, split_base


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("a.py", ["a.py", "x/a.py"], ["aXpy", "ba.py"]),
        ("/a.py", ["a.py"], ["x/a.py"]),
        ("./a.py", ["a.py"], []),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/a.py", "src/x/y/a.py"], ["a.py", "lib/a.py"]),
        ("**/test/*.py", ["test/a.py", "x/y/test/a.py"], ["test/x/a.py", "xtest/a.py"]),
        ("**/a/**/b", ["a/b", "x/a/y/z/b"], ["ab", "a/bc"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "srcs/a"]),
        ("src/", ["src/a", "src/x/y"], ["src"]),
        ("**", ["a", "x/y"], []),
        ("?.py", ["a.py"], ["ab.py", ".py", "/.py"]),
        ("[abc].py", ["a.py", "x/c.py"], ["d.py"]),
        ("[!abc].py", ["d.py"], ["a.py", "/.py"]),
        ("[^a-c].py", ["d.py"], ["b.py"]),
        ("[]x].py", ["].py", "x.py"], ["y.py"]),
        ("[a&&b~|^].py", ["&.py", "^.py", "~.py"], ["c.py"]),
        ("[id.py", ["[id.py"], ["i.py"]),
        (r"\[id\].py", ["[id].py"], ["i.py"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js", "a.{ts,tsx}"]),
        ("{src,lib}/**/*.py", ["src/a.py", "lib/x/a.py"], ["a.py"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"], ["acf"]),
        ("{a}.py", ["{a}.py"], ["a.py"]),
        ("{a,b.py", ["{a,b.py"], ["a"]),
        ("{{x}}.py", ["{{x}}.py"], []),
        ("a{,b}", ["a", "ab"], ["b"]),
        (r"\{a,b\}", ["{a,b}"], ["a", "b"]),
        ("日*.txt", ["日本.txt"], ["本.txt"]),
        ("a.*.b*c", ["a.x.bc", "a..bxc"], ["a.x.bxd"]),
    ],
)
def test_what_patterns_match(pattern, matching, other):
    glob = Glob(pattern)
    assert [path for path in matching if not glob.matches(path)] == []
    assert [path for path in other if glob.matches(path)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "empty"),
        ("/", "empty"),
        ("a\0", "NUL"),
        ("!*.py", "takes no `!`"),
        ("[z-a]", "bad character range"),
        ("{a,b}" * 20, "more than 256"),
        ("{" + ",".join("ab" * 200) + "}", "more than 256"),
        ("a" * 5_000, "longer than 4,096"),
    ],
)
def test_patterns_that_cannot_be_used_say_why(pattern, words):
    with pytest.raises(ToolError, match=words) as caught:
        Glob(pattern)
    assert caught.value.code == "SEARCH_INVALID_PATTERN"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("**/a/" * 30 + "b", "a/" * 60 + "c"),
        ("**/*a*/" * 30 + "b", "aa/" * 60 + "c"),
        ("{*a,a*}" * 8 + "b", "a" * 200),
    ],
)
def test_no_pattern_takes_long(pattern, path):
    begin = time.monotonic()
    assert not Glob(pattern).matches(path)
    assert time.monotonic() - begin < 1


@given(
    st.lists(st.sampled_from(["a", "b", "*", "?", "**"]), min_size=1, max_size=5),
    st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=5),
)
def test_matching_is_the_same_as_by_a_plain_regular_expression(parts, names):
    """Atomic groups are for speed only."""
    regex = "" if len(parts) > 1 or parts == ["**"] else "(?:[^/]+/)*"
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            regex += ".+" if is_last else "(?:[^/]+/)*"
        else:
            regex += {"*": "[^/]*", "?": "[^/]"}.get(part, part) + ("" if is_last else "/")
    path = "/".join(names)
    assert Glob("/".join(parts)).matches(path) == bool(re.fullmatch(regex, path))


@pytest.mark.parametrize(
    ("pattern", "base", "rest"),
    [
        ("*.py", "", "*.py"),
        ("a.py", "", "a.py"),
        ("src/**/*.py", "src", "/**/*.py"),
        ("src/a.py", "src", "/a.py"),
        ("src/", "src", "/**"),
        ("/ws/src/*.py", "/ws/src", "/*.py"),
        ("/*.py", "/", "/*.py"),
        ("../x/*.py", "../x", "/*.py"),
        ("~/x/*", "~/x", "/*"),
        ("{a,b}/c", "", "{a,b}/c"),
        (r"a\b/c", "", r"a\b/c"),
    ],
)
def test_leading_folders_are_searched_alone(pattern, base, rest):
    assert split_base(pattern) == (base, rest)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ("*.py",)),
        ("src/**/*.{ts,tsx}", ("*.ts", "*.tsx")),
        ("{src/*.a,lib/b}", ("*.a", "b")),
        ("src/**", None),
        ("[ab].py", None),
        (r"\*.py", None),
        ("a:b", None),
    ],
)
def test_names_narrow_a_search_where_they_are_simple(pattern, names):
    assert Glob(pattern).names() == names
