"""A terminal that cannot move its cursor: lines go in and out, and everything works."""

from __future__ import annotations

import pytest
from person import CTRL_C, CTRL_D, Person, calling, install_asking, scripted
from program import Shell


@pytest.fixture
def dumb(dsh: Shell) -> Shell:
    dsh.env["TERM"] = "dumb"
    return dsh


def test_lines_go_in_and_answers_come_out_without_escapes(dumb: Shell) -> None:
    scripted(dumb, "Good **morning**.\n\n```python\nprint(1)\n```")
    with Person(dumb, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("❯")
        person.types("Hello\n")
        person.sees("Good morning.", "print(1)")
        person.types("/usaeg\n")
        person.sees("there is no command /usaeg")
        person.types(CTRL_D)

        assert person.waits() == 0
        assert b"\x1b" not in person.sent


def test_a_question_is_answered_by_a_line(dumb: Shell) -> None:
    install_asking(dumb)
    command = calling("bash", command="touch made")
    scripted(dumb, command, {"text": "I will.", "expect": {"last_contains": "use printf"}})
    with Person(dumb, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("❯")
        person.types("Do it\n")
        person.sees("│ touch made", "Allow bash?", "say what to do instead")
        person.presses("t\n", lambda: "what to do instead ❯" in person.everything)
        person.types("use printf\n")
        person.sees("I will.")

    assert not (dumb.work / "made").exists()


def test_ctrl_c_stops_the_agent_and_twice_leaves(dumb: Shell) -> None:
    scripted(dumb, calling("bash", command="touch began; sleep 1000"))
    with Person(dumb, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("❯")
        person.types("Hang\n")
        person.until(lambda: (dumb.work / "began").exists() or not person.looks())
        person.types(CTRL_C)
        person.sees("aborted: stopped by the user")
        person.types(CTRL_C)

        assert person.waits() == 0
