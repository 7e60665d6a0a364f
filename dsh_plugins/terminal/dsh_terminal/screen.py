"""The terminal: what is finished scrolls up, below it the live part, the input and the status line.

Nothing foreign is written here: the text that comes in was made harmless by `Paint`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from dsh_terminal.paint import wrapped
from dsh_terminal.question import Question
from dsh_terminal.transcript import Lines

FRAME_SECONDS = 0.04
"""Between two drawings while text streams: as smooth as a person can see."""
TICK_SECONDS = 0.12
"""Between two positions of the spinner."""
INPUT_ROWS = 8
MENU_ROWS = 7
RESERVED_ROWS = 6
"""Below the live part: queue, input, status."""

STYLE = Style.from_dict(
    {
        "reasoning": "italic ansibrightblack",
        "call": "ansicyan",
        "tail": "ansibrightblack",
        "queue": "ansibrightblack",
        "prompt": "bold ansigreen",
        "status": "ansibrightblack",
        "hint": "ansiyellow",
        "question": "bold ansiyellow",
        "selected": "bold reverse",
        "completion-menu": "bg:default fg:default",
        "completion-menu.completion.current": "reverse",
    }
)


class Content(Protocol):
    """What the screen draws; asked anew for every frame."""

    def live(self, rows: int, tick: int) -> Lines:
        """Return the rows that still change."""

    def queue(self) -> list[str]:
        """Return what waits to be sent."""

    def status(self, width: int) -> str:
        """Return the line at the bottom."""

    @property
    def hint(self) -> str:
        """What should be known now, in place of the status; "" = nothing."""

    @property
    def is_busy(self) -> bool:
        """Whether something moves."""


class Screen:
    """Draws, and reads keys.

    Args:
        content: What to draw.
        keys: What keys do.
        completer: Completes what is typed.
        history: What was typed before.
        prompt: Stands before the input.
        open_input: Made for tests; None = the terminal.
        open_output: Made for tests; None = the terminal.
    """

    def __init__(
        self,
        content: Content,
        keys: KeyBindings,
        *,
        completer: Completer,
        history: History,
        prompt: str,
        open_input: Input | None = None,
        open_output: Output | None = None,
    ):
        self._content = content
        self._prompt = prompt
        self._pending: list[str] = []
        self._tick = 0
        self._frame: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self.question: Question | None = None
        self.output = open_output or terminal_output()
        self.buffer = Buffer(
            completer=ThreadedCompleter(completer),
            complete_while_typing=True,
            history=history,
            multiline=True,
        )
        self.why = Buffer(multiline=False)
        self.app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=keys,
            style=STYLE,
            erase_when_done=True,
            input=open_input or create_input(),
            output=self.output,
            after_render=self._drawn,
        )
        self.app.ttimeoutlen = 0.05
        self.app.timeoutlen = 0.15  # Esc is a key of its own, and begins Alt-Enter

    # --------------------------------------------------------------------------- lifetime

    async def run(self) -> None:
        """Draw and read keys until `leave`."""
        await self.app.run_async()

    def leave(self) -> None:
        """End `run`."""
        if self.app.is_running and self.app.future is not None and not self.app.future.done():
            self.app.exit()

    # ----------------------------------------------------------------------------- output

    @property
    def width(self) -> int:
        """Columns."""
        return self.output.get_size().columns

    def show(self, text: str) -> None:
        """Write text above the live part, for good."""
        if not self.app.is_running:
            self._write(text)
            return
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._flush)
        self._pending.append(text)

    def _flush(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        if self.app.is_running:
            self.app.renderer.erase()
        self._write(text)
        self.app.invalidate()

    def _write(self, text: str) -> None:
        self.output.write_raw(text.replace("\r\n", "\n").replace("\n", "\r\n"))
        self.output.flush()

    def flush(self) -> None:
        """Write at once what was shown."""
        if self._pending:
            self._flush()

    def refresh(self) -> None:
        """Draw again soon; what comes meanwhile is drawn with it."""
        if self._frame is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            self._frame = loop.call_later(FRAME_SECONDS, self._draw)
        if self._ticker is None and self._content.is_busy:
            self._spin()

    def _draw(self) -> None:
        self._frame = None
        self.app.invalidate()

    def _spin(self) -> None:
        """Move the spinner for as long as something is busy."""
        self._ticker = None
        self._tick += 1
        self.app.invalidate()
        if self._content.is_busy and self.app.is_running:
            self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._spin)

    # -------------------------------------------------------------------------- questions

    def ask(self, question: Question) -> None:
        """Put a question in the place of the input."""
        self.question = question
        self.why.reset()
        self.flush()
        self.app.layout.focus(self._question_window)
        self.app.invalidate()

    def asked(self) -> None:
        """Give the input back."""
        self.question = None
        self.app.layout.focus(self.buffer)
        self.app.invalidate()

    def ask_why(self) -> None:
        """Let the person type what to do instead."""
        self.app.layout.focus(self.why)

    def _drawn(self, app: Application[None]) -> None:
        if self.question is not None:
            self.question.shown()

    # ----------------------------------------------------------------------------- layout

    def _layout(self) -> Layout:
        asks = Condition(lambda: self.question is not None)
        asks_why = Condition(lambda: self.question is not None and self.question.is_asking_why)
        self._question_window = _rows(self._answers, focusable=True)
        body = HSplit(
            [
                ConditionalContainer(
                    _rows(self._live), Condition(lambda: self._content.is_busy and not asks())
                ),
                ConditionalContainer(
                    _rows(self._queue), Condition(lambda: bool(self._content.queue()))
                ),
                ConditionalContainer(self._question_window, asks),
                ConditionalContainer(self._input(self.why), asks_why),
                ConditionalContainer(self._input(self.buffer), ~asks),
                Window(FormattedTextControl(self._status), height=1),
            ]
        )
        menu = Float(CompletionsMenu(max_height=MENU_ROWS), xcursor=True, ycursor=True)
        return Layout(FloatContainer(body, [menu]), focused_element=self.buffer)

    def _input(self, buffer: Buffer) -> VSplit:
        def height() -> Dimension:
            rows = MENU_ROWS + 1 if buffer.complete_state is not None else 1
            return Dimension(min=rows, max=max(INPUT_ROWS, rows))

        mark: StyleAndTextTuples = [("class:prompt", f"{self._prompt} ")]
        lead = Window(
            FormattedTextControl(mark), width=len(self._prompt) + 1, dont_extend_width=True
        )
        text = Window(
            BufferControl(buffer), height=height, wrap_lines=True, dont_extend_height=True
        )
        return VSplit([lead, text])

    def _room(self) -> int:
        return max(1, self.output.get_size().rows - RESERVED_ROWS - 2)

    def _live(self) -> StyleAndTextTuples:
        return _joined(self._content.live(self._room(), self._tick))

    def _queue(self) -> StyleAndTextTuples:
        return _joined([("class:queue", line) for line in self._content.queue()[-4:]])

    def _answers(self) -> StyleAndTextTuples:
        question = self.question
        if question is None:
            return []
        width = max(self.width - 1, 10)
        rows: Lines = [("class:question", row) for row in wrapped(question.title, width)]
        for index, answer in enumerate(question.answers):
            is_selected = index == question.selected
            style = "class:selected" if is_selected else ""
            text = f"{self._prompt if is_selected else ' '} {answer.key}  {answer.text}"
            rows += [(style, row) for row in wrapped(text, width)]
        return _joined(rows)

    def _status(self) -> StyleAndTextTuples:
        if self._content.hint:
            return [("class:hint", f"  {self._content.hint}")]
        return [("class:status", f"  {self._content.status(self.width - 3)}")]


def _rows(text: Callable[[], StyleAndTextTuples], *, focusable: bool = False) -> Window:
    control = FormattedTextControl(text, focusable=focusable, show_cursor=False)
    return Window(control, dont_extend_height=True, wrap_lines=False)


def _joined(lines: Lines) -> StyleAndTextTuples:
    parts: StyleAndTextTuples = []
    for style, text in lines:
        parts += [(style, text), ("", "\n")]
    return parts[:-1]


def terminal_output() -> Output:
    """Return the terminal, without asking it where its cursor is: not all of them answer."""
    output = Vt100_Output.from_pty(
        sys.stdout, os.environ.get("TERM"), default_color_depth=ColorDepth.from_env()
    )
    output.enable_cpr = False
    return output
