"""The hooks of this plugin. Implement them with `@hookimpl(optionalhook=True)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsh_compaction.span import Span
from dsh_core import OnError, collect, waterfall

if TYPE_CHECKING:
    from dsh_core import Agent


@waterfall(OnError.REPORT, returns=(str,))
async def compaction_strategy(agent: Agent, span: Span) -> str:
    """Say what takes the place of a part of the history.

    When: a range was chosen. What comes out must be smaller than the range and not blank; otherwise
        the history stays as it is.
    Arguments: `span.messages`, which go; `span.prefix`, the history up to the end of the range;
        `span.tokens`, what they take; `span.focus`, what the person asked to keep.
    Return: text, or None to pass; the plugin's own strategy then answers.

    Example:
        @hookimpl(optionalhook=True)
        async def compaction_strategy(span):
            return f"[{len(span.messages)} older messages were dropped]"

    """
    raise NotImplementedError


@collect(OnError.REPORT)
async def compaction_pins(agent: Agent) -> Sequence[int]:
    """Name messages that stay as they are.

    When: before a range is chosen.
    Arguments: `agent`; `agent.session.message_sources()` has the numbers.
    Return: the `seq` of each message's event. The first and the newest message to the agent are
        kept anyway; so is the reply to a kept result, with all its results.

    Example:
        @hookimpl(optionalhook=True)
        async def compaction_pins(agent):
            return [agent.stash[PLAN].seq]

    """
    raise NotImplementedError
