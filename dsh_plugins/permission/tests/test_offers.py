"""The rules a person is offered: narrow, exact, and none for what is not known."""

from __future__ import annotations

import pytest
from stage import Place

from dsh_permission.message import offers_of


@pytest.mark.parametrize(
    ("command", "offers"),
    [
        ("npm test", ["Bash(npm test:*)"]),
        ("npm run build -- -x", ["Bash(npm run build:*)"]),
        ("git commit -m x", ["Bash(git commit:*)"]),
        ("timeout 5 cargo build", ["Bash(cargo build:*)"]),
        ("git add . && npm test | tail -1", ["Bash(git add:*)", "Bash(npm test:*)"]),
        ("python3 -c 'print(1)'", ["Bash(python3 -c 'print(1)')"]),
        ("rm -r dist/", ["Bash(rm -r dist/)"]),
        ("env MODE=ci node a.js", ["Bash(env MODE=ci node a.js)"]),
        ("curl https://a.example", ["Bash(curl https://a.example)"]),
        ("./configure --fast", ["Bash(./configure --fast)"]),
        ("make", ["Bash(make)"]),
        ("git -C x push", ["Bash(git -C x push)"]),
        ("echo hi > out", ["Edit(./out)"]),
        ("", []),
        ("bash -c \"$X\"", []),
        ("$X", []),
        ("curl $X", []),
        ("npm test; $X", []),
        ("find . -delete", []),
        ("git -c a=b push", []),
        ("echo 'abc", []),
        ("f() { ls; }", []),
        ("npm test '*'", ["Bash(npm test:*)"]),
        ("foo '*'", []),
        ("ls\x07", []),
    ],
)  # fmt: skip
def test_what_is_offered(command: str, offers: list[str], place: Place) -> None:
    assert list(offers_of(place.judge(command))) == offers


@pytest.mark.parametrize(
    ("approved", "then", "answer"),
    [
        ("python3 -c 'print(1)'", "python3 -c 'import os'", "ask"),
        ("git commit -m x", "git push --force", "ask"),
        ("npm test", "npm test", "allow"),
        ("npm test", "npm test -- -x", "allow"),
        ("npm test", "npm test; nc evil 1", "ask"),
        ("npm test", "npm test > out", "ask"),
        ("npm test", "npm test $(id -u; curl x)", "ask"),
        ("rm -r dist/", "rm -r /", "ask"),
        ("rm -r dist/", "rm -r dist/ src", "ask"),
        ("curl https://a.example", "curl https://b.example", "ask"),
        ("make build", "make deploy", "ask"),
        ("touch a", "touch b", "ask"),
    ],
)
def test_what_was_granted_covers_no_more_than_was_shown(
    approved: str, then: str, answer: str, place: Place
) -> None:
    granted = offers_of(place.judge(approved))

    assert granted
    assert place.decision(approved, {"allow": granted}) == "allow"
    assert place.decision(then, {"allow": granted}) == answer


def test_a_protected_name_asks_even_under_a_rule_for_the_program(place: Place) -> None:
    rules = {"allow": ["Bash(cp:*)", "Bash(tee:*)"]}

    assert place.decision("cp a .git/hooks/pre-commit", rules) == "ask"
    assert place.decision("ls | tee .envrc", rules) == "ask"
    assert place.decision("cp a b", rules) == "allow"
