"""A plugin changes the outcome through each hook of the prompt and of the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from offline import offline

from dsh_core import (
    Agent,
    AgentDefinition,
    Assembly,
    Chunk,
    HarnessConfig,
    Layer,
    LlmFailure,
    Message,
    ModelConfig,
    ProviderConfig,
    Request,
    Retry,
    Section,
    Text,
    TextDelta,
    hookimpl,
    tool,
)
from dsh_core.chunks import BlockEnd
from dsh_core.events import Aborted, AssistantMessage, ErrorEvent, LlmRetry, RequestHeader


@tool(read_only=True)
def look() -> str:
    """Look around."""
    return "trees"


@tool
def dig() -> str:
    """Dig a hole."""
    return "a hole"


async def test_hook_system_prompt_sections_adds_to_the_system_text() -> None:
    class Style:
        @hookimpl
        async def system_prompt_sections(self, agent: Agent) -> list[Section]:
            return [Section("style", f"{agent.name} answers briefly.")]

    async with offline("ok", plugin=Style()) as stage:
        await stage.agent.run("go")

    assert "default answers briefly." in stage.requests[0].system
    assert "default answers briefly." in stage.logged(RequestHeader)[0].system


async def test_hook_system_prompt_assemble_takes_tools_and_text_away() -> None:
    class Blindfolds:
        @hookimpl
        async def system_prompt_assemble(self, assembly: Assembly) -> None:
            assembly.sections = (Section("all", "You see nothing."),)
            assembly.tools = tuple(t for t in assembly.tools if t.name != "look")

    async with offline("ok", plugin=Blindfolds(), tools=(look, dig)) as stage:
        await stage.agent.run("go")

    assert stage.requests[0].system == "You see nothing."
    assert [t.name for t in stage.requests[0].tools] == ["dig"]
    assert stage.logged(RequestHeader)[0].changed_by == {"system": "it", "tools": "it"}


async def test_hook_agent_request_changes_what_is_sent() -> None:
    class Cold:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            request.parameters = {**request.parameters, "temperature": 0}

    async with offline("ok", plugin=Cold()) as stage:
        await stage.agent.run("go")

    assert stage.requests[0].parameters == {"temperature": 0}
    assert stage.logged(RequestHeader)[0].parameters == {"temperature": 0}
    assert stage.logged(RequestHeader)[0].changed_by == {"parameters": "it"}


async def test_hook_llm_stream_rewrites_the_stream() -> None:
    class Shouts:
        @hookimpl
        async def llm_stream(
            self, request: Request, *, call_next: Callable[[], Awaitable[AsyncIterator[Chunk]]]
        ) -> AsyncIterator[Chunk]:
            async for chunk in await call_next():
                match chunk:
                    case TextDelta(text=text):
                        yield replace(chunk, text=text.upper())
                    case BlockEnd(block=Text(text)):
                        yield replace(chunk, block=Text(text.upper()))
                    case _:
                        yield chunk

    async with offline("as quiet as a mouse", plugin=Shouts()) as stage:
        result = await stage.agent.run("go")

    assert result.text == "AS QUIET AS A MOUSE"


async def test_hook_agent_stream_chunk_aborts_in_mid_stream() -> None:
    class Listens:
        @hookimpl
        def agent_stream_chunk(self, agent: Agent, chunk: Chunk) -> None:
            if isinstance(chunk, TextDelta) and "secret" in chunk.text:
                agent.abort("enough")

    async with offline("The secret is never told.", plugin=Listens()) as stage:
        result = await stage.agent.run("go")

    (reply,) = stage.logged(AssistantMessage)
    assert (reply.interrupted, "told" in str(reply.content)) == (True, False)
    assert result.reason == Aborted("enough")


async def test_hook_agent_request_error_tries_again() -> None:
    class Insists:
        @hookimpl
        async def agent_request_error(self, failure: LlmFailure, attempt: int) -> Retry | None:
            return Retry() if failure.code == "AUTH" and attempt < 3 else None

    failing = {"fail": {"code": "AUTH"}}
    async with offline(failing, failing, "At last.", plugin=Insists()) as stage:
        result = await stage.agent.run("go")

    assert len(stage.requests) == 3
    assert (result.text, result.is_success) == ("At last.", True)
    assert [retry.attempt for retry in stage.logged(LlmRetry)] == [1, 2]
    assert stage.logged(ErrorEvent) == []


async def test_hook_agent_step_result_rewrites_the_reply() -> None:
    class Redacts:
        @hookimpl
        async def agent_step_result(
            self, message: Message, *, call_next: Callable[[], Awaitable[Message]]
        ) -> Message:
            message = await call_next()
            return replace(message, content=(Text(message.text.replace("hunter2", "***")),))

    async with offline("The password is hunter2.", "ok", plugin=Redacts()) as stage:
        result = await stage.agent.run("go")
        await stage.agent.run("again")

    assert result.text == "The password is ***."
    assert stage.requests[1].messages[1].text == "The password is ***."


async def test_hook_tokens_measure_replaces_the_estimate() -> None:
    class Words:
        @hookimpl
        async def tokens_measure(self, messages: tuple[Message, ...]) -> int:
            return sum(len(message.text.split()) for message in messages)

    messages = (Message("user", (Text("one two three"),)),)
    async with offline(plugin=Words()) as stage:
        assert await stage.harness.llm.measure(None, messages) == 3
        assert await stage.harness.llm.measure(stage.agent, messages) == 3


# ---------------------------------------------------------------- changes at run time


class Notices:
    """Counts changes, one list for all instances; an agent may have an instance of its own."""

    heard: list[str]

    @dataclass(frozen=True, slots=True)
    class Settings:
        """Who hears."""

        name: str = "base"

    def __init__(self, settings: Settings):
        self.name = settings.name

    @hookimpl
    def tools_change(self) -> None:
        self.heard.append(f"{self.name}: tools")

    @hookimpl
    def system_prompt_change(self) -> None:
        self.heard.append(f"{self.name}: prompt")

    @hookimpl
    def llm_adapter_change(self) -> None:
        self.heard.append(f"{self.name}: llm")


OWN = AgentDefinition("own", plugins={"it": (Layer("test", {"name": "own"}),)})


async def changes_heard(change: Callable[[Any], Callable[[], None]]) -> list[str]:
    """Register something at run time and take it away again; return who heard what."""
    Notices.heard = heard = []
    config = HarnessConfig(autoload=False, agents={"own": OWN})
    async with offline(plugin=Notices, config=config) as stage:
        stage.harness.agents.create("own")
        heard.clear()
        dispose = change(stage.harness)
        dispose()
    return heard


async def test_hook_tools_change_tells_every_instance_of_a_tool_that_comes_and_goes() -> None:
    heard = await changes_heard(lambda harness: harness.tools.register(look, owner="me"))

    assert heard == ["base: tools", "own: tools"] * 2


async def test_hook_system_prompt_change_tells_every_instance_of_a_section() -> None:
    section = Section("style", "Be brief.")
    heard = await changes_heard(lambda harness: harness.prompt.register(section, owner="me"))

    assert heard == ["base: prompt", "own: prompt"] * 2


async def test_hook_llm_adapter_change_tells_every_instance_of_a_provider() -> None:
    provider = ProviderConfig("more", "scripted", models={"m": ModelConfig()})
    heard = await changes_heard(lambda harness: harness.llm.register_provider(provider, owner="me"))

    assert heard == ["base: llm", "own: llm"] * 2


@pytest.mark.parametrize("change", ["tools", "prompt", "llm"])
async def test_a_plugin_registered_at_run_time_hears_changes_too(change: str) -> None:
    Notices.heard = heard = []
    async with offline() as stage:
        await stage.harness.plugins.register(Notices, "late")
        heard.clear()
        if change == "tools":
            stage.harness.tools.register(look, owner="me")
        elif change == "prompt":
            stage.harness.prompt.register(Section("style", "Be brief."), owner="me")
        else:
            stage.harness.llm.register_provider(ProviderConfig("more", "scripted"), owner="me")

        assert heard == [f"base: {change}"]
