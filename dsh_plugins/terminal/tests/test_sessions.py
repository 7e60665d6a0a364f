"""Going on with a conversation, going back in it, and putting another agent in its place."""

from __future__ import annotations

from person import Person, scripted
from program import Shell

SEES_FIRST = {"expect": {"contains": ["First.", "one"]}}


def test_a_session_goes_on_where_it_ended(dsh: Shell) -> None:
    scripted(dsh, "First.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees("First.")
        person.leaves()
        shown = person.sees("to go on: dsh chat --resume ")
    session = shown.split("--resume ")[1].split()[0]
    scripted(dsh, {"text": "Second.", **SEES_FIRST})
    for option in (["--continue"], ["--resume", session]):
        with Person(dsh, "chat", "-c", "mine.yaml", *option) as person:
            person.sees("❯ number one", "First.")
            person.sees_on_screen("offline/script")
            if option == ["--continue"]:
                person.says("number two")
            person.sees("❯ number two", "Second.")
            person.leaves()


def test_sessions_are_listed_and_resumed_inside(dsh: Shell) -> None:
    scripted(dsh, "First.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees("First.")
        person.leaves()
    scripted(dsh, {"text": "Second.", **SEES_FIRST})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("/sessions")
        row = next(r for r in person.sees("1 turns  number one").splitlines() if "1 turns" in r)
        person.says(f"/resume {row.split()[0]}")
        person.sees("First.", "this is session")
        person.says("number two")
        person.sees("Second.")


def test_clear_begins_anew_and_undo_goes_back(dsh: Shell) -> None:
    scripted(dsh, "First.", "Second.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees("First.")
        person.says("number two")
        person.sees("Second.")
        person.says("/undo-turn")
        person.sees("stands in the input again")
        person.sees_on_screen("❯ number two")


def test_the_agent_can_be_changed_and_keeps_the_conversation(dsh: Shell) -> None:
    agents = {"coder": {"model": "offline/script"}, "critic": {"model": "offline/other"}}
    scripted(dsh, "First.", agents=agents, default_agent="coder")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("coder · offline/script")
        person.says("number one")
        person.sees("First.")
        person.says("/agent critic")
        person.sees("the agent is critic now")
        person.sees_on_screen("critic · offline/other")
        person.says("/agent nobody")
        person.sees("there is no agent 'nobody'")


def test_the_conversation_is_written_to_a_file_that_did_not_exist(dsh: Shell) -> None:
    scripted(dsh, "First.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("number one")
        person.sees("First.")
        person.says("/export talk.md")
        person.sees("written:")
        person.says("/export talk.md")
        person.sees("cannot be written: File exists")

    assert (dsh.work / "talk.md").read_text() == "## You\n\nnumber one\n\n## Agent\n\nFirst.\n"


def test_what_the_chat_knows_can_be_looked_up(dsh: Shell) -> None:
    scripted(dsh, "First.")
    with Person(dsh, "chat", "-c", "mine.yaml", lines=60) as person:
        person.sees_on_screen("offline/script")
        person.says("/help")
        person.sees("Alt-Enter  joins the running turn", "/undo-turn")
        person.says("/plugins")
        person.sees("terminal  0.1.0  on")
        person.says("/hooks approval_request")
        person.sees("approval_request: chat")
