"""What holds for every command and every rule."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage import Place

RANK = {"allow": 0, "ask": 1, "deny": 2}
PARTS = ["ls", "cat a", "rm -rf src", "git push", "npm test", "echo hi > out", "curl x", "cd src",
         "echo $(rm x)", "git log", "'cat' a", "grep x a | wc", "$X", "f() { ls; }",
         "ls 'abc"]  # fmt: skip
RULES = ["Bash", "Bash(ls:*)", "Bash(rm:*)", "Bash(git push:*)", "Bash(npm:*)", "Bash(cat:*)",
         "Read(a)", "Read(src/**)", "Edit(**)", "Edit(out)", "Bash(echo:*)",
         "Bash(git:*)"]  # fmt: skip
parts = st.sampled_from(PARTS)
plain_parts = st.sampled_from([part for part in PARTS if "'abc" not in part and "cd" not in part])
rule_lists = st.lists(st.sampled_from(RULES), max_size=4)
rule_sets = st.fixed_dictionaries({"allow": rule_lists, "ask": rule_lists, "deny": rule_lists})
modes = st.sampled_from(["default", "accept_edits", "plan", "bypass"])
often = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def shared() -> Place:
    return Place(Path(tempfile.mkdtemp(prefix="dsh-permission-")) / "place")


@often
@given(rules=rule_sets, more=st.sampled_from(RULES), kind=st.sampled_from(["ask", "deny"]),
       part=parts, mode=modes)  # fmt: skip
def test_one_more_rule_that_limits_never_loosens(shared, rules, more, kind, part, mode) -> None:
    before = shared.decision(part, rules, mode)
    after = shared.decision(part, {**rules, kind: [*rules[kind], more]}, mode)

    assert RANK[after] >= RANK[before]


@often
@given(rules=rule_sets, more=st.sampled_from(RULES), part=parts, mode=modes)
def test_one_more_rule_that_allows_never_tightens(shared, rules, more, part, mode) -> None:
    before = shared.decision(part, rules, mode)
    after = shared.decision(part, {**rules, "allow": [*rules["allow"], more]}, mode)

    assert RANK[after] <= RANK[before]


@often
@given(rules=rule_sets, one=plain_parts, other=plain_parts, mode=modes,
       between=st.sampled_from([" && ", " ; ", " | ", " || ", "\n", " & "]))  # fmt: skip
def test_a_list_gets_the_strictest_answer_of_its_parts(
    shared, rules, one, other, mode, between
) -> None:
    both = shared.decision(one + between + other, rules, mode)
    apart = [shared.decision(part, rules, mode) for part in (one, other)]

    assert both == max(apart, key=RANK.__getitem__)


@often
@given(rules=rule_sets, part=st.sampled_from(["ls", "cat a", "rm x", "git push", "npm test"]),
       mode=modes, wrapper=st.sampled_from(["nohup", "nice", "timeout 5", "command", "env LANG=C",
                                            "stdbuf -oL", "nice -n 5 timeout 3"]))  # fmt: skip
def test_a_transparent_wrapper_changes_nothing(shared, rules, part, mode, wrapper) -> None:
    assert shared.decision(f"{wrapper} {part}", rules, mode) == shared.decision(part, rules, mode)


@often
@given(rules=rule_sets, mode=modes,
       words=st.sampled_from([["ls", "src"], ["rm", "-rf", "x"], ["git", "push"], ["cat", "a"]]),
       quote=st.sampled_from(["'{}'", '"{}"', "\\{}", "''{}", "{}\"\"", "$'{}'"]))  # fmt: skip
def test_quotes_change_nothing(shared, rules, mode, words, quote) -> None:
    quoted = " ".join(quote.format(word) for word in words)

    assert shared.decision(quoted, rules, mode) == shared.decision(" ".join(words), rules, mode)


HIDING = "\x00\x07\x1b\x7f\x85\xa0\u200b\u200e\u2028\u202e\u2066\u2069\ufeff\U000e0041\r\x0b\x0c"


@often
@given(part=st.sampled_from(["ls src", "echo hi", "git log", "cat a"]),
       character=st.sampled_from(HIDING), place=st.integers(0, 8))  # fmt: skip
def test_a_character_that_hides_is_never_allowed(shared, part, character, place) -> None:
    text = part[:place] + character + part[place:]

    assert shared.decision(text, {"allow": ["Bash"]}) != "allow"


@often
@given(text=st.text(alphabet="ab'\"\\$(){}`;&|<>! \n#=*?[]~-/.01eE\t", max_size=30))
def test_no_text_breaks_the_judge(shared, text) -> None:
    assert shared.decision(text, {"deny": ["Bash(rm:*)", "Read(.env)"]}) in RANK
