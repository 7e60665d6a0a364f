"""An agent with an offline model that keeps its requests: what most tests of plugins need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, TypeVar

from dsh_core import (
    Agent,
    EventData,
    Harness,
    HarnessConfig,
    ModelConfig,
    ProviderConfig,
    Request,
    Tool,
    hookimpl,
)
from dsh_core.testing.log import assert_balanced
from dsh_invariants import Invariants

D = TypeVar("D", bound=EventData)

NAMED_ONLY = HarnessConfig(autoload=False)
HANGS_SECONDS = 20
"""After this a test has lost a wake-up, and fails instead of standing still."""


class Stage:
    """A running harness, what its model was asked, and an agent made when first wanted."""

    def __init__(self, harness: Harness, requests: list[Request]):
        self.harness = harness
        self.requests = requests

    @cached_property
    def agent(self) -> Agent:
        return self.harness.agents.create()

    def logged(self, kind: type[D]) -> list[D]:
        """The data of the agent's events of one type, oldest first."""
        return [event.data for event in self.agent.session.events if isinstance(event.data, kind)]

    def types(self) -> list[str]:
        return [event.type for event in self.agent.session.events]


class Brings:
    """A plugin that gives tools."""

    def __init__(self, *tools: Tool):
        self._tools = tools

    @hookimpl
    def tools_register(self) -> list[Tool]:
        return list(self._tools)


@asynccontextmanager
async def offline(
    *replies: Any,
    plugin: object | None = None,
    plugins: Mapping[str, object] | None = None,
    tools: tuple[Tool, ...] = (),
    config: HarnessConfig = NAMED_ONLY,
    **options: Any,
) -> AsyncIterator[Stage]:
    """Run a harness whose model says `replies`; `plugin` is called "it". The log must balance."""
    requests: list[Request] = []
    entries = [_kept(reply, requests) for reply in replies]
    provider = ProviderConfig(
        "offline", "scripted", models={"script": ModelConfig()}, options={"replies": entries}
    )
    given: dict[str, object] = {"it": plugin} if plugin is not None else {}
    given |= {"tools": Brings(*tools)} if tools else {}
    given |= {**(plugins or {}), "invariants": Invariants()}
    async with Harness(config, plugins=given, providers=[provider], **options) as harness:
        stage = Stage(harness, requests)
        async with asyncio.timeout(HANGS_SECONDS):
            yield stage
    if "agent" in vars(stage):
        assert_balanced(stage.agent.session.events)


def _kept(reply: Any, requests: list[Request]) -> Callable[[Request], Any]:
    def answer(request: Request) -> Any:
        requests.append(request)
        return reply(request) if callable(reply) else reply

    return answer


def request_text(request: Request) -> str:
    """Everything the model was shown, for `in`."""
    from dsh_core.adapters.scripted_expectation import request_text as text

    return text(request)


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that calls one tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}
