"""What goes above the input line: rich's rendering as text, of content that was made harmless.

Models, tools and files are never trusted: their text goes through `printable` first, and what rich
adds are colours only, no links and no titles.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from dsh_core.cli import one_line, printable

SMALLEST_WIDTH = 20
USUAL_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Symbols:
    """Characters with a meaning, as the terminal's encoding can show them."""

    done: str = "✓"
    failed: str = "✗"
    answer: str = "●"
    thought: str = "✻"
    prompt: str = "❯"
    more: str = "…"
    bar: str = "│"
    queued: str = "⏎"
    steer: str = "↪"
    dot: str = "·"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


ASCII = Symbols("+", "x", "*", "~", ">", "...", "|", "queued:", "steer:", "-", "|/-\\")


def symbols_of(encoding: str) -> Symbols:
    """Return the symbols that an encoding can show."""
    try:
        "".join(str(getattr(Symbols(), name)) for name in Symbols.__slots__).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return Symbols()


class _Sheet(io.StringIO):
    """Text in memory that claims the terminal's encoding, by which rich chooses its lines."""

    def __init__(self, encoding: str):
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The terminal's."""
        return self._encoding


class Paint:
    """Renders for a terminal of a width that may change.

    Args:
        encoding: Of the terminal.
        environ: `NO_COLOR`, `TERM` and `COLORTERM` count.
        scrub: Takes secrets out.
    """

    def __init__(
        self,
        *,
        encoding: str = "utf-8",
        environ: Mapping[str, str] | None = None,
        scrub: Callable[[str], str] = str,
    ):
        self._width: Callable[[], int] = lambda: USUAL_WIDTH
        self._encoding = encoding
        self._environ = dict(os.environ if environ is None else environ)
        self.scrub = scrub
        self.symbols = symbols_of(encoding)

    def use_width(self, width: Callable[[], int]) -> None:
        """Take the width from there, from now on."""
        self._width = width

    @property
    def width(self) -> int:
        """Columns."""
        return max(self._width(), SMALLEST_WIDTH)

    def harmless(self, text: str) -> str:
        """Return foreign text without secrets and control characters."""
        return printable(self.scrub(text))

    def line(self, text: str, width: int) -> str:
        """Return the first line of foreign text, cut to a width."""
        return one_line(self.scrub(text), max(width, 2))

    def render(self, *parts: RenderableType) -> str:
        """Return what rich makes of the parts, with colours, each on lines of its own."""
        sheet = _Sheet(self._encoding)
        console = Console(
            file=sheet,
            force_terminal=True,
            width=self.width,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ=self._environ,
        )
        for part in parts:
            console.print(part)
        return sheet.getvalue()

    # ------------------------------------------------------------------------- blocks

    def markdown(self, text: str, *, indent: int = 2) -> str:
        """Return foreign Markdown, rendered."""
        body = Markdown(self.harmless(text), hyperlinks=False, code_theme="ansi_dark")
        return self.render(Padding(body, (0, 0, 0, indent)))

    def marked(self, mark: str, text: str, style: str, *, mark_style: str | None = None) -> str:
        """Return text after a mark; further lines and wrapped ones are indented."""
        room = max(self.width - cell_len(mark) - 1, 10)
        rows = wrapped(text, room)
        lines = Text()
        for index, row in enumerate(rows):
            lead = mark if index == 0 else " " * cell_len(mark)
            lines.append(f"{lead} ", style=mark_style or style)
            lines.append(row, style=style)
            if index < len(rows) - 1:
                lines.append("\n")
        return self.render(lines)

    def note(self, text: str, *, style: str = "dim") -> str:
        """Return a remark of the program."""
        return self.marked(" ", self.harmless(text), style)


def wrapped(text: str, width: int) -> list[str]:
    """Return text in rows of at most so many columns, cut between words where that is possible."""
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        if cell_len(line) <= width:
            rows.append(line)
        else:
            rows.extend(row.plain.rstrip() for row in Text(line).wrap(_MEASURE, width))
    return rows


_MEASURE = Console(file=io.StringIO(), width=USUAL_WIDTH)
"""Rich wraps for a console; this one writes nothing."""
