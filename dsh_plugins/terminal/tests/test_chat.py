"""`dsh chat` in a pseudo-terminal: what is typed, and what is seen."""

from __future__ import annotations

import os
import signal

import pytest
from person import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_T,
    ENTER,
    ESC,
    TAB,
    UP,
    Person,
    calling,
    scripted,
)
from program import Shell

WAITS = calling("bash", command="touch began; until [ -e go ]; do sleep 0.05; done; echo went")
HANGS = calling("bash", command="touch began; sleep 1000")
WORD = 'Waited for "wörd".'


def test_a_message_gets_its_answer_and_ctrl_d_leaves(dsh: Shell) -> None:
    scripted(dsh, "Good **morning** to you.\n\n- one\n- two")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("default · offline/script")
        person.says("Hello there")
        shown = person.sees("❯ Hello there", "Good morning to you.", "• two")

        assert "**" not in shown
        assert person.leaves() == 0
        assert not any("offline/script" in row for row in person.rows), "the status line is gone"


def test_reasoning_is_folded_and_ctrl_t_shows_it(dsh: Shell) -> None:
    scripted(dsh, {"reasoning": "First I look.\nThen I think.", "text": "Done."})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Think")
        shown = person.sees("✻ First I look. … 2 lines", "Done.")
        assert "Then I think." not in shown
        person.types(CTRL_T)
        person.sees("Then I think.")


def test_a_tool_call_is_shown_while_it_runs_and_when_it_is_done(dsh: Shell) -> None:
    scripted(dsh, WAITS, "It went.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Wait")
        person.until(
            lambda: any("bash touch began" in row and "✓" not in row for row in person.rows)
        )
        person.sees_on_screen("(1 s)")
        (dsh.work / "go").touch()
        shown = person.sees("✓ bash touch began", "went", "It went.")

        assert "no permission plugin is on" in shown


def test_enter_queues_while_it_works_and_sends_afterwards(dsh: Shell) -> None:
    scripted(dsh, WAITS, "First.", {"text": "Second.", "expect": {"last_contains": "two"}})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees_on_screen("bash touch began")
        person.says("number two")
        person.sees_on_screen("⏎ number two")
        person.sees_on_screen("1 queued")
        (dsh.work / "go").touch()
        shown = person.sees("First.", "❯ number two", "Second.")

        assert shown.index("First.") < shown.index("❯ number two")
        assert not any("⏎" in row for row in person.rows)


def test_what_is_queued_can_be_taken_back_and_removed(dsh: Shell) -> None:
    scripted(dsh, WAITS, "First.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees_on_screen("bash touch began")
        person.says("number two")
        person.sees_on_screen("⏎ number two")
        person.types(UP)
        person.sees_no_more("⏎")
        person.sees_on_screen("❯ number two")
        person.types(ENTER)
        person.sees_on_screen("⏎ number two")
        person.says("/queue clear")
        person.sees("nothing is queued")
        person.sees_no_more("⏎")


def test_alt_enter_steers_between_two_steps(dsh: Shell) -> None:
    scripted(dsh, WAITS, {"text": "Heard.", "expect": {"last_contains": "also be quick"}})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Work")
        person.sees_on_screen("bash touch began")
        person.types("also be quick")
        person.sees_on_screen("also be quick")
        person.types(ALT_ENTER)
        person.sees("↪ after this step: also be quick")
        (dsh.work / "go").touch()
        shown = person.sees("↪ also be quick", "Heard.")

        assert "SCRIPT" not in shown


@pytest.mark.parametrize("key", [ESC, CTRL_C])
def test_a_key_stops_the_agent_and_gives_the_queue_back(dsh: Shell, key: str) -> None:
    scripted(dsh, HANGS, "Still here.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Hang")
        person.sees_on_screen("bash touch began")
        person.says("later")
        person.sees_on_screen("⏎ later")
        person.types(key)
        person.sees("aborted: stopped by the user")
        person.sees_on_screen("❯ later")
        person.types(ENTER)
        person.sees("Still here.")


def test_ctrl_c_twice_leaves_even_while_it_works(dsh: Shell) -> None:
    scripted(dsh, HANGS)
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Hang")
        person.sees_on_screen("bash touch began")
        person.types(CTRL_C)
        person.sees_on_screen("Ctrl-C once more leaves")
        person.types(CTRL_C)

        assert person.waits() == 0


def test_a_message_may_have_several_lines(dsh: Shell) -> None:
    scripted(dsh, {"text": "Both.", "expect": {"last_contains": "one\ntwo\nthree"}})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.types("one" + CTRL_J + "two\\" + ENTER + "three")
        person.sees_on_screen("three")
        person.types(ENTER)
        person.sees("❯ one", "Both.")


def test_pasted_lines_are_not_sent_by_their_line_breaks(dsh: Shell) -> None:
    scripted(dsh, {"text": "Both.", "expect": {"last_contains": "one\ntwo"}})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.types("\x1b[200~one\r\ntwo\x1b[201~")
        person.sees_on_screen("two")
        person.types(ENTER)
        person.sees("Both.")


def test_what_was_typed_is_there_the_next_time_in_a_private_file(dsh: Shell) -> None:
    scripted(dsh, "Once.")
    for _ in range(2):
        with Person(dsh, "chat", "-c", "mine.yaml") as person:
            person.sees_on_screen("offline/script")
            if _ == 0:
                person.says("remember me")
                person.sees("Once.")
            else:
                person.types(UP)
                person.sees_on_screen("❯ remember me")
            person.types(CTRL_C)
            person.types(CTRL_D)
            person.waits()

    (file,) = dsh.home.rglob("chat-history")
    assert file.stat().st_mode & 0o777 == 0o600


def test_commands_files_and_models_are_completed(dsh: Shell) -> None:
    scripted(dsh, {"text": "Read.", "expect": {"last_contains": "@notes/today.md"}})
    dsh.write("notes/today.md", "x")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.types("/usa" + TAB)
        person.sees_on_screen("❯ /usage")
        person.types(ENTER)
        person.sees("0 requests, 0 tokens")
        person.types("/model offline/o" + TAB)
        person.sees_on_screen("❯ /model offline/other")
        person.types(ENTER)
        person.sees("the model is offline/other now")
        person.sees_on_screen("default · offline/other")
        person.types("look at @no" + TAB)
        person.sees_on_screen("@notes/")
        person.types("to" + TAB)
        person.sees_on_screen("@notes/today.md")
        person.types(ENTER)
        person.sees("Read.")


def test_an_unknown_command_is_reported_and_never_sent(dsh: Shell) -> None:
    scripted(dsh, {"text": "First request.", "expect": {"last_contains": "hello"}})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("/usaeg now")
        person.sees("there is no command /usaeg. Did you mean /usage?")
        person.says("hello")
        person.sees("First request.")


def test_a_plugins_command_is_carried_out_and_its_mode_is_shown(dsh: Shell) -> None:
    scripted(dsh, "Fine.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("/plan")
        person.sees("Plan mode is on.")
        person.sees_on_screen("default · plan · offline/script")
        person.says("/plan off")
        person.sees_on_screen("default · offline/script")


def test_options_of_plugins_count(dsh: Shell) -> None:
    scripted(dsh, "Fine.")
    with Person(dsh, "chat", "-c", "mine.yaml", "--plan") as person:
        person.sees_on_screen("offline/script")
        person.says("Look")
        person.sees("Fine.")
        person.sees_on_screen("default · plan")


def test_a_failed_request_says_why_and_what_to_do(dsh: Shell) -> None:
    scripted(dsh, {"fail": {"code": "AUTH", "message": "the key is wrong"}}, "Now.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Try")
        person.sees("error: AUTH: the key is wrong", "Check the key")
        person.says("Again")
        person.sees("Now.")


def test_usage_and_the_context_are_counted(dsh: Shell) -> None:
    usage = {"input_tokens": 40_000, "output_tokens": 10_000}
    scripted(dsh, {"text": "Counted.", "usage": usage})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Count")
        person.sees_on_screen("context 50% · 50.0k tokens")
        person.says("/usage")
        person.sees("1 requests, 50,000 tokens: 40,000 input")


def test_a_request_to_end_ends_it_in_good_order(dsh: Shell) -> None:
    scripted(dsh, HANGS)
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Hang")
        person.sees_on_screen("bash touch began")
        os.kill(person.program.pid, signal.SIGTERM)

        assert person.waits() == 143
        assert "to go on: dsh chat --resume" in person.everything
