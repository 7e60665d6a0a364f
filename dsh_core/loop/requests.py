"""Building requests, and logging what of them the log does not say already.

Model-visible means logged: `request/header` holds model, parameters, system text and tools whenever
they change; `request/messages` holds how the messages differ from the derived history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.codec import freeze
from dsh_core.events import RequestHeader, RequestMessages
from dsh_core.loop.prefix import Writers, common_ends, prefix_breaks, starts_with, warn
from dsh_core.messages import Message
from dsh_core.request import Assembly, Request

if TYPE_CHECKING:
    from dsh_core.loop.agent import LoopAgent


class RequestLog:
    """Remembers the last request of an agent, to log and compare only what changes.

    A request can be rebuilt from the log: the last `request/header` before the attempt's first
    chunk, and the history derived there, unless a `request/messages` of this attempt says how the
    messages differ from the history derived where it stands.
    """

    def __init__(self, agent: LoopAgent):
        self._agent = agent
        self._writers = Writers(agent.harness.tools)
        self._header: RequestHeader | None = None
        self._sent: tuple[Message, ...] = ()
        self._derived: tuple[Message, ...] = ()
        self._expected: tuple[Message, ...] = ()
        self._is_rewritten = False
        self._rewriter: str | None = None
        self._generation = 0

    async def build(self, turn: int, step: int) -> Request:
        """Assemble the prompt, let plugins edit the request, and log what it became.

        Raises `UserError` when no model is chosen, `PluginError` for messages that are none.
        """
        agent = self._agent
        prompt = agent.harness.prompt
        assembly = await prompt.assemble(agent)
        derived = agent.session.messages()
        built = await prompt.request(agent, assembly, derived, turn=turn, step=step)
        self._log_header(turn, step, built, assembly)
        self._log_messages(turn, step, built, derived)
        return built

    def answered(self, turn: int, step: int) -> None:
        """Note the first chunk: what was injected since the request was built is not in it."""
        history = self._agent.session.messages()
        if history is not self._derived:
            self._log_difference(turn, step, history, None)

    def _log_header(self, turn: int, step: int, request: Request, assembly: Assembly) -> None:
        last = self._header
        parameters = freeze(dict(request.parameters))
        if (
            last is not None
            and (request.tools is last.tools or request.tools == last.tools)
            and (last.model, last.system) == (request.model, request.system)
            and last.parameters == parameters
        ):
            return
        writers = self._writers.of(request, assembly)
        breaks = () if last is None else prefix_breaks(last, request)
        self._header = RequestHeader(
            turn,
            step,
            request.model,
            request.system,
            request.tools,
            parameters,
            changed_by=writers or None,
            prefix_break=breaks,
        )
        self._agent.session.append(self._header)
        for name in breaks:
            warn(name, writers.get(name))

    def _log_messages(
        self, turn: int, step: int, request: Request, derived: tuple[Message, ...]
    ) -> None:
        session, messages = self._agent.session, request.messages
        writer = request.changed_by.get("messages")
        self._sent = messages
        tail = self._log_difference(turn, step, session.messages(), writer)
        was_rewritten, self._is_rewritten = self._is_rewritten, messages is not derived
        if (
            (was_rewritten or self._is_rewritten)
            and session.generation == self._generation
            and not starts_with(messages, self._expected)
        ):
            warn("messages", writer or self._rewriter)
        self._rewriter = writer
        self._generation = session.generation
        # What a plugin puts behind the history is expected to stay behind it, and so to move.
        self._expected = messages if tail else messages[: len(derived)]

    def _log_difference(
        self, turn: int, step: int, history: tuple[Message, ...], writer: str | None
    ) -> int:
        """Log how what was sent differs from the history; return how much of its end is in it."""
        self._derived, messages = history, self._sent
        if messages is history:
            return len(history)
        head, tail = common_ends(history, messages)
        middle = messages[head : len(messages) - tail]
        if middle or head + tail != len(history):
            self._agent.session.append(RequestMessages(turn, step, head, tail, middle, writer))
        return tail
