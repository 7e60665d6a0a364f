"""What a terminal would show at the end, however the output is cut into pieces."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_shell.terminal import LONGEST_ROW, ROWS, Terminal


def shown(*pieces: str) -> str:
    out: list[str] = []
    terminal = Terminal(out.append)
    for piece in pieces:
        terminal.feed(piece)
    terminal.close()
    return "".join(out)


def cut(text: str, seed: int, longest: int) -> list[str]:
    chance = random.Random(seed)
    pieces = []
    while text:
        size = chance.randint(1, longest)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


EXAMPLES = {
    "a carriage return overwrites": ("draft\rsecond-try\n", "second-try\n"),
    "what is not overwritten stays": ("abc\rx", "xbc"),
    "CRLF keeps the line": ("whole\r\nlast\r\n", "whole\nlast\n"),
    "CR CR LF keeps the line": ("whole\r\r\n", "whole\n"),
    "the last frame of a progress bar": ("\r 1%\r 22%\r100%\ndone\n", "100%\ndone\n"),
    "colours go": ("\x1b[1;32mok\x1b[0m and \x1b[38:5:1mred\x1b[m\n", "ok and red\n"),
    "a line erased and begun anew": ("old text\x1b[2K\x1b[1Gnew\n", "new\n"),
    "erase to the end of the line": ("long text\r\x1b[4Cer\x1b[K\n", "longer\n"),
    "erase to the start of the line": ("abc\x1b[1Kd", "   d"),
    "lines redrawn from above": ("one\ntwo\n\x1b[2A\x1b[2KONE\n\x1b[Ktwo2\n", "ONE\ntwo2\n"),
    "previous and next line": ("a\nb\x1b[Fx\x1b[Ey", "x\ny"),
    "down makes lines": ("a\x1b[2Bb", "a\n\n b"),
    "forward leaves blanks": ("a\x1b[3Cb", "a   b"),
    "backspace overwrites": ("N\bN_\bX", "NX"),
    "a window title goes": ("\x1b]0;title\x07text", "text"),
    "a hyperlink leaves its text": ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\!", "link!"),
    "charset selection goes": ("\x1b(Bx\x1b)0\x0f", "x"),
    "cursor visibility goes": ("\x1b[?25lx\x1b[?25h", "x"),
    "the bell is silent": ("ding\x07!", "ding!"),
    "tabs stay": ("a\tb\n", "a\tb\n"),
    "NUL and others are made visible": ("a\x00b\x7fc\x9bd\x0c", "a\\x00b\\x7fc\\x9bd\\x0c"),
    "a cleared screen keeps what was before it": (
        "before\n\x1b[H\x1b[2Jframe 1\n\x1b[H\x1b[2Jframe 2\n",
        "before\nframe 2\n",
    ),
    "a screen redrawn from home": ("pre\n\x1b[Haa\nbb\n\x1b[Hcc\x1b[J", "pre\ncc"),
    "a column given alone": ("one\ntwo\x1b[;2Hx", "one\ntwo\n x"),
    "an unfinished sequence is shown": ("x\x1b[3", "x\\x1b[3"),
    "a control string that never ends is shown": ("\x1b]never\nnext", "\\x1b]never\nnext"),
    "a stray escape is shown": ("a\x1b\x01b", "a\\x1b\\x01b"),
    "no output is no output": ("", ""),
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
@pytest.mark.parametrize("longest", [1, 3, 1000])
def test_it_shows(text: str, expected: str, longest: int) -> None:
    assert shown(*cut(text, seed=longest, longest=longest)) == expected


@given(st.text(alphabet="ab\n\t é漢"), st.integers(1, 9))
def test_plain_text_stays_as_it_is(text: str, longest: int) -> None:
    assert shown(*cut(text, seed=1, longest=longest)) == text


ODD = st.text(alphabet="ab\n\r\b\x1b[]0;2AHJKGm\\\x07\x00", max_size=80)


@given(ODD, st.integers(0, 9))
def test_the_cuts_make_no_difference(text: str, seed: int) -> None:
    assert shown(*cut(text, seed, longest=4)) == shown(text)


@given(st.text(max_size=200))
def test_no_control_character_gets_through(text: str) -> None:
    assert not set(shown(text)) & {chr(code) for code in range(32) if chr(code) not in "\t\n"}


def test_lines_far_above_can_not_be_changed_any_more() -> None:
    lines = [f"line {number}" for number in range(3 * ROWS)]
    text = shown("\n".join(lines), f"\x1b[{10 * ROWS}Anew")
    assert text.splitlines()[:ROWS] == lines[:ROWS]
    assert "new" in text


def test_a_line_without_end_is_handed_on_in_parts() -> None:
    out: list[str] = []
    terminal = Terminal(out.append)
    for _ in range(10):
        terminal.feed("x" * LONGEST_ROW)
    assert sum(map(len, out)) >= 8 * LONGEST_ROW
    terminal.close()
    assert "".join(out) == "x" * 10 * LONGEST_ROW


def test_a_column_far_right_takes_no_memory() -> None:
    assert len(shown("\x1b[999999999Gx\x1b[99999999999999999999Cy")) < 3 * LONGEST_ROW


def test_a_flush_in_the_middle_of_a_line_loses_nothing() -> None:
    out: list[str] = []
    terminal = Terminal(out.append)
    terminal.feed("wor")
    terminal.flush()
    terminal.feed("king \x1b[3")
    terminal.flush()
    terminal.feed("1mon\x1b[0m it\n")
    terminal.close()
    assert "".join(out) == "working on it\n"


def test_the_last_row_is_the_lowest_that_says_something() -> None:
    terminal = Terminal(lambda text: None)
    terminal.feed("\r10%\r\x1b[32m99%\x1b[0m\n   \n")
    assert terminal.last_row == "99%"
