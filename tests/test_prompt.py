"""The system text of a step: named sections in a fixed order, whoever brought them."""

from __future__ import annotations

from typing import Any

import pytest
from loop_stage import Stage, bounded, stage

from dsh_core import (
    AgentDefinition,
    Assembly,
    Layer,
    PluginError,
    Request,
    Section,
    Tool,
    UserError,
    hookimpl,
)
from dsh_core.events import Errored, RequestHeader

WITHOUT = {"environment": False}
"""The built-in section about the working directory is switched off."""


def answering(answer: Any) -> object:
    class Answers:
        @hookimpl
        async def system_prompt_sections(self) -> Any:
            return answer

    return Answers()


def giving(*sections: Section) -> object:
    return answering(sections)


async def system_of(s: Stage, **options: Any) -> str:
    agent = s.create(**options)
    await bounded(agent.run("go"))
    return s.model.requests[-1].system


async def test_sections_are_sorted_by_order_then_name() -> None:
    plugins = {
        "z": giving(Section("b", "second", order=5), Section("a", "first", order=5)),
        "a": giving(Section("late", "last", order=100.5), Section("early", "zero", order=-1)),
    }
    async with stage(plugins=plugins, settings=WITHOUT) as s:
        assert await system_of(s) == "zero\n\nfirst\n\nsecond\n\nlast"


async def test_the_agents_own_part_has_its_place() -> None:
    plugin = giving(Section("before", "A", order=-1), Section("after", "C", order=1))
    async with stage(plugin=plugin, settings=WITHOUT) as s:
        assert await system_of(s, system_prompt="B") == "A\n\nB\n\nC"


async def test_without_sections_there_is_no_text_and_empty_ones_leave_no_gap() -> None:
    async with stage(settings=WITHOUT) as s:
        assert await system_of(s) == ""
    plugin = giving(Section("a", "A"), Section("b", ""), Section("c", "C"))
    async with stage(plugin=plugin, settings=WITHOUT) as s:
        assert await system_of(s) == "A\n\nC"


async def test_a_section_registered_at_run_time_is_there_until_it_is_disposed() -> None:
    class Hears:
        count = 0

        @hookimpl
        def system_prompt_change(self) -> None:
            self.count += 1

    hears = Hears()
    async with stage(plugin=hears, settings=WITHOUT) as s:
        section = Section("late", "late")
        dispose = s.harness.prompt.register(section, owner="me")
        assert await system_of(s) == "late"
        dispose()
        again = s.harness.prompt.register(section, owner="me")
        dispose()
        assert await system_of(s) == "late"
        s.harness.prompt.remove_owner("me")
        assert await system_of(s) == ""
        again()
        assert hears.count == 4


@pytest.mark.parametrize(
    "wrong",
    [
        Section("a", "x", order=float("nan")),
        Section("a", "x", order=float("inf")),
        Section("a", 5),
        Section(None, "x"),
        "text",
    ],
)
async def test_a_section_that_cannot_be_placed_is_refused(wrong: Any) -> None:
    async with stage(settings=WITHOUT) as s:
        with pytest.raises(UserError, match="no usable prompt section"):
            s.harness.prompt.register(wrong, owner="me")
    async with stage(plugin=answering([wrong]), settings=WITHOUT) as s:
        result = await bounded(s.agent.run("go"))
        assert isinstance(result.reason, Errored)
        assert "plugin 'it' in system_prompt_sections" in result.reason.message


@pytest.mark.parametrize(
    ("junk", "problem"),
    [
        ("text", "returned a str; a list of sections is wanted"),
        (3, "returned a int; a list of sections is wanted"),
        (Section("a", "x"), "returned a Section; a list of sections is wanted"),
        (["x"], "returned a list with a str; a list of sections is wanted"),
        ([Section("a", "x", order=float("nan"))], "a finite number as order"),
    ],
)
async def test_an_answer_that_is_no_list_of_sections_ends_the_turn(junk: Any, problem: str) -> None:
    async with stage(plugin=answering(junk)) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, Errored)
        assert problem in result.reason.message


async def test_a_taken_name_is_refused_naming_who_has_it() -> None:
    async with stage(settings=WITHOUT) as s:
        s.harness.prompt.register(Section("a", "x"), owner="me")
        with pytest.raises(UserError, match="'me' has a prompt section 'a' already"):
            s.harness.prompt.register(Section("a", "y"), owner="you")
    plugins = {"one": giving(Section("a", "x")), "two": giving(Section("a", "y"))}
    async with stage(plugins=plugins, settings=WITHOUT) as s:
        result = await bounded(s.agent.run("go"))
        assert isinstance(result.reason, Errored)
        assert "plugin 'two' in system_prompt_sections: section 'a' exists already, from 'one'" in (
            result.reason.message
        )


async def test_where_a_plugin_is_off_its_sections_are_too() -> None:
    async with stage(plugin=giving(Section("a", "mine")), settings=WITHOUT) as s:
        s.harness.prompt.register(Section("b", "registered"), owner="it")
        off = AgentDefinition("quiet", model="m/x", plugins={"it": (Layer("test", False),)})
        quiet = s.harness.agents.create(off)
        await bounded(quiet.run("go"))

        assert s.model.requests[-1].system == ""
        assert await system_of(s) == "mine\n\nregistered"


async def test_a_plugin_edits_text_and_tools_as_a_whole() -> None:
    class Edits:
        @hookimpl
        async def system_prompt_assemble(self, assembly: Assembly) -> None:
            assembly.sections = tuple(s for s in assembly.sections if s.name != "secret")
            assembly.tools = assembly.tools[:1]

    plugins = {"gives": giving(Section("a", "A"), Section("secret", "S")), "edits": Edits()}
    tools = [Tool(name, "", lambda: "x") for name in ("one", "two")]
    async with stage(plugins=plugins, tools=tools, settings=WITHOUT) as s:
        assert await system_of(s) == "A"
        assert [t.name for t in s.model.requests[0].tools] == ["one"]
        (header,) = s.logged(RequestHeader)
        assert header.changed_by == {"system": "edits", "tools": "edits"}


async def test_a_plugin_may_assemble_everything_anew() -> None:
    class Decides:
        @hookimpl
        async def system_prompt_assemble(self) -> Assembly:
            return Assembly((Section("only", "this"),), ())

    async with stage(plugin=Decides(), settings=WITHOUT) as s:
        assert await system_of(s) == "this"


async def test_the_prompt_is_assembled_without_a_turn() -> None:
    async with stage(plugin=giving(Section("a", "A")), settings=WITHOUT) as s:
        assembly = await s.harness.prompt.assemble(s.agent)

        assert (assembly.system, assembly.tools) == ("A", ())
        assert dict(assembly.contributed) == {"a": ("it", "A")}
    async with stage(plugin=answering("junk")) as s:
        with pytest.raises(PluginError):
            await s.harness.prompt.assemble(s.agent)


async def test_a_request_outside_a_step_is_the_one_a_step_would_make() -> None:
    class Edits:
        @hookimpl
        async def agent_request(self, turn: int, step: int, request: Request) -> None:
            self.place = (turn, step)
            request.system += " Edited."

    edits = Edits()
    async with stage("hi", plugin=edits) as s:
        agent = s.create(system_prompt="Be brief.", parameters={"temperature": 0})
        await bounded(agent.run("go"))
        types = s.types()

        prompt = s.harness.prompt
        messages = agent.session.messages()
        request = await prompt.request(agent, await prompt.assemble(agent), messages)

        sent = s.model.requests[0]
        for name in ("model", "system", "tools", "stream", "session_id", "parameters"):
            assert getattr(request, name) == getattr(sent, name)
        assert request.messages is messages
        assert edits.place == (0, 0)
        assert s.types() == types


async def test_a_request_without_a_model_says_so() -> None:
    async with stage() as s:
        agent = s.harness.agents.create(AgentDefinition())
        prompt = s.harness.prompt
        with pytest.raises(UserError, match="no model is configured"):
            await prompt.request(agent, await prompt.assemble(agent), ())
