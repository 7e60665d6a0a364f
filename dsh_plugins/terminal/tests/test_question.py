"""What a question offers, and that nothing in it can hide."""

from __future__ import annotations

from dsh_core import ApprovalRequest, Call
from dsh_terminal.paint import Paint
from dsh_terminal.question import answers_of, title_of

CALL = Call("1", "bash", {"command": "true"}, '{"command": "true"}', 1, 1)


def request(**changes: object) -> ApprovalRequest:
    return ApprovalRequest("a", CALL, "why", **changes)  # type: ignore[arg-type]


def test_nothing_lasts_where_no_rule_is_offered() -> None:
    answers = answers_of(request(), Paint())

    assert [(one.key, one.approval.scope) for one in answers] == [
        ("y", "once"),
        ("n", "once"),
        ("t", "once"),
    ]


def test_a_rule_made_of_hostile_words_stays_on_its_line() -> None:
    hostile = "Bash(a\x1b[2K\n\u202eb:*)"

    texts = [one.text for one in answers_of(request(offers=(hostile,)), Paint())]

    assert "yes, for this session: Bash(a\\x1b[2K\\n\\u202eb:*)" in texts


def test_a_call_longer_than_the_screen_says_so() -> None:
    titles = [title_of(request(), Paint(), rows=rows, room=20) for rows in (20, 21)]

    assert titles == ["Allow bash?", "Allow bash? It takes 21 lines: scroll up to see all of it."]
