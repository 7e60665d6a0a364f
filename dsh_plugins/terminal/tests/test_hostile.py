"""Nothing that a model or a tool prints moves the cursor, retitles the window, or is copied."""

from __future__ import annotations

import pytest
from person import Person, calling, scripted
from program import Shell

ATTACKS = {
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "c1": "\x9b2J\x9d0;owned\x9c",
    "alternate": "\x1b[?1049h",
    "report": "\x1b[6n\x1b[c",
    "back": "safe\r\x08\x08evil",
    "bidi": "\u202egnp.exe\u202c",
    "device": "\x1bP$q\x1b\\\x1b_x\x1b\\\x1b^y\x1b\\",
}
FORBIDDEN = [
    b"\x1b]", b"\x1b[2J", b"\x1b[?1049h", b"\x1b[6n", b"\x1b[c", b"\x1bP", b"\x1b_", b"\x1b^",
    b"\x07", b"\xc2\x9b", b"\xc2\x9d", "\u202e".encode(),
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_a_model_says_is_shown_and_not_obeyed(dsh: Shell, attack: str) -> None:
    everywhere = f"before {attack} after"
    scripted(
        dsh,
        {
            "reasoning": everywhere,
            "text": f"{everywhere}\n\n- {everywhere}\n\n`{everywhere}` [a]({attack})\n\n"
            f"```sh\n{everywhere}\n```\n\n| a | {attack} |\n|---|---|\n| b | c |",
            "calls": [{"name": f"no{attack}tool", "arguments": {"command": everywhere}}],
        },
        {"text": "The end.", "finish": "stop"},
    )
    with Person(dsh, "chat", "-c", "mine.yaml", columns=120, lines=40) as person:
        person.sees_on_screen("offline/script")
        person.says("Attack")
        shown = person.sees("before", "after", "The end.")

        assert [bad for bad in FORBIDDEN if bad in person.sent] == []
        assert person.screen.title == ""
        assert shown.index("❯ Attack") < shown.index("The end.")
        person.sees_on_screen("offline/script")


def test_what_a_tool_prints_is_shown_and_not_obeyed(dsh: Shell) -> None:
    dsh.write("attack", "".join(ATTACKS.values()))
    scripted(dsh, calling("bash", command="cat attack; cat attack >&2"), "The end.")
    with Person(dsh, "chat", "-c", "mine.yaml", columns=120) as person:
        person.sees_on_screen("offline/script")
        person.says("Attack")
        person.sees("✓ bash cat attack", "The end.")

        assert [bad for bad in FORBIDDEN if bad in person.sent] == []
        assert person.screen.title == ""


def test_markup_of_the_libraries_is_text(dsh: Shell) -> None:
    scripted(dsh, "[bold red]not red[/bold red] :smile: <b>x</b>")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("[link=http://evil.example]Say it[/link]")
        person.sees("[bold red]not red[/bold red] :smile:")
        person.sees("❯ [link=http://evil.example]Say it[/link]")


def test_a_secret_is_not_shown_while_it_streams_or_after(dsh: Shell) -> None:
    key = "sk-verysecret-1234567890"
    scripted(dsh, f"It is {key} indeed.", delay_seconds=0.05, provider={"api_key": key})
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Tell")
        person.sees("indeed.")

        assert b"verysecret" not in person.sent
