"""A question about a tool call fits on the screen, whatever the model put into the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from distributions import distribution
from generated import few
from hypothesis import given
from hypothesis import strategies as st
from program import Shell
from terminal import Terminal, rows

from dsh_core.cli.question import question, shown_offers
from dsh_core.testing import behaviours as model
from dsh_core.testing.model_server import ModelServer

ASKS = (
    "from dsh_core import hookimpl\n"
    "from dsh_core.policy import Verdict\n"
    "@hookimpl\n"
    "async def tools_authorize(agent, call):\n"
    "    return Verdict('ask', 'asks always')\n"
)
HARM = "touch harmed"
HIDING = {
    "blanks": HARM + "; true" + " " * 5_000 + "harmless",
    "blanks behind": "ls" + " " * 5_000 + "; " + HARM,
    "line breaks": HARM + "\n" * 5_000 + "ls",
    "long text": HARM + "; echo " + "x" * 20_000,
    "wide characters": HARM + "; echo " + "漢" * 3_000,
    "zero width": HARM + "; echo " + "\u200b\ufeff\u2060\U000e0041" * 500,
    "blanks of other scripts": HARM + "; echo " + "\u00a0\u3000\u2800\u3164" * 1_000,
    "combining": HARM + "; echo " + "e\u0301" * 3_000,
    "escapes": HARM + "\x1b[2J\x1b[H\x9b2J ls",
    "tabs": HARM + "; true" + "\t" * 3_000 + "ls",
}


ASK = "Allow? [n] "


def ask(command: str, size: tuple[int, int] = (80, 24)) -> list[str]:
    return question("bash", {"command": command}, "asks always", ASK, size)


@pytest.mark.parametrize("command", HIDING.values(), ids=HIDING)
def test_the_person_who_is_asked_sees_what_would_run(dsh: Shell, command: str) -> None:
    site = dsh.work / "site"
    distribution(site, "asks", {"asks": "asks"}, asks=ASKS)
    dsh.env["PYTHONPATH"] = str(site)
    script = [model.reply(calls=[model.call("bash", {"command": command})]), model.reply("Well.")]
    with ModelServer.in_thread(script) as server:
        dsh.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        with Terminal(dsh, "run", "-p", "no:permission", "Go.") as terminal:
            shown = terminal.read_until("[n]")
            asked = rows(shown[shown.rindex("→ bash") :], terminal.columns)
            terminal.type("n\n")
            code = terminal.wait()

    assert code == 0
    assert len(asked) <= terminal.lines
    assert HARM in "".join(asked)
    assert "Allow? y = yes" in "".join(asked[-3:])
    assert "\x1b" not in shown[shown.rindex("→ bash") :]
    assert not (dsh.work / "harmed").exists()


def test_a_yes_runs_it(dsh: Shell) -> None:
    site = dsh.work / "site"
    distribution(site, "asks", {"asks": "asks"}, asks=ASKS)
    dsh.env["PYTHONPATH"] = str(site)
    script = [model.reply(calls=[model.call("bash", {"command": HARM})]), model.reply("Well.")]
    with ModelServer.in_thread(script) as server:
        dsh.env |= {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": server.base_url}
        with Terminal(dsh, "run", "-p", "no:permission", "Go.") as terminal:
            terminal.read_until(
                "asks always\nAllow? y = yes, n = no, or write what to do instead [n]"
            )
            terminal.type("y\n")
            terminal.wait()

    assert (dsh.work / "harmed").exists()


def test_each_argument_has_a_line_and_a_short_call_is_shown_whole() -> None:
    arguments = {"file_path": "a.py", "old_string": "x\n    y", "replace_all": True}

    assert question("edit", arguments, "edit a.py", ASK, (80, 24)) == [
        "→ edit",
        '  file_path: "a.py"',
        '  old_string: "x\\n    y"',
        "  replace_all: true",
        "edit a.py",
        ASK,
    ]


def test_what_is_left_out_is_counted_and_said() -> None:
    lines = ask("head " + "x" * 10_000 + " tail")

    assert '"head xxx' in lines[1]
    assert 'xxx tail"' in lines[1]
    assert "characters …]" in lines[1]
    assert lines[-1] == f"Only a part is shown. {ASK}"


def test_a_gap_is_counted_instead_of_shown() -> None:
    assert ask("ls" + " " * 500 + "; rm x")[1] == '  command: "ls [… 500 blanks …] ; rm x"'


def test_a_long_argument_leaves_room_for_the_others() -> None:
    lines = question(
        "write", {"content": "x" * 99_999, "file_path": "/etc/passwd"}, "", ASK, (80, 24)
    )

    assert lines[2] == '  file_path: "/etc/passwd"'


def test_more_arguments_than_lines_are_counted() -> None:
    lines = question("t", {f"a{n}": n for n in range(1_000)}, "why", ASK, (80, 24))

    assert lines[1] == "  a0: 0"
    assert lines[-3] == f"  … and {1_000 - (len(lines) - 4)} more arguments"
    assert lines[-1].startswith("Only a part is shown.")


def test_a_rule_that_cannot_be_seen_whole_is_not_offered() -> None:
    assert shown_offers(("Bash(ls:*)", "Read(\u202ea)"), (80, 24)) == (
        "Bash(ls:*) and Read(\\u202ea)"
    )
    assert shown_offers(("Bash(" + "x" * 5_000 + ")",), (80, 24)) == ""


TEXT = st.text(st.sampled_from("a é漢😀\n\t\u0301\u200b\u2800\x1b\U000f0000…")) | st.builds(
    lambda char, count: char * count, st.sampled_from("a 漢\n\t😀"), st.integers(0, 5_000)
)
VALUE = st.recursive(
    TEXT | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@few
@given(
    TEXT,
    st.dictionaries(TEXT, VALUE, max_size=40),
    TEXT,
    st.tuples(st.integers(20, 200), st.integers(9, 60)),
)
def test_no_call_is_larger_than_the_screen(
    name: str, arguments: Mapping[str, Any], reason: str, size: tuple[int, int]
) -> None:
    lines = question(name, arguments, reason, ASK, size)
    shown = rows("\n".join([*lines, ""]), size[0])

    assert len(shown) <= size[1]
    assert all(line.isprintable() for line in lines)
    assert lines[-1].endswith(ASK)
