"""Who answers `approval_request` on the command line."""

from __future__ import annotations

import asyncio
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
        """Show what would run and wait for y or n; anything else is no."""
        async with self._turn:
            say("")
            # One line of JSON: line breaks inside an argument cannot scroll the rest away.
            shown = json.dumps(to_json(request.call.arguments), ensure_ascii=False)
            say(f"{request.call.name} {shown}")
            say(f"{request.message} Allow? [y/N] ")
            answer = await in_daemon_thread(sys.stdin.readline, "approval")
        allowed = str(answer).strip().lower() in ("y", "yes")
        return Approval(allowed, "" if allowed else "the user said no")
