"""`dsh run` at a terminal looks like the chat; in a pipe and with `--quiet` it is plain text."""

from __future__ import annotations

from person import Person, calling, scripted
from program import Shell

REPLIES = [calling("bash", command="echo hi"), "It is **done**.\n\n- one"]


def test_at_a_terminal_it_is_rendered(dsh: Shell) -> None:
    scripted(dsh, *REPLIES)
    with Person(dsh, "run", "-c", "mine.yaml", "Do it") as person:
        shown = person.sees("✓ bash echo hi", "It is done.", "• one")

        assert person.waits() == 0
        assert "**" not in shown
        assert shown.index("bash echo hi") < shown.index("✓ bash echo hi")
        assert b"\x1b]" not in person.sent


def test_quiet_prints_only_the_answer(dsh: Shell) -> None:
    scripted(dsh, *REPLIES)
    with Person(dsh, "run", "-c", "mine.yaml", "--quiet", "Do it") as person:
        assert person.waits() == 0
        assert person.everything.split() == ["It", "is", "**done**.", "-", "one"]


def test_in_a_pipe_it_is_plain_text(dsh: Shell) -> None:
    scripted(dsh, *REPLIES)

    done = dsh("run", "-c", "mine.yaml", "Do it")

    assert done.stdout == "It is **done**.\n\n- one\n"


def test_a_failed_run_says_why(dsh: Shell) -> None:
    scripted(dsh, {"fail": {"code": "AUTH", "message": "the key\x1b]0;x\x07 is wrong"}})
    with Person(dsh, "run", "-c", "mine.yaml", "Do it") as person:
        person.sees("error: AUTH: the key\\x1b]0;x\\x07 is wrong", "Check the key")

        assert person.waits() == 1
