"""The contract of a tool."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.events import ToolResultEvent, TurnEnd
from dsh_core.marks import hookimpl
from dsh_core.testing.contracts.in_loop import in_loop
from dsh_core.testing.offline import NAMED_ONLY, OfflineHarness, calling, offline_harness
from dsh_core.tools import Tool

SCALARS: Mapping[str, Any] = {"string": 7, "integer": "x", "number": "x", "boolean": "x"}
"""What does not fit a type."""


class ToolContract:
    """What every tool does: schema, results, errors, cancellation, time limits.

    Attributes:
        name: The tool's name.
        arguments: A call that succeeds in `cwd`.
        failing: Calls that fit the schema and fail: each must become an error result.
        slow: A call that takes for ever; None = there is none.

    """

    name: ClassVar[str]
    arguments: ClassVar[Mapping[str, Any]]
    failing: ClassVar[Sequence[Mapping[str, Any]]] = ()
    slow: ClassVar[Mapping[str, Any] | None] = None

    def plugin(self) -> object:
        """Return a new plugin that brings the tool."""
        raise NotImplementedError

    def prepare(self, cwd: Path) -> None:
        """Write the files that the calls need."""

    # ------------------------------------------------------------------------- tests

    @in_loop
    async def test_the_model_is_told_what_it_needs(self, tmp_path: Path) -> None:
        """Description, and a text for each parameter; the same bytes each time."""
        async with self._offline(tmp_path) as offline:
            tool = self._tool(offline)
        schema = tool.schema.parameters
        assert tool.description.strip(), f"{self.name} has no description"
        assert schema.get("type") == "object"
        for parameter, told in schema.get("properties", {}).items():
            assert told.get("description"), f"the model is not told what {parameter} is"
        assert set(self.arguments) <= set(schema.get("properties", {}))
        async with self._offline(tmp_path) as offline:
            assert self._tool(offline).schema == tool.schema

    @in_loop
    async def test_a_call_succeeds_and_the_model_reads_its_result(self, tmp_path: Path) -> None:
        """The result is no error, and goes on to the next request."""
        async with self._offline(tmp_path, self.arguments) as offline:
            result = await offline.agent.run("Go.")
            (logged,) = offline.logged(ToolResultEvent)
        assert result.is_success, result.reason
        assert not logged.is_error, logged
        assert logged.content, "a result without content tells the model nothing"

    @in_loop
    async def test_a_tool_that_only_reads_changes_nothing(self, tmp_path: Path) -> None:
        """Declared `read_only`: policy lets it pass, and calls run side by side."""
        async with self._offline(tmp_path, self.arguments) as offline:
            if not self._tool(offline).read_only:
                pytest.skip(f"{self.name} is not declared read_only")
            before = _files(tmp_path)
            await offline.agent.run("Go.")
        assert _files(tmp_path) == before

    @in_loop
    async def test_what_fails_is_a_result_and_the_turn_goes_on(self, tmp_path: Path) -> None:
        """Never an exception to the loop: a result with `is_error` and a code."""
        if not self.failing:
            pytest.skip("no failing calls are given")
        async with self._offline(tmp_path, *self.failing) as offline:
            result = await offline.agent.run("Go.")
            logged = offline.logged(ToolResultEvent)
        assert result.is_success, result.reason
        assert len(logged) == len(self.failing)
        for arguments, one in zip(self.failing, logged, strict=True):
            assert one.is_error, f"{arguments} did not fail"
            assert str(one.code).isupper(), f"{arguments}: the code is {one.code!r}"

    @in_loop
    async def test_arguments_that_do_not_fit_are_refused(self, tmp_path: Path) -> None:
        """Before the body runs: unknown names, missing ones, wrong types."""
        async with self._offline(tmp_path) as offline:
            wrong = list(self._wrong(self._tool(offline).schema.parameters))
        async with self._offline(tmp_path, *wrong) as offline:
            result = await offline.agent.run("Go.")
            logged = offline.logged(ToolResultEvent)
        assert result.is_success, result.reason
        codes = [one.code for one in logged]
        assert codes == ["INVALID_ARGS"] * len(wrong), list(zip(wrong, codes, strict=True))

    @in_loop
    async def test_an_abort_ends_it(self, tmp_path: Path) -> None:
        """The call gets one result, and the turn ends soon."""
        begun = _Begun()
        async with self._slow_turn(tmp_path, plugins={"begun": begun}) as offline:
            turn = asyncio.create_task(offline.agent.run("Go."))
            await begun.event.wait()
            offline.agent.abort("the test says so")
            await turn
            assert len(offline.logged(ToolResultEvent)) == 1
            assert offline.logged(TurnEnd)[-1].reason.type == "aborted"

    @in_loop
    async def test_a_limit_of_time_ends_it(self, tmp_path: Path) -> None:
        """As `limits.tool_seconds`, or the tool's own: the model gets an error and goes on."""
        limits = (Layer("the contract", {"tool_seconds": 0.2}),)
        config = HarnessConfig(autoload=False, plugins={"limits": limits})
        async with self._slow_turn(tmp_path, config=config) as offline:
            if self._tool(offline).timeout_seconds is not None:
                pytest.skip(f"{self.name} has a limit of its own")
            await offline.agent.run("Go.")
            (logged,) = offline.logged(ToolResultEvent)
        assert (logged.is_error, logged.code) == (True, "TOOL_TIMEOUT")

    @in_loop
    async def test_two_agents_each_get_their_own_result(self, tmp_path: Path) -> None:
        """At the same time: nothing of a call is kept in the plugin."""
        async with self._offline(tmp_path, self.arguments) as offline:
            agents = [offline.harness.agents.create() for _ in range(2)]
            results = await asyncio.gather(*(agent.run("Go.") for agent in agents))
            events = [event.data for agent in agents for event in agent.session.events]
        assert all(result.is_success for result in results)
        outcomes = [data.is_error for data in events if isinstance(data, ToolResultEvent)]
        assert outcomes == [False, False]

    # ----------------------------------------------------------------------- plumbing

    def _offline(
        self,
        cwd: Path,
        *calls: Mapping[str, Any],
        config: HarnessConfig = NAMED_ONLY,
        plugins: Mapping[str, object] | None = None,
    ) -> Any:
        self.prepare(cwd)
        replies = [calling(self.name, **arguments) for arguments in calls]
        return offline_harness(
            *replies, "Done.", plugin=self.plugin(), plugins=plugins, cwd=cwd, config=config
        )

    def _slow_turn(self, cwd: Path, **options: Any) -> Any:
        if self.slow is None:
            pytest.skip("no slow call is given")
        return self._offline(cwd, self.slow, **options)

    def _tool(self, offline: OfflineHarness) -> Tool:
        tools = offline.harness.tools.visible(offline.harness.plugins.base)
        assert self.name in tools, f"there is no tool {self.name}; tools: {', '.join(tools)}"
        return tools[self.name]

    def _wrong(self, schema: Mapping[str, Any]) -> Any:
        yield {**self.arguments, "no_such_parameter": 1}
        for name in schema.get("required", ()):
            yield {key: value for key, value in self.arguments.items() if key != name}
        for name, told in schema.get("properties", {}).items():
            if told.get("type") in SCALARS:
                yield {**self.arguments, name: [SCALARS[told["type"]]]}


class _Begun:
    """Tells when a call is about to run."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    @hookimpl
    async def tools_execute(self) -> None:
        self.event.set()


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
