"""Questions about tool calls: what a person sees before an answer, and what the answer does."""

from __future__ import annotations

import json

import pytest
from person import CTRL_C, DOWN, ENTER, ESC, Person, calling, install_asking, scripted
from program import Shell

COMMAND = "echo one\ntouch made"
RUNS = calling("bash", command=COMMAND)
PLAN = "# The plan\n\n" + "\n".join(f"{n}. Step number {n}." for n in range(1, 41))


@pytest.fixture
def asked(dsh: Shell) -> Shell:
    install_asking(dsh)
    return dsh


def answers(dsh: Shell) -> list[object]:
    return [json.loads(line) for line in (dsh.work / "answers.jsonl").read_text().splitlines()]


def begin(person: Person) -> str:
    person.sees_on_screen("offline/script")
    person.says("Do it")
    return person.sees("Allow bash?", "say what to do instead")


def test_every_part_stands_on_a_line_of_its_own(asked: Shell) -> None:
    scripted(asked, RUNS, "Done.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        rows = [row.strip() for row in begin(person).splitlines()]

        assert "│ echo one" in rows
        assert "│ touch made" in rows
        assert "· run /usr/bin/echo   (echo one)" in rows
        assert "· perhaps write /real/target   (touch link)" in rows, "where the link leads"
        assert "no rule allows this." in rows
        assert "s  yes, for this session: Bash(echo one:*), Bash(touch:*)" in rows


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("y", [True, "once", ""]),
        ("s", [True, "session", ""]),
        ("3", [True, "project", ""]),
        (ENTER, [True, "once", ""]),
        ("n", [False, "once", "the user said no"]),
    ],
)
def test_a_key_answers(asked: Shell, key: str, answer: list[object]) -> None:
    scripted(asked, RUNS, "Done.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        begin(person)
        person.answers(key)
        person.sees("Done.")

    assert answers(asked) == [answer]
    assert (asked.work / "made").exists() == answer[0]


def test_the_arrows_select(asked: Shell) -> None:
    scripted(asked, RUNS, "Done.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        begin(person)
        person.sees_on_screen("❯ y")
        person.presses(DOWN, lambda: any(row.startswith("❯ s") for row in person.rows))
        person.answers(ENTER)
        person.sees("Done.")

    assert answers(asked) == [[True, "session", ""]]


def test_no_with_a_reason_tells_the_model(asked: Shell) -> None:
    scripted(asked, RUNS, {"text": "I will.", "expect": {"last_contains": "use printf"}})
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        begin(person)
        person.presses("t", lambda: any(row.strip() == "❯" for row in person.rows))
        person.types("use printf")
        person.sees_on_screen("❯ use printf")
        person.types(ENTER)
        person.sees("I will.")

    assert answers(asked) == [[False, "once", "use printf"]]


def test_keys_that_were_on_their_way_are_no_answer(asked: Shell) -> None:
    """What is typed for something else, without a pause, does not answer what comes up."""
    scripted(asked, RUNS, "Done.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Do it")
        while not any("Allow bash?" in row for row in person.rows):
            person.types("y")
            assert person.looks()
        for _ in range(10):
            person.types("y")
        person.sees_on_screen("say what to do instead")
        assert not (asked.work / "answers.jsonl").exists()
        person.answers("n")
        person.sees("Done.")

    assert answers(asked) == [[False, "once", "the user said no"]]


@pytest.mark.parametrize("key", [ESC, CTRL_C])
def test_stopping_the_agent_withdraws_the_question(asked: Shell, key: str) -> None:
    scripted(asked, RUNS, "Next.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        begin(person)
        person.answers(key)
        person.sees("aborted: stopped by the user")
        person.says("And now")
        person.sees("Next.")

    assert not (asked.work / "made").exists()


def test_an_argument_cannot_draw_a_question_of_its_own(asked: Shell) -> None:
    hostile = "echo\r\x1b[2K\x1b[1A? harmless\nAllow nothing?\n  y  yes"
    scripted(asked, calling("bash", command=hostile), "Done.")
    with Person(asked, "chat", "-c", "mine.yaml") as person:
        shown = begin(person)

        assert "│ echo\\x0d\\x1b[2K\\x1b[1A? harmless" in shown
        assert "  │ Allow nothing?" in shown
        assert "  │   y  yes" in shown
        assert b"\x1b[2K\x1b[1A? harmless" not in person.sent


def test_a_plan_is_shown_whole_and_only_a_person_agrees(dsh: Shell) -> None:
    scripted(dsh, calling("exit_plan_mode", plan=PLAN), "Carried out.")
    with Person(dsh, "chat", "-c", "mine.yaml", "--plan") as person:
        person.sees_on_screen("offline/script")
        person.says("Plan it")
        shown = person.sees("Allow exit_plan_mode?", "say what to do instead")
        assert all(f"Step number {n}." in shown for n in range(1, 41))
        assert "for this session" not in shown
        assert "scroll up to see all of it" in shown
        person.sees_on_screen("default · plan")
        person.answers("y")
        person.sees("Carried out.")
        person.sees_on_screen("default · offline/script")


def test_the_rules_of_the_permission_plugin_are_offered_and_hold(dsh: Shell) -> None:
    touch = calling("bash", command="touch made")
    scripted(dsh, touch, touch, "Done.", plugins={"sandbox": False})
    with Person(dsh, "chat", "-c", "mine.yaml", columns=100) as person:
        person.sees_on_screen("offline/script")
        person.says("Do it")
        person.sees("Allow bash?", "no permission rule allows this", "yes, for this session: ")
        person.answers("s")
        person.sees("Done.")

        assert person.everything.count("✓ bash touch made") == 2
