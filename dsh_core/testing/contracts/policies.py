"""The contract of a policy: a plugin that decides which tools may run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dsh_core.events import ToolCallEvent, ToolResultEvent
from dsh_core.marks import hookimpl
from dsh_core.policy import Verdict
from dsh_core.testing.contracts.in_loop import in_loop
from dsh_core.testing.offline import OfflineHarness, calling, offline_harness
from dsh_core.tools import Tool, ToolContext


class PolicyContract:
    """What every policy does: what it denies never runs, whoever else says what.

    The tools of the calls are the test's own: they take any arguments and note that they ran.

    Attributes:
        denied: Calls that must not run: tool name and arguments.
        allowed: Calls that must run without a question.
        asks: Calls that run only when somebody agrees; here nobody is there to ask.

    """

    denied: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]]
    allowed: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]] = ()
    asks: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]] = ()

    def plugin(self) -> object:
        """Return a new policy."""
        raise NotImplementedError

    # ------------------------------------------------------------------------- tests

    @in_loop
    async def test_what_is_denied_never_runs_and_the_model_reads_why(self, tmp_path: Path) -> None:
        """The result is an error with a text."""
        async with self._offline(tmp_path, self.denied) as (offline, ran):
            await offline.agent.run("Go.")
            results = offline.logged(ToolResultEvent)
        assert ran == []
        assert all(result.is_error and result.content for result in results)
        assert len(results) == len(self.denied)

    @in_loop
    async def test_what_is_allowed_runs(self, tmp_path: Path) -> None:
        """A policy that denies everything is safe and useless."""
        async with self._offline(tmp_path, self.allowed) as (offline, ran):
            await offline.agent.run("Go.")
        assert ran == [name for name, _ in self.allowed]

    @in_loop
    async def test_a_question_that_nobody_answers_is_a_denial(self, tmp_path: Path) -> None:
        """As in a run without a terminal."""
        async with self._offline(tmp_path, self.asks) as (offline, ran):
            await offline.agent.run("Go.")
        assert ran == []

    @in_loop
    async def test_no_other_plugin_can_undo_a_denial(self, tmp_path: Path) -> None:
        """Whether it is asked before or after."""
        for order in ("before", "after"):
            async with self._offline(tmp_path, self.denied, other=order) as (offline, ran):
                await offline.agent.run("Go.")
            assert ran == [], f"a plugin asked {order} it undid the denial"

    @in_loop
    async def test_it_holds_for_every_agent_at_the_same_time(self, tmp_path: Path) -> None:
        """Nothing that one agent did opens a way for another."""
        calls = [*self.allowed, *self.denied]
        async with self._offline(tmp_path, calls) as (offline, ran):
            agents = [offline.harness.agents.create() for _ in range(3)]
            await asyncio.gather(*(agent.run("Go.") for agent in agents))
        assert sorted(ran) == sorted([name for name, _ in self.allowed] * 3)

    @in_loop
    async def test_it_holds_when_asked_again(self, tmp_path: Path) -> None:
        """The second time too: a denial is no dialogue that wears it down."""
        async with self._offline(tmp_path, [*self.denied, *self.denied]) as (offline, ran):
            await offline.agent.run("Go.")
        assert ran == []

    @in_loop
    async def test_it_says_of_every_call_what_it_saw(self, tmp_path: Path) -> None:
        """Each call is in the log with its verdict, denied ones too."""
        async with self._offline(tmp_path, [*self.denied, *self.allowed]) as (offline, _):
            await offline.agent.run("Go.")
            verdicts = [call.verdict for call in offline.logged(ToolCallEvent)]
        assert verdicts == ["deny"] * len(self.denied) + ["allow"] * len(self.allowed)

    # ----------------------------------------------------------------------- plumbing

    def _offline(
        self, cwd: Path, calls: Sequence[tuple[str, Mapping[str, Any]]], *, other: str = ""
    ) -> _Ran:
        return _Ran(self.plugin(), cwd, calls, other)


class _Ran:
    """A harness with the policy, and the names of the tools that ran."""

    def __init__(
        self, policy: object, cwd: Path, calls: Sequence[tuple[str, Mapping[str, Any]]], other: str
    ):
        self._ran: list[str] = []
        plugins: dict[str, object] = {"policy": policy}
        if other == "before":
            plugins = {"other": _AllowsAll(), **plugins}
        elif other == "after":
            plugins["other"] = _AllowsAll()
        replies = [calling(name, **arguments) for name, arguments in calls]
        tools = [self._tool(name) for name in dict.fromkeys(name for name, _ in calls)]
        self._offline = offline_harness(*replies, "Done.", plugins=plugins, tools=tools, cwd=cwd)

    def _tool(self, name: str) -> Tool:
        async def body(ctx: ToolContext, **arguments: Any) -> str:
            self._ran.append(name)
            return "it ran"

        anything = {"type": "object"}
        return Tool(name, "Note that it ran.", body, schema_override=anything)

    async def __aenter__(self) -> tuple[OfflineHarness, list[str]]:
        return await self._offline.__aenter__(), self._ran

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._offline.__aexit__(*error)


class _AllowsAll:
    """Says yes to everything."""

    @hookimpl
    async def tools_authorize(self) -> Verdict:
        return Verdict("allow")
