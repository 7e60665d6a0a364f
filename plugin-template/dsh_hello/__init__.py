"""The plugin `hello`: what it brings, changes and notices. The logic is in `greeting`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass, replace

from dsh_core import (
    Agent,
    Call,
    Section,
    SlashCommand,
    StashKey,
    Tool,
    ToolOutput,
    hookimpl,
    tool,
)

from dsh_hello.greeting import Greeted, greet

GREETED: StashKey[Greeted] = StashKey("hello.greeted")
"""Who was greeted, per agent: one instance of the plugin serves all agents."""


class Hello:
    """Greets people, nobody twice."""

    @dataclass(frozen=True, slots=True)
    class Settings:
        """What a user sets under `plugins.hello`."""

        greeting: str = "Good day"
        """The words before the name."""

    def __init__(self, settings: Settings):
        self._settings = settings

    # ------------------------------------------------------------------ what it brings

    @tool(read_only=True)
    def hello(self, name: str) -> str:
        """Greet somebody.

        Args:
            name: Whom to greet.
        """
        return greet(self._settings.greeting, name)

    @hookimpl
    def tools_register(self) -> Sequence[Tool]:
        """Offer the tool to every agent."""
        return [self.hello]

    @hookimpl
    async def system_prompt_sections(self) -> Sequence[Section]:
        """Tell the model when to use it; the same text each time keeps the prompt cache."""
        return [Section("hello", "Greet people with the tool `hello`.", order=100)]

    @hookimpl
    def commands_register(self) -> Sequence[SlashCommand]:
        """Offer `/hello` to people."""
        return [SlashCommand("hello", "List who was greeted.", self.list_greeted)]

    async def list_greeted(self, agent: Agent, rest: str) -> str:
        """Return what a person reads after `/hello`."""
        return _greeted(agent).describe()

    # ----------------------------------------------------------------- what it changes

    @hookimpl
    async def tools_execute(
        self, agent: Agent, call: Call, *, call_next: Callable[[], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        """Answer in the tool's place where somebody was greeted before."""
        name = call.arguments.get("name")
        if call.name == "hello" and name in _greeted(agent):
            return ToolOutput.of(f"{name} was greeted before.")
        return await call_next()

    @hookimpl(wrapper=True, specname="tools_execute")
    def number_greetings(self, agent: Agent, call: Call) -> Generator[None, ToolOutput, ToolOutput]:
        """Do the same the classic way: `meta` is for front ends, the model never sees it."""
        output = yield
        if call.name != "hello":
            return output
        return replace(output, meta={**(output.meta or {}), "greeted": len(_greeted(agent))})

    # ----------------------------------------------------------------- what it notices

    @hookimpl
    async def tools_result(self, agent: Agent, call: Call, result: ToolOutput) -> None:
        """Remember whom the tool greeted."""
        if call.name == "hello" and not result.is_error:
            _greeted(agent).add(str(call.arguments["name"]))


def _greeted(agent: Agent) -> Greeted:
    return agent.stash.setdefault(GREETED, Greeted())


__all__ = ["Good day"]
