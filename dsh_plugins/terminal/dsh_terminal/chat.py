"""`dsh chat`: one person, one agent at a time, and the screen between them."""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
import sys
import time
from collections import deque
from pathlib import Path

from dsh_core import (
    Agent,
    Approval,
    ApprovalRequest,
    Chunk,
    Event,
    Harness,
    HarnessError,
    PluginError,
    Session,
    error_chain,
)
from dsh_core.events import ErrorEvent, StepEnd, StepStart
from dsh_terminal.commands import ChatCommands
from dsh_terminal.completion import ChatCompleter
from dsh_terminal.front_end import ChatFrontEnd
from dsh_terminal.history import open_history
from dsh_terminal.keys import key_bindings
from dsh_terminal.line_screen import LineScreen, is_dumb
from dsh_terminal.paint import Paint
from dsh_terminal.question import Question, answers_of, described, title_of
from dsh_terminal.screen import Screen
from dsh_terminal.seat import Seat
from dsh_terminal.settings import Settings
from dsh_terminal.status import Spending, fitted, modes_of, status_words
from dsh_terminal.transcript import Lines, Transcript

AGAIN_SECONDS = 2.0
"""Two Ctrl-C within this time leave."""

STATUS_ROWS = 3
"""Below the answers to a question, and above them."""

STOPPED = "stopped by the user"


class Chat:
    """Everything of a chat that lasts as long as it.

    Args:
        paint: Renders.
    """

    def __init__(self, paint: Paint):
        self.paint = paint
        self.commands = ChatCommands(self)
        self.front_end = ChatFrontEnd(self)
        self.spending = Spending()
        self.queued: list[str] = []
        self.seat: Seat
        self.screen: Screen | LineScreen
        self.transcript: Transcript
        self._settings = Settings()
        self._modes: list[str] = []
        self._hint = ""
        self._interrupted_at = -AGAIN_SECONDS
        self._failure = ""
        self._heard: deque[Event | Chunk] = deque()
        self._asking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running_command = ""
        self._started = time.monotonic()

    # -------------------------------------------------------------------------- lifetime

    async def run(self, harness: Harness, agent: Agent, settings: Settings) -> None:
        """Talk until the person leaves."""
        self._settings = settings
        self.seat = Seat(harness, agent, self._seated)
        self.screen = self._make_screen(harness)
        self.paint.use_width(lambda: self.screen.width)
        self._seated(agent)
        try:
            await self.screen.run()
        finally:
            if self.is_running:
                self.seat.agent.abort(STOPPED)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _make_screen(self, harness: Harness) -> Screen | LineScreen:
        prompt = self.paint.symbols.prompt
        if is_dumb(os.environ):
            return LineScreen(self, prompt=prompt, stdin=sys.stdin, stdout=sys.stdout)

        def commands() -> list[tuple[str, str]]:
            return [(c.name, c.description) for c in harness.commands.list(self.seat.agent)]

        def agents() -> list[tuple[str, str]]:
            return [(name, one.model or "") for name, one in harness.config.agents.items()]

        def models() -> list[tuple[str, str]]:
            return [(model, "") for model in self.seat.models()]

        return Screen(
            self,
            key_bindings(self),
            completer=ChatCompleter(
                commands, {"agent": agents, "model": models}, lambda: Path(self.seat.agent.cwd)
            ),
            history=open_history(harness.secrets.scrub, is_kept=self._settings.history),
            prompt=prompt,
        )

    def _seated(self, agent: Agent) -> None:
        """Show another conversation, from its beginning."""
        if hasattr(self, "transcript"):
            self._tell()
        self.transcript = Transcript(self.paint, self.screen.show, self._settings)
        self.spending = Spending()
        for event in agent.session.events:
            self.spending.feed(event)
            self.transcript.event(event)
        self._start(self._read_modes())

    # ------------------------------------------------------------------------ what is heard

    def on_chunk(self, agent: Agent, chunk: Chunk) -> None:
        """Show what streams."""
        if self._is_mine(agent.id):
            self._hear(chunk)

    def on_event(self, session: Session, event: Event) -> None:
        """Show what happened."""
        if not self._is_mine(session.id):
            return
        if isinstance(event.data, ErrorEvent):
            self._failure = event.data.message
        if isinstance(event.data, (StepStart, StepEnd)):
            self._start(self._read_modes())
        self.spending.feed(event)
        self._hear(event)

    def _hear(self, news: Event | Chunk) -> None:
        """Keep what is to be drawn: drawing takes time, which no hook should hold up."""
        if not self._heard:
            asyncio.get_running_loop().call_soon(self._tell)
        self._heard.append(news)

    def _tell(self) -> None:
        """Draw what was heard."""
        while self._heard:
            news = self._heard.popleft()
            if isinstance(news, Event):
                self.transcript.event(news)
            else:
                self.transcript.chunk(news)
        self.screen.refresh()

    def on_status(self, agent: Agent, status: str) -> None:
        """Begin to spin, or send what is queued."""
        if not self._is_mine(agent.id):
            return
        self._started = time.monotonic()
        if status == "idle":
            asyncio.get_running_loop().call_soon(self._send_queued)
            self._start(self._read_modes())
        self.screen.refresh()

    def on_error(self, agent: Agent, error: BaseException) -> None:
        """Show a plugin's failure, unless an event said the same."""
        is_news = isinstance(error, PluginError) and str(error) != self._failure
        if is_news and self._is_mine(agent.id):
            self._tell()
            self.transcript.note(f"plugin failed: {error_chain(error)}", style="red")

    async def ask(self, agent: Agent, request: ApprovalRequest) -> Approval:
        """Ask the person about a call, one question at a time."""
        async with self._asking:
            self._tell()
            other = None if self._is_mine(agent.id) else agent.name
            text = described(request, self.paint, agent=other)
            self.screen.show(text)
            answers = answers_of(request, self.paint)
            room = shutil.get_terminal_size().lines - len(answers) - STATUS_ROWS
            title = title_of(request, self.paint, rows=text.count("\n"), room=room)
            question = Question(title, answers, asyncio.get_running_loop().create_future())
            self.screen.ask(question)
            try:
                return await question.answer
            finally:
                self.screen.asked()

    def _is_mine(self, session_id: str) -> bool:
        return hasattr(self, "seat") and self.seat.agent.id == session_id

    # ------------------------------------------------------------------------ what is drawn

    def live(self, rows: int, tick: int) -> Lines:
        """Return the rows that still change."""
        lines = self.transcript.live(rows, tick)
        if lines:
            return lines
        spinner = self.paint.symbols.spinner
        what = self._running_command or "working"
        seconds = time.monotonic() - self._started
        return [("class:call", f"{spinner[tick % len(spinner)]} {what} ({seconds:.0f} s)")]

    def queue(self) -> list[str]:
        """Return what waits to be sent."""
        symbols = self.paint.symbols
        width = self.paint.width - len(symbols.queued) - 4
        return [f"  {symbols.queued} {self.paint.line(text, width)}" for text in self.queued]

    def status(self, width: int) -> str:
        """Return the line at the bottom."""
        words = status_words(self.seat.agent, self.spending, self._modes)
        if self.queued:
            words.insert(0, f"{len(self.queued)} queued")
        return fitted(words, f" {self.paint.symbols.dot} ", width)

    @property
    def hint(self) -> str:
        """What should be known now."""
        is_fresh = time.monotonic() - self._interrupted_at < AGAIN_SECONDS
        return self._hint if is_fresh else ""

    @property
    def is_busy(self) -> bool:
        """Whether something moves."""
        return self.is_running or bool(self._running_command)

    async def _read_modes(self) -> None:
        self._modes = await modes_of(self.seat.agent)
        self.screen.refresh()

    # ------------------------------------------------------------------------ what keys do

    @property
    def question(self) -> Question | None:
        """The question that waits."""
        return self.screen.question

    @property
    def is_running(self) -> bool:
        """Whether the agent works."""
        return self.seat.agent.status == "running"

    def submit(self, *, steers: bool = False) -> None:
        """Send what was typed, queue it, steer with it, or carry out a command."""
        buffer = self.screen.buffer
        text = buffer.text
        if not text.strip():
            return
        buffer.append_to_history()
        buffer.reset()
        if text.startswith("/"):
            self._start(self._command(text.strip()))
        elif steers:
            self.steer(text)
        elif self.is_running or self._running_command:
            self.queued.append(text)
        else:
            self.seat.agent.send(text)
        self.screen.refresh()

    def steer(self, text: str) -> None:
        """Join the running turn."""
        if self.is_running:
            shown = self.paint.line(text, self.paint.width - 30)
            self.transcript.note(f"{self.paint.symbols.steer} after this step: {shown}")
        self.seat.agent.steer(text)

    def stop(self) -> bool:
        """Stop the agent; what was queued goes back into the input."""
        if not self.is_running:
            return False
        self.seat.agent.abort(STOPPED)
        if self.queued:
            kept = [*self.queued, self.screen.buffer.text]
            self.queued.clear()
            self.screen.buffer.text = "\n".join(text for text in kept if text)
            self.screen.buffer.cursor_position = len(self.screen.buffer.text)
        return True

    def interrupt(self) -> None:
        """Stop the agent, or clear the input; leave the second time."""
        now = time.monotonic()
        if now - self._interrupted_at < AGAIN_SECONDS:
            self.leave()
            return
        self._interrupted_at = now
        self._hint = "Ctrl-C once more leaves"
        if not self.stop():
            self.screen.buffer.reset()
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.screen.refresh)
        self.screen.refresh()

    def leave(self) -> None:
        """Leave."""
        self.screen.leave()

    def take_back(self) -> bool:
        """Take the last queued message back into the input."""
        if not self.queued:
            return False
        buffer = self.screen.buffer
        buffer.text = self.queued.pop()
        buffer.cursor_position = len(buffer.text)
        return True

    def show_reasoning(self) -> None:
        """Show the last reasoning in full."""
        self.transcript.show_reasoning()

    def ask_why(self) -> None:
        """Let the person type what to do instead."""
        self.screen.ask_why()

    def said_why(self) -> None:
        """Take what was typed."""
        if self.question is not None:
            self.question.say_why(self.screen.why.text)

    # ------------------------------------------------------------------------- inner works

    def _send_queued(self) -> None:
        if self.queued and not self.is_running and self.seat.agent.status == "idle":
            self.seat.agent.send(self.queued.pop(0))
            self.screen.refresh()

    async def _command(self, line: str) -> None:
        """Carry out a slash command; the model never sees it."""
        agent = self.seat.agent
        self._running_command, self._started = line.split()[0], time.monotonic()
        self.screen.refresh()
        try:
            said = await agent.harness.commands.execute(agent, line)
        except HarnessError as error:
            self.transcript.note(error_chain(error), style="red")
            return
        finally:
            self._running_command = ""
            self._tell()
            self._start(self._read_modes())
            self._send_queued()
        if said is None:
            self.transcript.note(self._unknown(line), style="red")
        elif said:
            self.transcript.note(said, style="")

    def _unknown(self, line: str) -> str:
        agent = self.seat.agent
        name = line.removeprefix("/").partition(" ")[0]
        known = [command.name for command in agent.harness.commands.list(agent)]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists them."
        return f"there is no command /{name}. {hint} A space before the slash sends it as text."

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
