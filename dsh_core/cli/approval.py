"""Who answers `approval_request` on the command line."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial

from dsh_core.agents import Agent
from dsh_core.cli.context import say
from dsh_core.cli.question import question, screen_size, shown_offers
from dsh_core.marks import hookimpl
from dsh_core.policy import Approval, ApprovalRequest
from dsh_core.tools.threads import in_daemon_thread


class AnswerYes:
    """`--yes`: yes to every request, except those that only a person may answer."""

    @hookimpl
    async def approval_request(self, request: ApprovalRequest) -> Approval | None:
        """Allow once, or pass."""
        return None if request.user_only else Approval(True, "--yes")


class AskAtTerminal:
    """Asks the person at the terminal, one question at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    @hookimpl
    async def approval_request(self, agent: Agent, request: ApprovalRequest) -> Approval:
        """Show what would run and wait for an answer; what is no answer is a no, with that text."""
        async with self._turn:
            say("")
            call = request.call
            offers = shown_offers(request.offers, screen_size())
            ask = partial(
                question,
                call.name,
                call.arguments,
                request.message,
                _choices(offers),
                screen_size(),
            )
            lines = await in_daemon_thread(ask, "question")  # megabytes take their time
            _forget_typed()
            for line in lines:
                say(line)
            answer = str(await in_daemon_thread(sys.stdin.readline, "approval"))
        return _approval(bool(offers), answer.strip())


def _choices(offers: str) -> str:
    if not offers:
        return "Allow? y = yes, n = no, or write what to do instead [n] "
    return (
        f"Allow? y = once, s = {offers} for this session, "
        "p = the same for this project, n = no, or write what to do instead [n] "
    )


def _approval(has_offers: bool, answer: str) -> Approval:
    word = answer.lower()
    if word in ("y", "yes"):
        return Approval(True)
    if has_offers and word in ("s", "p"):
        return Approval(True, scope="session" if word == "s" else "project")
    if word in ("", "n", "no"):
        return Approval(False, "the user said no")
    return Approval(False, f"the user said no: {answer}")


def _forget_typed() -> None:
    """Drop what was typed before the question was shown: it answers something else."""
    with contextlib.suppress(OSError, ValueError, ImportError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
