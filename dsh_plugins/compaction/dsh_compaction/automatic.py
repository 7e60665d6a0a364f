"""When room is made without being asked, and when it is not tried again."""

from __future__ import annotations

import logging

from dsh_compaction.events import CompactionEnd
from dsh_compaction.meter import Meter
from dsh_compaction.settings import Settings
from dsh_core import Agent

log = logging.getLogger("dsh.compaction")

LONG_MESSAGES = 20
"""From so many messages on it is worth saying that the window is not known."""


class Automatic:
    """Watches one agent."""

    def __init__(self, agent: Agent, settings: Settings):
        self.meter = Meter(agent)
        self._agent = agent
        self.settings = settings
        self._tired_turn: int | None = None
        self._overflowed: tuple[int, int] | None = None
        self._has_warned = False

    async def compact(self, trigger: str, *, focus: str = "") -> CompactionEnd:
        """Make room; `Compactor.run` says how."""
        # Most conversations never need it, and importing it takes some milliseconds.
        from dsh_compaction.compactor import Compactor

        return await Compactor(self._agent, self.settings, self.meter).run(trigger, focus=focus)

    async def before_request(self) -> None:
        """Make room when the next request would reach the threshold.

        Where that does not get below it, the next turn is the next try: each costs a request.
        """
        session, window = self._agent.session, self.meter.window
        if window is None:
            self._warn(len(session.messages()))
            return
        if self._tired_turn == session.open_turn:
            return
        threshold = self.settings.threshold * window
        if await self.meter.total() < threshold:
            return
        end = await self.compact("threshold")
        if end.tokens_after >= threshold:
            self._tired_turn = session.open_turn

    async def after_overflow(self, turn: int, step: int) -> bool:
        """Make room for a request that was refused; once per step. Return whether any was made."""
        if self._overflowed == (turn, step):
            return False
        self._overflowed = (turn, step)
        generation = self._agent.session.generation
        await self.compact("overflow")
        return self._agent.session.generation > generation

    def _warn(self, messages: int) -> None:
        if self._has_warned or messages < LONG_MESSAGES:
            return
        self._has_warned = True
        provider, _, model = (self._agent.options.model or "").partition("/")
        log.warning(
            "the context window of %s/%s is not known, so room is made only once the provider "
            "refuses a request; set providers.%s.models.%s.context_window_tokens",
            *(provider, model, provider, model),
        )
