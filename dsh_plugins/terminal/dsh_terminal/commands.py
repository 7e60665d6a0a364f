"""The slash commands of the chat itself."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core import Agent, SlashCommand, UserError, text_of
from dsh_core.events import AssistantMessage, Event, PluginTrace, SteeringMessage, UserMessage
from dsh_terminal.keys import HELP

if TYPE_CHECKING:
    from dsh_terminal.chat import Chat

MOST_SESSIONS = 20


class ChatCommands:
    """Carries them out, on the chat that they belong to."""

    def __init__(self, chat: Chat):
        self._chat = chat

    def all(self) -> Sequence[SlashCommand]:
        """Return what front ends offer."""
        table: dict[str, tuple[str, Callable[[Agent, str], Awaitable[str]]]] = {
            "help": ("Say what can be done here.", self._help),
            "model": ("Show or change the model: /model PROVIDER/MODEL.", self._model),
            "agent": ("Show or change the agent: /agent NAME.", self._agent),
            "usage": ("Say what this session took.", self._usage),
            "clear": ("Begin a new conversation.", self._clear),
            "sessions": ("List the stored sessions of this folder.", self._sessions),
            "resume": ("Go on with a stored session: /resume ID.", self._resume),
            "fork": ("Go on in a copy, from a turn: /fork [TURN].", self._fork),
            "undo-turn": ("Go back before the last turn, in a copy.", self._undo_turn),
            "export": ("Write the conversation to a file: /export [FILE].", self._export),
            "steer": ("Tell the agent at work: /steer TEXT.", self._steer),
            "queue": ("List what is queued; /queue clear removes it.", self._queue),
            "plugins": ("List the plugins that are on.", self._plugins),
            "hooks": ("List who implements which hook: /hooks [NAME].", self._hooks),
            "trace": ("Say what plugins did in the last turn.", self._trace),
            "quit": ("Leave.", self._quit),
        }
        return [SlashCommand(name, text, run) for name, (text, run) in table.items()]

    async def _help(self, agent: Agent, rest: str) -> str:
        listed = agent.harness.commands.list(agent)
        width = max(len(command.name) for command in listed)
        lines = [f"/{command.name:<{width}}  {command.description}" for command in listed]
        return "\n".join([HELP, "", *lines])

    async def _model(self, agent: Agent, rest: str) -> str:
        if not rest:
            models = [m for m in self._chat.seat.models() if m != agent.options.model]
            return "\n".join([f"{agent.options.model} is in use", *models])
        await self._chat.seat.change(model=rest)
        return f"the model is {rest} now"

    async def _agent(self, agent: Agent, rest: str) -> str:
        if not rest:
            others = [name for name in agent.harness.config.agents if name != agent.name]
            return "\n".join([f"{agent.name} is in use", *others])
        await self._chat.seat.change(agent=rest)
        return f"the agent is {rest} now"

    async def _usage(self, agent: Agent, rest: str) -> str:
        return self._chat.spending.described()

    async def _clear(self, agent: Agent, rest: str) -> str:
        await self._chat.seat.begin()
        return "a new conversation begins"

    async def _sessions(self, agent: Agent, rest: str) -> str:
        store = agent.harness.store
        if store is None:
            raise UserError("nothing stores sessions here", remedy="pip install dsh-persistence")
        page = await store.list(limit=MOST_SESSIONS, cwd=str(agent.cwd))
        lines = [
            f"{one.header.id}  {datetime.fromtimestamp(one.updated_at):%Y-%m-%d %H:%M}  "
            f"{one.turns:>3} turns  {one.title or ''}"
            for one in page.sessions
        ]
        return "\n".join(lines) or "there is none yet"

    async def _resume(self, agent: Agent, rest: str) -> str:
        if not rest:
            raise UserError("which session?", remedy="/sessions lists them; then /resume ID.")
        await self._chat.seat.resume(rest)
        return f"this is session {rest}"

    async def _fork(self, agent: Agent, rest: str) -> str:
        if rest and not rest.isdecimal():
            raise UserError(f"{rest!r} is no number of a turn", remedy="/fork 3")
        await self._chat.seat.fork(int(rest) if rest else None)
        return f"this is session {self._chat.seat.agent.id}, a copy of {agent.id}"

    async def _undo_turn(self, agent: Agent, rest: str) -> str:
        last = _last_said(agent.session.events)
        if last is None:
            raise UserError("there is no turn to undo")
        turn, text = last
        if turn > 1:
            await self._chat.seat.fork(turn - 1)
        else:
            await self._chat.seat.begin()
        self._chat.screen.buffer.text = text
        return "what you said last stands in the input again; files stay as they are"

    async def _export(self, agent: Agent, rest: str) -> str:
        path = Path(agent.cwd) / (rest or f"{agent.id}.md")
        scrub = agent.harness.secrets.scrub
        text = scrub("\n".join(_as_markdown(agent.session.events)))
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UserError(
                f"{path} cannot be written: {error.strerror}", remedy="/export FILE"
            ) from error
        return f"written: {path}"

    async def _steer(self, agent: Agent, rest: str) -> str:
        if not rest:
            raise UserError("steer with what?", remedy="/steer TEXT")
        self._chat.steer(rest)
        return ""

    async def _queue(self, agent: Agent, rest: str) -> str:
        queued = self._chat.queued
        if rest == "clear":
            queued.clear()
        return "\n".join(queued) or "nothing is queued"

    async def _plugins(self, agent: Agent, rest: str) -> str:
        infos = agent.harness.plugins.infos()
        return "\n".join(f"{one.name}  {one.version or '-'}  {one.state}" for one in infos)

    async def _hooks(self, agent: Agent, rest: str) -> str:
        hooks = agent.hooks
        if rest and rest not in hooks.modes:
            raise UserError(f"there is no hook {rest!r}", remedy="/hooks lists them.")
        lines = []
        for name in [rest] if rest else hooks.modes:
            chain = hooks.chain(name)
            who = [one.plugin for one in (*chain.wrappers, *chain.plain)]
            if who or rest:
                lines.append(f"{name}: {', '.join(who) or 'nobody'}")
        return "\n".join(lines)

    async def _trace(self, agent: Agent, rest: str) -> str:
        lines = [
            f"{data.hook} {data.seconds * 1000:.2f} ms: "
            + "; ".join(str(one["plugin"]) for one in data.ran)
            for event in agent.session.events
            if isinstance(data := event.data, PluginTrace)
        ]
        return "\n".join(lines[-40:]) or "nothing was recorded: begin with dsh chat --trace"

    async def _quit(self, agent: Agent, rest: str) -> str:
        self._chat.leave()
        return ""


def _last_said(events: Sequence[Event]) -> tuple[int, str] | None:
    """Return the number of the last turn that a message began, and the message."""
    turn, found = 0, None
    for event in events:
        if event.type == "turn/start":
            turn = getattr(event.data, "turn", 0)
        elif isinstance(event.data, UserMessage) and event.data.replaces is None:
            found = (turn, text_of(event.data.content))
    return found


def _as_markdown(events: Sequence[Event]) -> list[str]:
    lines: list[str] = []
    for event in events:
        match event.data:
            case UserMessage(content=content, replaces=None) | SteeringMessage(content=content):
                lines += ["## You", "", text_of(content), ""]
            case AssistantMessage(content=content, replaces=None) if text_of(content):
                lines += ["## Agent", "", text_of(content), ""]
    return lines
