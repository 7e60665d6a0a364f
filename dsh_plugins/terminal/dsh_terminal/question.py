"""A question about a tool call: what is shown in full, what may be answered, what that means."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from rich.text import Text

from dsh_core import Approval, ApprovalRequest, Effect, to_json
from dsh_terminal.paint import Paint

QUIET_SECONDS = 0.3
"""Keys count once none came for so long: what was typed for something else is no answer."""

SAID_NO = "the user said no"
PLAN = "plan"
"""The argument that is Markdown for a person to review; everything else is shown as it is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the answers.

    Args:
        key: What to press.
        text: What it says.
        approval: What it means.
        asks_why: Whether a text is asked for first, which becomes the approval's message.
    """

    key: str
    text: str
    approval: Approval
    asks_why: bool = False


@dataclass(slots=True)
class Question:
    """A question that waits for a person.

    Args:
        title: One line.
        answers: What may be answered.
        answer: Becomes the approval.
    """

    title: str
    answers: tuple[Answer, ...]
    answer: asyncio.Future[Approval]
    selected: int = 0
    is_asking_why: bool = False
    _quiet_since: float | None = field(default=None)

    def shown(self) -> None:
        """Note that it can be seen now."""
        if self._quiet_since is None:
            self._quiet_since = time.monotonic()

    def takes_key(self) -> bool:
        """Whether a key that is pressed now counts. One that does not begins the wait anew."""
        if self._quiet_since is None:
            return False
        now = time.monotonic()
        if now - self._quiet_since < QUIET_SECONDS:
            self._quiet_since = now
            return False
        return True

    def move(self, by: int) -> None:
        """Select another answer."""
        self.selected = (self.selected + by) % len(self.answers)

    def press(self, key: str) -> None:
        """Choose by key; one without a meaning does nothing."""
        for index, answer in enumerate(self.answers):
            if key.lower() in (answer.key, str(index + 1)):
                self.selected = index
                self.choose()
                return

    def choose(self) -> None:
        """Give the selected answer, or ask why first."""
        answer = self.answers[self.selected]
        if answer.asks_why:
            self.is_asking_why = True
        else:
            self.give(answer.approval)

    def say_why(self, text: str) -> None:
        """Say no, with what to do instead."""
        self.give(Approval(False, text.strip() or SAID_NO))

    def give(self, approval: Approval) -> None:
        """Answer, once."""
        if not self.answer.done():
            self.answer.set_result(approval)


def answers_of(request: ApprovalRequest, paint: Paint) -> tuple[Answer, ...]:
    """Return the answers to a request; what lasts is offered only with the rules it would store."""
    answers = [Answer("y", "yes, once", Approval(True))]
    if request.offers:
        rules = paint.harmless(", ".join(request.offers)).replace("\n", "\\n")
        answers += [
            Answer("s", f"yes, for this session: {rules}", Approval(True, scope="session")),
            Answer("p", f"yes, for this project: {rules}", Approval(True, scope="project")),
        ]
    return (
        *answers,
        Answer("n", "no", Approval(False, SAID_NO)),
        Answer("t", "no, and say what to do instead", Approval(False, SAID_NO), asks_why=True),
    )


def title_of(request: ApprovalRequest, paint: Paint, *, rows: int, room: int) -> str:
    """Return the line that asks; it says so where the call began above the screen."""
    asks = f"Allow {paint.line(request.call.name, 60)}?"
    return asks if rows <= room else f"{asks} It takes {rows} lines: scroll up to see all of it."


def described(request: ApprovalRequest, paint: Paint, *, agent: str | None = None) -> str:
    """Return the call in full: every argument, every part on a line of its own, nothing hidden."""
    call = request.call
    who = f" ({agent})" if agent else ""
    parts = [
        "\n",
        paint.marked("?", f"{paint.harmless(call.name)}{paint.harmless(who)}", "bold yellow"),
    ]
    for name, value in call.arguments.items():
        if name == PLAN and isinstance(value, str):
            parts.append(paint.markdown(value))
        else:
            parts.append(_argument(name, value, paint))
    if not call.arguments and call.raw.strip() not in ("", "{}"):
        parts.append(_argument("arguments", call.raw, paint))
    parts += [_effect(effect, paint) for effect in call.effects if effect.target or effect.detail]
    if request.message:
        parts.append(paint.note(request.message, style=""))
    return "".join(parts)


def _argument(name: str, value: object, paint: Paint) -> str:
    """Return an argument; each line of a text behind a bar, so that none looks like ours."""
    text = value if isinstance(value, str) else _json(value)
    bar = f"  {paint.symbols.bar}"
    lines = paint.harmless(text).split("\n")
    shown = [paint.marked(bar, line, "", mark_style="dim") for line in lines]
    return paint.render(Text(f"  {paint.line(name, 60)}:", style="dim")) + "".join(shown)


def _json(value: object) -> str:
    import json

    return json.dumps(to_json(value), ensure_ascii=False)


def _effect(effect: Effect, paint: Paint) -> str:
    """Return what a part of the call does, with where a link leads."""
    certainly = "" if effect.certain else "perhaps "
    target = f" {effect.target}" if effect.target else ""
    detail = f"   ({effect.detail})" if effect.detail and effect.detail != effect.target else ""
    text = paint.harmless(f"{certainly}{effect.kind}{target}{detail}".replace("\n", "\\n"))
    return paint.marked(f"  {paint.symbols.dot}", text, "cyan")
