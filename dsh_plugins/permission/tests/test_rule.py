"""Rules: what is one, what can never fire, and what each covers."""

from __future__ import annotations

import pytest
from stage import Place

from dsh_permission.rule import RuleError, parse_rule, rule_from


@pytest.mark.parametrize("text", ["Bash", "bash", "BASH(*)", "Bash(:*)", " Bash ()"])
def test_one_rule_for_every_command_has_many_spellings(text: str) -> None:
    rule = parse_rule(text)

    assert (rule.kind, rule.spec) == ("command", None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no rule"),
        ("Bash(", "no rule"),
        ("Bash(a && b)", "part by part"),
        ("Bash(a | b:*)", "part by part"),
        ("Bash(a > b)", "part by part"),
        ("Bash(echo $X)", "part by part"),
        ("Bash(A=b npm test)", "assignments"),
        ("Bash('abc)", "split"),
        ("Bash(  :*)", None),
        ("WebFetch(docs.python.org)", "domain:HOST"),
        ("WebFetch(domain:a/b)", "host"),
        ("WebFetch(domain:a*)", "host"),
        ("WebFetch(domain:)", "host"),
        ("Read(https://a)", "URL"),
        ("Read(~root/x)", "home"),
        ("Read( x)", "blanks"),
        ("Todo(x)", "parentheses"),
        ("mcp__a__b(x)", "parentheses"),
        ("mcp__", "server"),
    ],
)
def test_a_rule_that_can_never_fire_is_refused_with_the_reason(
    text: str, reason: str | None
) -> None:
    if reason is None:
        assert parse_rule(text).spec is None
        return
    with pytest.raises(RuleError, match=reason):
        parse_rule(text)


def test_the_long_form_carries_a_reason() -> None:
    rule = rule_from({"rule": "Bash(terraform apply:*)", "reason": "use the pipeline"})

    assert rule.reason == "use the pipeline"
    with pytest.raises(RuleError, match="long form"):
        rule_from({"rule": "Bash", "why": "x"})
    with pytest.raises(RuleError, match="text"):
        rule_from(7)


@pytest.mark.parametrize(
    ("rule", "covered", "not_covered"),
    [
        ("Bash(npm run test:*)", ["npm run test", "npm run test -x"], ["npm run testx", "npm run"]),
        ("Bash(npm run lint-*)", ["npm run lint-css"], ["npm run lint-css x", "npm run lint"]),
        ("Bash(make)", ["make"], ["make x", "make -k"]),
        ("Bash('my tool' x)", ["'my tool' x", "my\\ tool x"], ["my tool x"]),
        ("Bash(git push *)", ["git push", "git push origin"], ["git -C x push", "Git push"]),
        ("Bash(./run.sh:*)", ["./run.sh", "./run.sh a"], ["run.sh", "../run.sh", "./x/../run.sh"]),
    ],
)
def test_what_allows_is_proven_word_by_word(
    rule: str, covered: list[str], not_covered: list[str], place: Place
) -> None:
    rules = {"allow": [rule]}

    assert [c for c in covered if place.decision(c, rules) != "allow"] == []
    assert [c for c in not_covered if place.decision(c, rules) == "allow"] == []


@pytest.mark.parametrize(
    ("rule", "covered", "not_covered"),
    [
        ("Bash(git push:*)", ["git push", "git -C x push", "git -c a=b push -f", "command git push",
                              "git --no-pager push"], ["git log push", "git pull"]),
        ("Bash(rm -rf:*)", ["rm -rf x", "rm -fr x", "rm -r -f x", "rm x -rf", "rm -vrf x",
                            "rm --recursive --force x", "rm -R -f x"], ["rm -r x", "rm -f x"]),
        ("Bash(git push --force:*)", ["git push -f", "git push origin --force", "git push --forc"],
         ["git push"]),
        ("Bash(kubectl delete:*)", ["kubectl delete pod", "kubectl -n prod delete pod",
                                    "kubectl --namespace=prod delete pod"], ["kubectl get pod"]),
        ("Bash(git push)", ["git push", "git --no-pager push"], ["git push origin"]),
        ("Bash(npm publish)", ["npm publish", "npm --silent publish"], ["npm run publish"]),
    ],
)  # fmt: skip
def test_what_denies_is_suspected_however_it_is_spelled(
    rule: str, covered: list[str], not_covered: list[str], place: Place
) -> None:
    rules = {"allow": ["Bash"], "deny": [rule]}

    assert [c for c in covered if place.decision(c, rules) != "deny"] == []
    assert [c for c in not_covered if place.decision(c, rules) == "deny"] == []


@pytest.mark.parametrize(
    "unknown", ["git $X", 'git "$X"', "git $(cat a)", "$X push", "g{it,x} push"]
)
def test_what_may_be_denied_asks(unknown: str, place: Place) -> None:
    assert place.decision(unknown, {"allow": ["Bash"], "deny": ["Bash(git push:*)"]}) == "ask"


def test_the_order_of_rules_never_matters(place: Place) -> None:
    rules = ["Bash(git:*)", "Bash(git push:*)", "Bash(git push origin:*)"]
    for allow in (rules, rules[::-1]):
        found = place.decision("git push origin", {"allow": allow, "deny": ["Bash(git push:*)"]})
        assert found == "deny"


def test_names_of_tools_are_matched_regardless_of_case(place: Place) -> None:
    assert place.decision("a", {"deny": ["READ(a)"]}, tool="read") == "deny"
    assert place.decision("a", {"deny": ["write(a)"]}, tool="edit") == "deny"
    assert place.decision("x", {"deny": ["MCP__Server"]}, tool="mcp__server__do") == "deny"
