"""A plugin for tests: it asks about every `bash` call as a policy would, and keeps the answers."""

from __future__ import annotations

import json
from pathlib import Path

from dsh_core import Agent, Call, Effect, Event, Verdict, hookimpl
from dsh_core.events import ApprovalDecided

RULES = ("Bash(echo one:*)", "Bash(touch:*)")
ANSWERS = Path("answers.jsonl")


class Asking:
    @hookimpl
    async def tool_effects(self, call: Call) -> list[Effect] | None:
        if call.name != "bash":
            return None
        run = Effect("run", "/usr/bin/echo", detail="echo one")
        return [run, Effect("write", "/real/target", certain=False, detail="touch link")]

    @hookimpl
    async def tools_authorize(self, agent: Agent, call: Call) -> Verdict | None:
        if call.name != "bash":
            return None
        return Verdict("ask", "no rule allows this.", offers=RULES)

    @hookimpl
    def session_event(self, event: Event) -> None:
        if isinstance(event.data, ApprovalDecided):
            data = event.data
            with ANSWERS.open("a") as file:
                file.write(json.dumps([data.allowed, data.scope, data.message]) + "\n")
