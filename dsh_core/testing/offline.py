"""A harness around the offline model: what most tests of a plugin need.

::

    async with offline_harness(calling("word_count", text="a b"), "Two.", plugin=words) as offline:
        result = await offline.agent.run("Count.")
        assert "2 words" in request_text(offline.requests[-1])

Replies are those of the `scripted` adapter (docs/offline.md).
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from dsh_core.adapters.scripted import Answer, Entry, ReplyFunction
from dsh_core.adapters.scripted_expectation import request_text
from dsh_core.agents import Agent
from dsh_core.config.model import HarnessConfig
from dsh_core.events import EventData
from dsh_core.harness import Harness
from dsh_core.llm import ModelConfig, ProviderConfig
from dsh_core.marks import hookimpl
from dsh_core.request import Request
from dsh_core.testing.log import assert_balanced
from dsh_core.tools import Tool

D = TypeVar("D", bound=EventData)

NAMED_ONLY = HarnessConfig(autoload=False)
HANGS_SECONDS = 20
"""After this a test has lost a wake-up, and fails instead of standing still."""
INVARIANTS = "dsh_invariants"
"""Joins every offline harness where it is installed."""


class OfflineHarness:
    """A running harness, what its model was asked, and an agent made when first wanted.

    Attributes:
        harness: The real thing.
        requests: What the model was asked, by every agent, in order of arrival.
    """

    def __init__(self, harness: Harness, requests: list[Request]):
        self.harness = harness
        self.requests = requests

    @cached_property
    def agent(self) -> Agent:
        """The default agent; created on first use."""
        return self.harness.agents.create()

    def logged(self, kind: type[D]) -> list[D]:
        """Return the data of the agent's events of one type, oldest first."""
        return [event.data for event in self.agent.session.events if isinstance(event.data, kind)]

    def types(self) -> list[str]:
        """Return the types of the agent's events, oldest first."""
        return [event.type for event in self.agent.session.events]


@asynccontextmanager
async def offline_harness(
    *replies: Entry,
    plugin: object | None = None,
    plugins: Mapping[str, object] | None = None,
    tools: Iterable[Tool] = (),
    config: HarnessConfig = NAMED_ONLY,
    cwd: Path | str | None = None,
    trace: bool = False,
    hangs_seconds: float = HANGS_SECONDS,
) -> AsyncIterator[OfflineHarness]:
    """Run a harness whose model says `replies`, one per request and session.

    Args:
        replies: Texts, mappings as in YAML, or functions of the `Request`.
        plugin: The one under test; it is called "it".
        plugins: Further plugins by name.
        tools: Tools without a plugin of their own.
        config: Only the plugins that it names are on, unless it says otherwise.
        cwd: Where tools work; None = the process's folder.
        trace: Record which plugin did what.
        hangs_seconds: Limit of the block.

    Raises:
        TimeoutError: The block took longer than `hangs_seconds`.
        AssertionError: In the end the log of an agent does not balance.
    """
    requests: list[Request] = []
    entries = [_kept(reply, requests) for reply in replies]
    provider = ProviderConfig(
        "offline", "scripted", models={"script": ModelConfig()}, options={"replies": entries}
    )
    given: dict[str, object] = {"it": plugin} if plugin is not None else {}
    brought = list(tools)
    given |= {"tools": Brings(*brought)} if brought else {}
    given |= {**(plugins or {}), **_invariants()}
    watched = _Watched()
    given["offline_agents"] = watched
    async with Harness(
        config, plugins=given, providers=[provider], cwd=cwd, trace=trace
    ) as harness:
        async with asyncio.timeout(hangs_seconds):
            yield OfflineHarness(harness, requests)
    for agent in watched.agents:
        assert_balanced(agent.session.events)


def calling(name: str, /, **arguments: Any) -> dict[str, Any]:
    """Return a reply that calls one tool with these arguments."""
    return {"calls": [{"name": name, "arguments": arguments}]}


class Brings:
    """A plugin that gives tools."""

    def __init__(self, *tools: Tool):
        self._tools = list(tools)

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return self._tools


class _Watched:
    """Keeps the agents whose logs have to balance."""

    def __init__(self) -> None:
        self.agents: list[Agent] = []

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        self.agents.append(agent)


def _invariants() -> dict[str, object]:
    if importlib.util.find_spec(INVARIANTS) is None:
        return {}
    return {"invariants": importlib.import_module(INVARIANTS).Invariants()}


def _kept(reply: Entry, requests: list[Request]) -> ReplyFunction:
    def answer(request: Request) -> Answer | Awaitable[Answer]:
        requests.append(request)
        return reply(request) if callable(reply) else reply

    return answer


__all__ = ["OfflineHarness", "calling", "offline_harness", "request_text"]
