"""Files that an agent must not see: policy says which, tools that list or search leave them out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core.agents.stash import StashKey

if TYPE_CHECKING:
    from dsh_core.agents.handle import Agent

_HIDING = StashKey[list[Callable[[Path], bool]]]("dsh_core.hiding")


def hide_files(agent: Agent, hides: Callable[[Path], bool]) -> None:
    """Let tools leave files out of what they find, for as long as the agent lives.

    `hides` is asked about absolute paths without links, from any thread, once per file found: it
    must be quick. Reading such a file by its name is for `tools_authorize` to deny.
    """
    agent.stash.setdefault(_HIDING, []).append(hides)


def is_hidden(agent: Agent, path: Path) -> bool:
    """Whether a file that a tool found must be left out."""
    hiding = agent.stash.get(_HIDING, None)
    return hiding is not None and any(hides(path) for hides in hiding)
