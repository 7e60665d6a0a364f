"""Agents: the handle, the registry and the factory seam."""

from __future__ import annotations

from dsh_core.agents.handle import (
    Agent,
    AgentOptions,
    AgentStatus,
    Disposer,
    Receipt,
    TurnResult,
)
from dsh_core.agents.registry import AgentFactory, Agents, StartableAgent
from dsh_core.agents.stash import Stash, StashKey

__all__ = [
    "Agent",
    "AgentFactory",
    "AgentOptions",
    "AgentStatus",
    "Agents",
    "Disposer",
    "Receipt",
    "StartableAgent",
    "Stash",
    "StashKey",
    "TurnResult",
]
