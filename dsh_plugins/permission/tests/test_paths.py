"""Paths in rules, and the names a file goes by."""

from __future__ import annotations

import pytest
from stage import Place


@pytest.mark.parametrize(
    ("rule", "path", "answer"),
    [
        ("Edit(*.md)", "a.md", "allow"),
        ("Edit(*.md)", "x/y.md", "allow"),
        ("Edit(*.md)", "a.mdx", "ask"),
        ("Edit(docs/*)", "docs/a", "allow"),
        ("Edit(docs/*)", "docs/a/b", "ask"),
        ("Edit(**/x.py)", "x.py", "allow"),
        ("Edit(**/x.py)", "a/b/x.py", "allow"),
        ("Edit(src/**/x.py)", "src/x.py", "allow"),
        ("Edit(src/**/x.py)", "src/a/x.py", "allow"),
        ("Edit(src/**/x.py)", "srcx.py", "ask"),
        ("Edit(src/**)", "src/a/b", "allow"),
        ("Edit(src/**)", "src", "ask"),
        ("Edit(src/**)", "SRC/a", "ask"),
        ("Edit(src/**)", "src/../a", "ask"),
        ("Edit(src/**)", "src/out/x", "ask"),
        ("Edit(src/**)", "inlink/x", "ask"),
        ("Edit(src/**)", "src/.git/x", "ask"),
        ("Edit(@WS@/**)", "a", "allow"),
        ("Edit(/@WS@/**)", "a", "allow"),
        ("Edit(@TOP@/out/**)", "@TOP@/out/x", "allow"),
        ("Edit(**)", "@TOP@/out/x", "ask"),
        ("Edit(a?c)", "abc", "allow"),
        ("Edit(a?c)", "a/c", "ask"),
        ("Write(./a)", "a", "allow"),
    ],
)
def test_what_allows_means_exactly_what_it_says(
    rule: str, path: str, answer: str, place: Place
) -> None:
    assert place.decision(path, {"allow": [place.filled(rule)]}, tool="edit") == answer


SECRET = {"deny": ["Read(secrets/**)", "Read(**/.env)", "Read(~/.ssh)"], "allow": ["Edit", "Read"]}


@pytest.mark.parametrize("tool", ["read", "edit", "write", "grep"])
@pytest.mark.parametrize(
    "path",
    ["secrets/key", "SECRETS/key", "secrets", "secrets/", "src/../secrets/key", ".env", "sub/.env",
     "@WS@/.env", ".ENV", "envlink", "~/.ssh/id", "@TOP@/home/.ssh", "~/.ssh/",
     "/proc/self/root@WS@/secrets/key"],
)  # fmt: skip
def test_what_denies_is_found_under_every_name(path: str, tool: str, place: Place) -> None:
    assert place.decision(path, SECRET, tool=tool) == "deny"


def test_a_literal_rule_knows_its_file_by_another_name(place: Place) -> None:
    assert place.decision("envhard", {"deny": ["Read(.env)"]}, tool="read") == "deny"


@pytest.mark.parametrize("path", ["secretsx/key", ".env.example", "sub/secrets/key", "a.env"])
def test_what_is_only_alike_is_not_denied(path: str, place: Place) -> None:
    assert place.decision(path, SECRET, tool="read") == "allow"


@pytest.mark.parametrize(
    "path",
    ["", " ", "/etc/hosts", "..", "@WS@-evil/x", "link", "src/out/x", "loop", "~root/x",
     "/dev/null", "/proc/self/environ", "file:///x", "http://x/y",
     "a\nb", "a\0b", "a\u200bb", "a\u202eb"],
)  # fmt: skip
def test_what_is_no_plain_path_in_the_workspace_asks(path: str, place: Place) -> None:
    assert place.decision(path, tool="read") == "ask"


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://docs.python.org/3", "allow"),
        ("HTTPS://DOCS.Python.ORG./", "allow"),
        ("https://docs.python.org:8443/", "allow"),
        ("https://docs.python.org.evil.example", "ask"),
        ("https://evil.example/docs.python.org", "ask"),
        ("https://docs.python.org@evil.example", "ask"),
        ("https://evil.example\\@docs.python.org", "ask"),
        ("https://docs.python.org%2eevil.example", "ask"),
        ("https://docs.python.org\t.evil.example", "ask"),
        ("ftp://docs.python.org/", "ask"),
        ("docs.python.org", "ask"),
        ("", "ask"),
    ],
)
def test_a_host_is_compared_as_it_is_reached(url: str, answer: str, place: Place) -> None:
    rules = {"allow": ["WebFetch(domain:docs.python.org)"]}

    assert place.decision(url, rules, tool="web_fetch") == answer


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "[::1]", "0x7f000001", "0177.0.0.1", "10.0.0.1", "169.254.169.254",
     "2130706433", "127.1", "0", "[::ffff:127.0.0.1]", "router.local", "metadata"],
)  # fmt: skip
def test_this_machine_and_its_network_ask_under_a_bare_rule(host: str, place: Place) -> None:
    assert place.decision(f"http://{host}/", {"allow": ["WebFetch"]}, tool="web_fetch") == "ask"
