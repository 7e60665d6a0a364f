"""A plugin changes the outcome through each hook of start-up, the command line and the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from offline import offline

from dsh_core import (
    AdapterFactory,
    Agent,
    AgentDefinition,
    Chunk,
    ConfigError,
    Finish,
    Harness,
    HarnessConfig,
    ModelConfig,
    ProviderConfig,
    Request,
    SlashCommand,
    TextDelta,
    hookimpl,
    tool,
)

LOUD = """
from dsh_core import hookimpl

loud = False


@hookimpl
def cli_register(cli):
    cli.add_option("--loud", action="store_true", help="Answer in capitals.")


@hookimpl
def harness_start(harness):
    global loud
    loud = harness.cli_options["loud"].loud


@hookimpl
async def llm_stream(request, *, call_next):
    async for chunk in await call_next():
        yield louder(chunk) if loud else chunk


def louder(chunk):
    from dataclasses import replace

    from dsh_core import BlockEnd, Text, TextDelta

    match chunk:
        case TextDelta(text=text):
            return replace(chunk, text=text.upper())
        case BlockEnd(block=Text(text)):
            return replace(chunk, block=Text(text.upper()))
    return chunk
"""

CONFIG = """
providers:
  offline:
    adapter: scripted
    replies: [Good morning.]
    models: {script: {}}
"""


def install(site: Path, name: str, source: str) -> None:
    """Put a plugin where `pip install` would."""
    info = site / f"dsh_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"dsh_{name}.py").write_text(dedent(source))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: dsh-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dsh]\n{name} = dsh_{name}\n")


@pytest.mark.parametrize(("options", "said"), [((), "Good morning."), (("--loud",), "GOOD")])
def test_hook_cli_register_adds_an_option_to_dsh_run(
    dsh: Any, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    install(tmp_path / "site", "loud", LOUD)
    dsh.env["PYTHONPATH"] = str(tmp_path / "site")
    file = dsh.write("offline.yaml", CONFIG)

    done = dsh("run", "-c", str(file), *options, "Hello.")

    assert done.returncode == 0, done.stderr
    assert said in done.stdout


class Echo:
    """An adapter that says what it was told."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield TextDelta(0, f"{request.model_name}: {request.messages[-1].text}")
        yield Finish("stop")

    async def aclose(self) -> None:
        """There is no connection."""


async def test_hook_llm_register_offers_an_adapter() -> None:
    class Echoes:
        @hookimpl
        def llm_register(self, harness: Harness) -> list[AdapterFactory]:
            return [AdapterFactory("echo", lambda provider: Echo())]

    provider = ProviderConfig("wall", "echo", models={"stone": ModelConfig()})
    config = HarnessConfig(autoload=False, providers={"wall": provider})
    async with offline(plugin=Echoes(), config=config) as stage:
        result = await stage.agent.run("Hello.")

    assert result.text == "stone: Hello."


async def test_hook_commands_register_gives_people_a_command() -> None:
    async def say_hello(agent: Agent, rest: str) -> str:
        return f"Hello {rest} from {agent.name}."

    class Greets:
        @hookimpl
        def commands_register(self, harness: Harness) -> list[SlashCommand]:
            return [SlashCommand("hello", "Say hello.", say_hello)]

    async with offline(plugin=Greets()) as stage:
        commands = stage.harness.commands
        assert [one.name for one in commands.list(stage.agent)] == ["hello"]
        assert await commands.execute(stage.agent, "/hello you") == "Hello you from default."

    assert stage.requests == []


@tool(read_only=True)
def index() -> str:
    """Search the index."""
    return "nothing"


async def test_hook_harness_start_prepares_what_agents_need() -> None:
    class Indexes:
        @hookimpl
        async def harness_start(self, harness: Harness) -> None:
            harness.tools.register(index, owner="it")

    async with offline("ok", plugin=Indexes()) as stage:
        await stage.agent.run("go")

    assert [one.name for one in stage.requests[0].tools] == ["index"]


async def test_hook_harness_start_refuses_to_start() -> None:
    class Broken:
        @hookimpl
        async def harness_start(self) -> None:
            raise OSError("the index is locked")

    with pytest.raises(ConfigError, match=r"'it'.*the index is locked"):
        async with offline(plugin=Broken()):
            pytest.fail("it started")


async def test_hook_harness_stop_closes_what_was_opened(tmp_path: Path) -> None:
    class Opens:
        @hookimpl
        async def harness_start(self) -> None:
            (tmp_path / "open").touch()

        @hookimpl
        async def harness_stop(self, harness: Harness) -> None:
            assert harness.agents.list() == []
            (tmp_path / "open").unlink()

    definition = AgentDefinition("early", autostart=True)
    config = HarnessConfig(autoload=False, agents={"early": definition})
    async with offline(plugin=Opens(), config=config) as stage:
        assert [agent.name for agent in stage.harness.agents.list()] == ["early"]
        assert (tmp_path / "open").exists()

    assert not (tmp_path / "open").exists()
