"""Built-in plugin `dsml`: tool calls that a DeepSeek model wrote into its text.

DeepSeek's models call tools in a markup of their own, DSML. Servers turn it into real calls, but at
times it comes through as text. Complete blocks become the calls they are, judged like any other;
anything else is refused and the model is told, so that nobody takes markup for work done. Markup
quoted in Markdown code stays text.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from dsh_core.agents import StashKey
from dsh_core.content import Text, ToolCall
from dsh_core.events import ContextMessage, LimitReached, TurnEndReason
from dsh_core.marks import hookimpl
from dsh_core.messages import Message, PluginSource
from dsh_core.record import record

if TYPE_CHECKING:
    from dsh_core.agents import Agent

MAX_REFUSALS = 2
"""How often in a turn the model is told; a model that does it again will not stop by itself."""

_SIGN = "DSML"


@record(frozen=False)
class _Refusals:
    """How often a turn's replies were refused, and why the last one was, until the model knows."""

    turn: int
    count: int = 0
    problem: str | None = None


REFUSALS: StashKey[_Refusals] = StashKey("dsml.refusals")


class Dsml:
    """Wraps from within `limits`, so that the steps it asks for count as any other."""

    @hookimpl(wrapper=True)
    def agent_step_result(self, agent: Agent, turn: int) -> Generator[None, Message, Message]:
        """Turn written calls into real ones, or remember that they were refused."""
        message = yield
        if not any(isinstance(block, Text) and _SIGN in block.text for block in message.content):
            return message
        if any(isinstance(block, ToolCall) for block in message.content):
            return message
        from dsh_core.builtin.dsml_markup import MarkupError, with_calls  # a dozen patterns

        try:
            return with_calls(message)
        except MarkupError as error:
            refusals = agent.stash.get(REFUSALS, None)
            if refusals is None or refusals.turn != turn:
                refusals = agent.stash[REFUSALS] = _Refusals(turn)
            refusals.count += 1
            refusals.problem = str(error)
            return message

    @hookimpl(wrapper=True)
    def agent_turn_continuation(
        self, agent: Agent, turn: int
    ) -> Generator[None, bool | TurnEndReason, bool | TurnEndReason]:
        """Tell the model what was refused and let it go on, or end the turn."""
        decision = yield
        refusals = agent.stash.get(REFUSALS, None)
        if refusals is None or refusals.turn != turn or refusals.problem is None:
            return decision
        problem, refusals.problem = refusals.problem, None
        if isinstance(decision, TurnEndReason):
            return decision
        if refusals.count > MAX_REFUSALS:
            return LimitReached(
                "dsml",
                f"{refusals.count} times the model wrote a tool call as text that cannot run",
            )
        text = (
            f"Your last reply holds a tool call written as text ({problem}). It did not run. "
            "Call tools through the tool interface; put markup that is no call into a code block."
        )
        agent.session.append(ContextMessage((Text(text),), PluginSource("dsml", "refused")))
        return True
