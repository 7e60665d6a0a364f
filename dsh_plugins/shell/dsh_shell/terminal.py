r"""Program output as a terminal would show it at the end.

Progress bars redraw themselves with carriage returns, erase and cursor sequences; only their last
frame is worth reading. The model of a terminal here: rows of any width, of which the last `ROWS`
can still be changed. Understood (ECMA-48 names in brackets): CR, BS, cursor moves (CUU, CUD, CUF,
CUB, CNL, CPL, CHA, CUP), erasing in line and display (EL, ED). Removed: every other CSI sequence,
control strings as window titles and hyperlinks, charset selection, BEL, SO, SI. Other control
characters are shown as `\x00`. A character is one column wide, so a redraw that puts narrow
characters over wide ones may leave a rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ROWS = 50
"""Rows that can still be changed: as many as a tall terminal shows."""

LONGEST_ROW = 8192
"""Characters of a row that can still be changed: no progress bar is longer."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SHOWN = {
    code: f"\\x{code:02x}"
    for code in (*range(0x20), *range(0x7F, 0xA0))
    if code not in b"\a\b\t\n\r\x0e\x0f\x1b"
}
_SHOWN_CONTROL = re.compile(f"[{re.escape(''.join(map(chr, _SHOWN)))}]")
_TOKEN = re.compile(
    r"""
      (?P<text> [^\x07\x08\n\r\x0e\x0f\x1b]+ )
    | (?P<newline> \n )
    | (?P<carriage_return> \r )
    | (?P<backspace> \x08 )
    | (?P<silent> [\x07\x0e\x0f] )
    | \x1b\[ (?P<private> [<=>?]? ) (?P<parameters> [0-?]{0,64} ) [ -/]{0,8} (?P<csi> [@-~] )
    | (?P<string> \x1b [\]PX^_] [^\x07\x1b\n]{0,8192} (?: \x07 | \x1b\\ ) )
    | (?P<escape> \x1b [ -/]{0,8} [0-OQ-WYZ\\`-~] )
    | (?P<unfinished> \x1b (?: \[ [0-?]{0,64} [ -/]{0,8}
                             | [\]PX^_] [^\x07\x1b\n]{0,8192}
                             | [ -/]{0,8} ) \Z )
    | (?P<stray> \x1b )
    """,
    re.VERBOSE,
)
"""A run of text, or one control character or sequence, or the start of a sequence at the very end.

A control string that is not ended on its line, or is longer than 8192, is shown: nothing that a
program prints may vanish because of one stray byte."""


class Terminal:
    """Takes text in pieces, however they are cut, and hands on rows that can change no more.

    Args:
        write: Gets the text, in order.

    """

    def __init__(self, write: Callable[[str], None]):
        self._write = write
        self._unfinished = ""
        self._rows = [""]
        self._row = 0
        self._column = 0
        self._top: int | None = None  # the row that a program took for its screen's first

    @property
    def last_row(self) -> str:
        """The lowest row that is not blank, of those that can change."""
        return next((row for row in reversed(self._rows) if not row.isspace() and row), "")

    def feed(self, text: str) -> None:
        """Take the next piece of output."""
        text, held_back = _split_unfinished(self._unfinished + text)
        self._unfinished = ""
        if _CONTROL.search(text):
            text = _COLOUR.sub("", text).replace("\r\n", "\n")
            if "\x1b" not in text:
                text = _made_visible(text)
        if self._is_at_end and not _CONTROL.search(text):
            self._append(text)
        else:
            self._interpret(text)
        self._unfinished += held_back

    def flush(self) -> None:
        """Hand on all that is there; what comes later goes on where it ends."""
        self._write("\n".join(self._rows))
        self._rows, self._row, self._column, self._top = [""], 0, 0, None

    def close(self) -> None:
        """Hand on the rest, a sequence that was never finished included."""
        if self._unfinished:
            self._put(_made_visible(self._unfinished.replace("\x1b", r"\x1b")))
            self._unfinished = ""
        self.flush()

    @property
    def _is_at_end(self) -> bool:
        return self._row == len(self._rows) - 1 and self._column == len(self._rows[-1])

    def _append(self, text: str) -> None:
        """Take text without control characters at the end of the last row: the fast path."""
        first, *more = text.rsplit("\n", ROWS)
        self._rows[-1] += first
        self._rows += more
        self._row, self._column = len(self._rows) - 1, len(self._rows[-1])
        self._hand_on()
        if self._column > LONGEST_ROW:
            self.flush()

    def _interpret(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            match token.lastgroup:
                case "text":
                    self._put(_made_visible(token[0]))
                case "newline":
                    self._new_row()
                case "carriage_return":
                    self._column = 0
                case "backspace":
                    self._column = max(0, self._column - 1)
                case "csi":
                    if not token["private"]:
                        self._control(token["csi"], token["parameters"])
                case "unfinished":
                    self._unfinished = token[0]
                case "stray":
                    self._put(r"\x1b")

    def _put(self, text: str) -> None:
        row, column = self._rows[self._row], self._column
        self._column = end = column + len(text)
        before = row[:column] if column <= len(row) else row.ljust(column)
        self._rows[self._row] = before + text + row[end:]
        if end > LONGEST_ROW:
            self.flush()

    def _new_row(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self._rows):
            self._rows.append("")
            if self._row > 2 * ROWS:  # rarely: handing on moves all rows
                self._hand_on()

    def _hand_on(self) -> None:
        """Write the rows that are too far above to be changed."""
        excess = len(self._rows) - ROWS
        if excess > 0:
            self._write("\n".join(self._rows[:excess]) + "\n")
            del self._rows[:excess]
            self._row = max(0, self._row - excess)
            if self._top is not None:
                self._top = max(0, self._top - excess)

    def _move(self, row: int, column: int) -> None:
        """Go to a row and a column; rows that do not exist yet are made."""
        self._row = max(0, min(row, len(self._rows) + ROWS))
        self._column = max(0, min(column, LONGEST_ROW))
        self._rows += [""] * (self._row + 1 - len(self._rows))

    def _control(self, final: str, parameters: str) -> None:
        """Obey a CSI sequence that moves or erases."""
        numbers = [int(number) if number.isdecimal() else 0 for number in parameters.split(";")]
        first = numbers[0]
        count = max(1, first)
        match final:
            case "A":
                self._move(self._row - count, self._column)
            case "B":
                self._move(self._row + count, self._column)
            case "C":
                self._move(self._row, self._column + count)
            case "D":
                self._move(self._row, self._column - count)
            case "E":
                self._move(self._row + count, 0)
            case "F":
                self._move(self._row - count, 0)
            case "G":
                self._move(self._row, count - 1)
            case "H" | "f":
                column = numbers[1] if len(numbers) > 1 else 1
                self._move(self._screen_top() + count - 1, column - 1)
            case "J":
                self._erase_display(first)
            case "K":
                self._erase_row(first)

    def _screen_top(self) -> int:
        """Return the row a program means by 1: where it first asked, a screen of its own begins."""
        if self._top is None:
            if self._rows[-1]:
                self._rows.append("")
            self._top = len(self._rows) - 1
        return self._top

    def _erase_display(self, what: int) -> None:
        if what == 0:
            self._erase_row(0)
            del self._rows[self._row + 1 :]
        elif what in (2, 3):
            top = self._screen_top()
            del self._rows[top:]
            self._move(top, 0)

    def _erase_row(self, what: int) -> None:
        row = self._rows[self._row]
        kept = {0: row[: self._column], 1: row[self._column :].rjust(len(row)), 2: ""}
        self._rows[self._row] = kept.get(what, row)


def _made_visible(text: str) -> str:
    return text.translate(_SHOWN) if _SHOWN_CONTROL.search(text) else text


def _split_unfinished(text: str) -> tuple[str, str]:
    """Cut off a sequence that has only begun, so that what is before it can go the fast path."""
    start = text.rfind("\x1b")
    token = _TOKEN.match(text, start) if start >= 0 else None
    if token is None or token.lastgroup != "unfinished":
        return text, ""
    return text[:start], text[start:]
