"""What keys do."""

from __future__ import annotations

from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from dsh_terminal.question import Question

HELP = """\
Enter      sends; queues while the agent works
Alt-Enter  joins the running turn (steers)
Ctrl-J     begins a new line, as \\ Enter does
Up         takes back what is queued
Tab        completes /commands and @files
Esc        stops the agent, as Ctrl-C does
Ctrl-C     twice leaves, as Ctrl-D does
Ctrl-T     shows the last reasoning in full"""


class Hands(Protocol):
    """What can be done with keys."""

    @property
    def question(self) -> Question | None:
        """The question that waits, if any."""

    @property
    def is_running(self) -> bool:
        """Whether the agent works."""

    def submit(self, *, steers: bool = False) -> None:
        """Send what was typed."""

    def stop(self) -> bool:
        """Stop the agent; False when it does nothing."""

    def interrupt(self) -> None:
        """Stop, or leave the second time."""

    def leave(self) -> None:
        """Leave."""

    def take_back(self) -> bool:
        """Take the last queued message back into the input; False when there is none."""

    def show_reasoning(self) -> None:
        """Show the last reasoning in full."""

    def ask_why(self) -> None:
        """Let the person type what to do instead."""

    def said_why(self) -> None:
        """Take what was typed."""


def key_bindings(hands: Hands) -> KeyBindings:
    """Return the bindings of the chat."""
    keys = KeyBindings()
    asks = Condition(lambda: hands.question is not None)
    asks_why = Condition(lambda: hands.question is not None and hands.question.is_asking_why)
    _bind_input(keys, hands, ~asks)
    _bind_question(keys, hands, asks & ~asks_why, asks_why)

    @keys.add("c-d", filter=asks)
    def _(event: KeyPressEvent) -> None:
        hands.leave()

    @keys.add("c-c", eager=True)
    @keys.add(Keys.SIGINT)
    def _(event: KeyPressEvent) -> None:
        hands.interrupt()

    return keys


def _bind_input(keys: KeyBindings, hands: Hands, types: Filter) -> None:
    @keys.add("enter", filter=types)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return
        hands.submit()

    @keys.add("tab", filter=types)
    def _(event: KeyPressEvent) -> None:
        complete(event.current_buffer)

    @keys.add("c-j", filter=types)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", "enter", filter=types)
    def _(event: KeyPressEvent) -> None:
        if hands.is_running:
            hands.submit(steers=True)
        else:
            event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=types)
    def _(event: KeyPressEvent) -> None:
        if not hands.stop():
            event.current_buffer.cancel_completion()

    @keys.add("c-d", filter=types & Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        hands.leave()

    @keys.add("up", filter=types & Condition(lambda: not get_app().current_buffer.text))
    def _(event: KeyPressEvent) -> None:
        if not hands.take_back():
            event.current_buffer.history_backward()

    @keys.add("c-t", filter=types)
    def _(event: KeyPressEvent) -> None:
        hands.show_reasoning()


def complete(buffer: Buffer) -> None:
    """Select the next of what is offered; take the only one that fits at once."""
    if buffer.complete_state is not None:
        buffer.complete_next()
        return
    found = list(
        buffer.completer.get_completions(buffer.document, CompleteEvent(text_inserted=False))
    )
    if len(found) == 1:
        buffer.apply_completion(found[0])
    elif found:
        buffer.start_completion(select_first=True)


def _bind_question(keys: KeyBindings, hands: Hands, chooses: Filter, types: Filter) -> None:
    def question() -> Question | None:
        found = hands.question
        return found if found is not None and found.takes_key() else None

    def after(found: Question) -> None:
        if found.is_asking_why:
            hands.ask_why()

    @keys.add("<any>", filter=chooses)
    def _(event: KeyPressEvent) -> None:
        if (found := question()) is not None:
            found.press(event.data)
            after(found)

    @keys.add("enter", filter=chooses)
    def _(event: KeyPressEvent) -> None:
        if (found := question()) is not None:
            found.choose()
            after(found)

    @keys.add("up", filter=chooses)
    @keys.add("s-tab", filter=chooses)
    def _(event: KeyPressEvent) -> None:
        if (found := question()) is not None:
            found.move(-1)

    @keys.add("down", filter=chooses)
    @keys.add("tab", filter=chooses)
    def _(event: KeyPressEvent) -> None:
        if (found := question()) is not None:
            found.move(1)

    @keys.add("escape", filter=chooses)
    def _(event: KeyPressEvent) -> None:
        if question() is not None:
            hands.stop()

    @keys.add("enter", filter=types)
    def _(event: KeyPressEvent) -> None:
        hands.said_why()

    @keys.add("escape", filter=types)
    def _(event: KeyPressEvent) -> None:
        hands.stop()

    @keys.add(Keys.BracketedPaste, filter=chooses)
    def _(event: KeyPressEvent) -> None:
        question()  # pasted text is no answer
