"""Who answers `approval_request` on the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

from dsh_core.agents import Agent
from dsh_core.cli.context import say
from dsh_core.codec import to_json
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
            # One line of JSON: line breaks inside an argument cannot scroll the rest away.
            shown = json.dumps(to_json(request.call.arguments), ensure_ascii=False)
            say(f"{request.call.name} {shown}")
            say(request.message)
            _forget_typed()
            say(_choices(request))
            answer = str(await in_daemon_thread(sys.stdin.readline, "approval"))
        return _approval(request, answer.strip())


def _choices(request: ApprovalRequest) -> str:
    if not request.offers:
        return "Allow? y = yes, n = no, or write what to do instead [n] "
    return (
        f"Allow? y = once, s = {' and '.join(request.offers)} for this session, "
        "p = the same for this project, n = no, or write what to do instead [n] "
    )


def _approval(request: ApprovalRequest, answer: str) -> Approval:
    word = answer.lower()
    if word in ("y", "yes"):
        return Approval(True)
    if request.offers and word in ("s", "p"):
        return Approval(True, scope="session" if word == "s" else "project")
    if word in ("", "n", "no"):
        return Approval(False, "the user said no")
    return Approval(False, f"the user said no: {answer}")


def _forget_typed() -> None:
    """Drop what was typed before the question was shown: it answers something else."""
    with contextlib.suppress(OSError, ValueError, ImportError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
