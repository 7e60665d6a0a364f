"""Building requests, and logging what of them the log does not say already.

Model-visible means logged: `request/header` holds model, parameters, system text and tools whenever
they change; `request/messages` holds how plugins changed the derived messages.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_core import hookspecs
from dsh_core.codec import freeze
from dsh_core.events import RequestHeader, RequestMessages
from dsh_core.messages import Message
from dsh_core.request import Request

if TYPE_CHECKING:
    from dsh_core.loop.agent import LoopAgent

log = logging.getLogger("dsh.loop")


class RequestLog:
    """Remembers the last request of an agent, to log and compare only what changes."""

    def __init__(self, agent: LoopAgent):
        self._agent = agent
        self._header: RequestHeader | None = None
        self._messages: tuple[Message, ...] = ()
        self._derived: tuple[Message, ...] = ()
        self._generation = 0

    async def build(self, turn: int, step: int) -> Request:
        """Assemble the prompt, let plugins edit the request, and log what it became.

        Raises `UserError` when no model is chosen.
        """
        agent = self._agent
        assembly = await agent.harness.prompt.assemble(agent)
        derived = agent.session.messages()
        request = Request(
            agent.options.model or "",
            derived,
            system=assembly.system,
            tools=assembly.tools,
            parameters=agent.options.parameters,
            stream=agent.options.stream,
            session_id=agent.session.id,
        )

        async def unchanged(agent: object, turn: int, step: int, request: Request) -> Request:
            return request

        built = await agent.hooks.waterfall(
            hookspecs.agent_request,
            unchanged,
            agent=agent,
            turn=turn,
            step=step,
            request=request,
        )
        if not built.model:
            raise agent.harness.missing_model()
        built.messages = tuple(built.messages)
        built.tools = tuple(built.tools)
        changed_by = {**_renamed(assembly.changed_by), **built.changed_by}
        self._log_header(turn, step, built, changed_by)
        self._log_messages(turn, step, built, derived, changed_by)
        return built

    def _log_header(
        self, turn: int, step: int, request: Request, changed_by: dict[str, str]
    ) -> None:
        last = self._header
        if (
            last is not None
            and (last.tools is request.tools or last.tools == request.tools)
            and (last.model, last.system) == (request.model, request.system)
            and (last.parameters == request.parameters)
        ):
            return
        breaks = () if last is None else _prefix_breaks(last, request)
        header = RequestHeader(
            turn,
            step,
            request.model,
            request.system,
            request.tools,
            freeze(dict(request.parameters)),
            changed_by=changed_by or None,
            prefix_break=breaks,
        )
        self._agent.session.append(header)
        self._header = header
        for name in breaks:
            log.warning(
                "the prompt cache is lost: %s changed (%s)", name, changed_by.get(name, "core")
            )

    def _log_messages(
        self,
        turn: int,
        step: int,
        request: Request,
        derived: tuple[Message, ...],
        changed_by: dict[str, str],
    ) -> None:
        session = self._agent.session
        if request.messages is not derived:
            head, tail = common_ends(derived, request.messages)
            middle = request.messages[head : len(request.messages) - tail]
            writer = changed_by.get("messages")
            if middle or head + tail != len(derived):
                session.append(RequestMessages(turn, step, head, tail, middle, writer))
        rewritten = request.messages is not derived or self._messages is not self._derived
        if (
            rewritten
            and session.generation == self._generation
            and not starts_with(request.messages, self._messages)
        ):
            log.warning(
                "the prompt cache is lost: messages changed (%s)",
                changed_by.get("messages", "core"),
            )
        self._messages, self._derived = request.messages, derived
        self._generation = session.generation


def _renamed(changed_by: object) -> dict[str, str]:
    """An assembly's `sections` are a request's `system`."""
    assert isinstance(changed_by, dict)
    return {("system" if name == "sections" else name): by for name, by in changed_by.items()}


def _prefix_breaks(last: RequestHeader, request: Request) -> tuple[str, ...]:
    """Return which part of the cached prefix changed, for a request to the same model."""
    if last.model != request.model:
        return ()
    changed = []
    if last.tools != request.tools:
        changed.append("tools")
    if last.system != request.system:
        changed.append("system")
    return tuple(changed)


def common_ends(before: Sequence[Message], after: Sequence[Message]) -> tuple[int, int]:
    """Return how many messages two lists share at the head, and then at the tail."""
    limit = min(len(before), len(after))
    head = 0
    while head < limit and before[head] is after[head]:
        head += 1
    tail = 0
    while tail < limit - head and before[-1 - tail] is after[-1 - tail]:
        tail += 1
    return head, tail


def starts_with(messages: Sequence[Message], prefix: Sequence[Message]) -> bool:
    """Whether `messages` begins with the very messages of `prefix`, or equal ones."""
    return len(messages) >= len(prefix) and all(
        a is b or a == b for a, b in zip(messages, prefix, strict=False)
    )
