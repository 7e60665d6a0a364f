"""The hooks of this plugin. Implement them with `@hookimpl(optionalhook=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core import OnError, collect

if TYPE_CHECKING:
    from dsh_core import Agent


@collect(OnError.REPORT)
async def terminal_status(agent: Agent) -> str:
    """Say a word for the status line of `dsh chat`.

    When: the agent begins or ends to work, and after each step.
    Arguments: `agent`, the one that is talked to.
    Return: a word or two, as in `plan`; None = nothing to say.

    Example:
        @hookimpl(optionalhook=True)
        async def terminal_status(agent):
            return "plan" if is_planning(agent) else None

    """
    raise NotImplementedError
