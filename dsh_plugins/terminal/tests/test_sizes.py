"""Narrow and wide, resized, without colour, in other encodings and scripts."""

from __future__ import annotations

import re

import pytest
from person import Person, calling, scripted
from program import Shell
from rich.cells import cell_len

LONG = " ".join(f"word{n}" for n in range(60))
TABLE = "| name | value |\n|---|---|\n| a | b |\n\n```python\nprint('x' * 100)\n```"


@pytest.mark.parametrize(("columns", "lines"), [(40, 12), (80, 24), (200, 50)])
def test_it_fits_every_size(dsh: Shell, columns: int, lines: int) -> None:
    scripted(dsh, calling("bash", command=f"echo {LONG}"), f"{LONG}\n\n{TABLE}")
    with Person(dsh, "chat", "-c", "mine.yaml", columns=columns, lines=lines) as person:
        person.sees_on_screen("default · offline/script")
        person.says("Much")
        shown = person.sees("✓ bash echo word0", "word59", "print('x' * 100)")
        person.sees_on_screen("offline/script")

        answer = shown[shown.rindex("word0 ") :]
        assert re.findall(r"word\d+", answer)[:60] == LONG.split()


def test_wide_and_combining_characters_keep_the_rows_apart(dsh: Shell) -> None:
    text = "日本語のとても長い文章です。" * 8 + " e\u0301 👩 ok"
    scripted(dsh, text)
    with Person(dsh, "chat", "-c", "mine.yaml", columns=40) as person:
        person.sees_on_screen("offline/script")
        person.says("こんにちは")
        shown = person.sees("❯ こ", "ok")
        # A terminal shows a wide character in two cells, of which pyte leaves the second empty.
        assert shown.replace("\n", "").replace(" ", "").count("日本語のとても長い文章です。") == 8
        assert all(cell_len(row) <= 40 for row in shown.splitlines())


def test_resizing_does_not_spoil_what_follows(dsh: Shell) -> None:
    scripted(dsh, "First.", "Second.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("one")
        person.sees("First.")
        person.resizes(44, 16)
        person.types("two")
        person.sees_on_screen("❯ two")
        person.resizes(120, 40)
        person.types("!\r")
        person.sees("❯ two!", "Second.")
        person.sees_on_screen("default · offline/script")

        assert sum("default · offline/script" in row for row in person.rows) == 1


def test_no_color_is_honoured(dsh: Shell) -> None:
    dsh.env["NO_COLOR"] = "1"
    scripted(dsh, calling("nothing", command="exit 1"), TABLE)
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("offline/script")
        person.says("Colours")
        person.sees("✗ nothing exit 1", "print(")

        codes = {
            code for seq in re.findall(rb"\x1b\[([\d;]*)m", person.sent) for code in seq.split(b";")
        }
        colours = {n for n in map(int, filter(None, codes)) if 30 <= n <= 49 or n >= 90}
        assert colours <= {39, 49}


def test_another_encoding_gets_symbols_that_it_has(dsh: Shell) -> None:
    dsh.env |= {"PYTHONIOENCODING": "latin-1", "LANG": "C", "LC_ALL": "C"}
    scripted(dsh, calling("bash", command="echo hi"), "Grüße, 日本.")
    with Person(dsh, "chat", "-c", "mine.yaml") as person:
        person.sees_on_screen("default - offline/script")
        person.says("hello")
        person.sees("+ bash echo hi")
        person.until(lambda: b"Gr\xfc\xdfe, ??." in person.sent, "latin-1")
