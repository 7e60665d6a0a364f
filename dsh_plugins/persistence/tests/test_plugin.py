"""The plugin in a harness: written behind, resumed, forked, and honest when it cannot write."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from dsh_core import AgentError, HarnessConfig, Secret, UserError, text_of, tool
from dsh_core.events import Interrupted, ToolResultEvent, TurnEnd
from dsh_core.testing import assert_balanced, calling, request_text
from dsh_persistence import Persistence
from dsh_persistence.jsonl import JsonlStore

FOLDER = Path(__file__).parents[1]


def files(root):
    return sorted(root.glob("*/*.jsonl"))


def lines(root):
    (path,) = files(root)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_turn_is_on_the_disk_when_the_agent_is_idle(dsh_offline, persistence, root):
    async with dsh_offline("Hi.", plugin=persistence()) as it:
        await it.agent.run("Hello.")
        header, *events, mark = lines(root)
        log = [event.to_json() for event in it.agent.session.events]

    assert header["type"], header["id"] == ("dsh/session", it.agent.id)
    assert events == log
    assert (mark["type"], mark["events"]) == ("dsh/flushed", len(log))


async def test_a_session_goes_on_in_another_harness(dsh_offline, persistence, root):
    async with dsh_offline("Noted.", plugin=persistence()) as it:
        await it.agent.run("Remember PINEAPPLE.")
        session_id = it.agent.id
    async with dsh_offline("PINEAPPLE.", plugin=persistence()) as it:
        agent = await it.harness.agents.resume(session_id)
        await agent.run("Which word?")
        assert "Remember PINEAPPLE." in request_text(it.requests[-1])
        assert agent.session.last_turn == 2
    async with dsh_offline(plugin=persistence()) as it:
        agent = await it.harness.agents.resume(session_id)
        assert [message.text for message in agent.session.messages()] == [
            *("Remember PINEAPPLE.", "Noted.", "Which word?", "PINEAPPLE.")
        ]


async def test_events_are_written_behind_while_the_turn_goes_on(dsh_offline, persistence, root):
    gate = asyncio.Event()

    async def slow(request):
        await gate.wait()
        return "Done."

    async with dsh_offline(slow, plugin=persistence(window_seconds=0.01)) as it:
        it.agent.send("Hello.")
        await until(lambda: files(root) and "request/header" in files(root)[0].read_text())
        assert "dsh/flushed" not in files(root)[0].read_text()
        gate.set()
        await it.agent.when_idle()


async def test_a_call_is_on_the_disk_before_it_runs(dsh_offline, persistence, root):
    seen = []

    @tool
    async def look() -> str:
        """Look at the disk."""
        seen.append(lines(root)[-1]["type"])
        return "seen"

    async with dsh_offline(
        calling("look"), "Done.", tools=[look], plugin=persistence(window_seconds=60)
    ) as it:
        await it.agent.run("Go.")

    assert seen == ["tool/call"]


async def test_without_checkpoints_a_call_may_run_before_it_is_written(
    dsh_offline, persistence, root
):
    seen = []

    @tool
    async def look() -> str:
        """Look at the disk."""
        seen.append(files(root))
        return "seen"

    plugin = persistence(window_seconds=60, checkpoint=False)
    async with dsh_offline(calling("look"), "Done.", tools=[look], plugin=plugin) as it:
        await it.agent.run("Go.")

    assert seen == [[]]
    assert len(files(root)) == 1


@pytest.mark.parametrize(
    ("cut_after", "code"),
    [("tool/call", "TOOL_OUTCOME_UNKNOWN"), ("assistant/message", "TOOL_NOT_STARTED")],
)
async def test_a_crash_in_a_call_is_told_to_the_model(
    dsh_offline, persistence, root, tmp_path, cut_after, code
):
    ran = tmp_path / "ran"

    @tool
    async def act() -> str:
        """Act once."""
        with ran.open("a") as file:
            file.write("ran\n")
        shutil.copytree(root, tmp_path / "crashed")
        return "done"

    async with dsh_offline(calling("act"), "Done.", tools=[act], plugin=persistence()) as it:
        await it.agent.run("Go.")
        session_id = it.agent.id
    shutil.rmtree(root)
    shutil.copytree(tmp_path / "crashed", root)
    (path,) = files(root)
    kept = path.read_text().partition(f'{{"type":"{cut_after}"')
    path.write_text(kept[0] + kept[1] + kept[2].partition("\n")[0] + "\n")

    async with dsh_offline("I see.", tools=[act], plugin=persistence()) as it:
        agent = await it.harness.agents.resume(session_id)
        results = [e.data for e in agent.session.events if isinstance(e.data, ToolResultEvent)]
        assert [result.code for result in results] == [code]
        ends = [e.data.reason for e in agent.session.events if isinstance(e.data, TurnEnd)]
        assert ends == [Interrupted()]
        await agent.run("Go on.")
        assert text_of(results[0].content) in request_text(it.requests[-1])
        log = list(agent.session.events)
    assert ran.read_text() == "ran\n"
    async with dsh_offline(plugin=persistence()) as it:
        assert list((await it.harness.store.load(session_id)).events) == log
    assert_balanced(log)


async def test_the_end_of_an_interrupted_turn_is_stored_without_another_turn(
    dsh_offline, persistence, root, kit
):
    store = JsonlStore(root)
    await store.append(kit.header(agent=None), kit.log(2)[:12])
    await store.close()
    async with dsh_offline(plugin=persistence()) as it:
        await it.harness.agents.resume("one")
    stored = await JsonlStore(root).load("one")

    assert isinstance(stored.events[-1].data, TurnEnd)
    assert stored.events[-1].data.reason == Interrupted()


async def test_a_fork_is_stored_and_its_parent_stays_as_it_is(dsh_offline, persistence, root):
    async with dsh_offline("One.", "Two.", "Fork.", plugin=persistence()) as it:
        await it.agent.run("First.")
        await it.agent.run("Second.")
        (path,) = files(root)
        before = path.read_bytes()
        child = await it.harness.sessions.fork(it.agent.id, at_turn=1, new_id="child")
        agent = await it.harness.agents.resume("child")
        await agent.run("Instead.")
        stored = await it.harness.store.load("child")
        assert path.read_bytes() == before
        seed_length = stored.header.seed_length
        assert stored.header.parent == it.agent.id
        assert list(stored.events)[:seed_length] == list(it.agent.session.events)[:seed_length]
        assert list(stored.events) == list(child.events)
        assert [m.text for m in child.messages()][::2] == ["First.", "Instead."]


async def test_a_second_process_is_refused_before_the_model_is_asked(
    dsh_offline, persistence, root, errors
):
    async with dsh_offline("One.", plugin=persistence()) as first:
        await first.agent.run("Hello.")
        async with dsh_offline("Two.", plugin=persistence(), plugins={"errors": errors}) as second:
            with pytest.raises(UserError, match=r"in use by process \d+"):
                await second.harness.agents.resume(first.agent.id)
            agent = second.harness.agents.create(session_id=first.agent.id)
            result = await agent.run("Mine!")
            assert result.reason.type == "error"
            assert "in use by process" in result.reason.message
            assert second.requests == []
    assert len(files(root)) == 1


async def test_a_new_session_never_goes_into_a_stored_one(dsh_offline, persistence, root):
    async with dsh_offline("One.", plugin=persistence()) as it:
        await it.agent.run("Hello.")
    before = files(root)[0].read_bytes()
    async with dsh_offline("Two.", plugin=persistence()) as second:
        agent = second.harness.agents.create(session_id=it.agent.id)
        result = await agent.run("Mine!")

    assert "another session is stored" in result.reason.message
    assert files(root)[0].read_bytes() == before


async def test_a_full_disk_is_said_and_nothing_is_lost(
    dsh_offline, persistence, root, faulty, answers, errors
):
    @tool
    async def act() -> str:
        """Act."""
        return "acted"

    full = OSError(errno.ENOSPC, "No space left on device")
    plugins = {"store": answers(JsonlStore(root, disk=faulty)), "errors": errors}
    async with dsh_offline(
        "One.",
        calling("act"),
        "Two.",
        "Three.",
        tools=[act],
        plugins={**plugins, "p": persistence()},
    ) as it:
        await it.agent.run("First.")
        before = len(it.agent.session.events)
        faulty.fail = lambda name, n: full if name == "write" else None
        result = await it.agent.run("Second.")
        assert result.text == "Two."
        (refused,) = it.logged(ToolResultEvent)
        assert refused.code == "SESSION_NOT_STORED"
        assert "No space left on device" in text_of(refused.content)
        assert any("No space left" in said and str(root) in said for said in errors.said)
        assert len((await it.harness.store.load(it.agent.id)).events) == before
        faulty.fail = lambda name, n: None
        await it.agent.run("Third.")
        stored = await it.harness.store.load(it.agent.id)
        assert list(stored.events) == list(it.agent.session.events)


async def test_a_session_that_could_never_be_stored_goes_on_in_memory(
    dsh_offline, persistence, root, errors
):
    @tool
    async def act() -> str:
        """Act."""
        return "acted"

    root.write_text("a file in the way")
    plugins = {"errors": errors, "p": persistence()}
    async with dsh_offline(calling("act"), "Done.", "Again.", tools=[act], plugins=plugins) as it:
        assert (await it.agent.run("First.")).text == "Done."
        assert [r.is_error for r in it.logged(ToolResultEvent)] == [False]
        assert "File exists" in errors.said[0]
        assert str(root) in errors.said[0]
        root.unlink()
        await it.agent.run("Second.")
        stored = await it.harness.store.load(it.agent.id)
        assert list(stored.events) == list(it.agent.session.events)


async def test_the_same_failure_is_reported_once_per_turn(dsh_offline, persistence, root, errors):
    root.write_text("a file in the way")
    plugin = persistence(window_seconds=0)
    async with dsh_offline("One.", "Two.", plugin=plugin, plugins={"errors": errors}) as it:
        await it.agent.run("First.")
        first = len(errors.said)
        await it.agent.run("Second.")

    assert first <= 2
    assert len(errors.said) <= first + 2


async def test_known_secrets_are_not_written(dsh_offline, persistence, root):
    key = 'sk-verysecret"and\\odd-北京'

    async def echo(request):
        return {"text": f"It is {key}, really."}

    async with dsh_offline(echo, plugin=persistence(window_seconds=0)) as it:
        it.harness.secrets.add(Secret(key))
        await it.agent.run(f"My key is {key}!")
        (path,) = files(root)
        text = path.read_text()
        assert "verysecret" not in text
        assert "My key is ***!" in text
        pieces = [
            line["data"]["chunk"]["text"]
            for line in map(json.loads, text.splitlines())
            if line["type"] == "assistant/chunk" and line["data"]["chunk"]["type"] == "text-delta"
        ]
        assert "".join(pieces) == "It is ***, really."
        assert len((await it.harness.store.load(it.agent.id)).events) == len(
            it.agent.session.events
        )


async def test_a_plugin_that_comes_back_goes_on_where_it_was(dsh_offline, persistence, root):
    async with dsh_offline("One.", "Two.", plugin=persistence()) as it:
        await it.agent.run("First.")
        await it.harness.plugins.unregister("persistence")
        await it.harness.plugins.register(persistence(), name="persistence")
        await it.agent.run("Second.")
        stored = await it.harness.store.load(it.agent.id)
        assert list(stored.events) == list(it.agent.session.events)


async def test_an_agent_may_have_it_off(dsh_offline, root, persistence):
    from dsh_core import AgentDefinition, Layer

    config = HarnessConfig(autoload=False)
    async with dsh_offline("One.", plugin=persistence(), config=config) as it:
        quiet = AgentDefinition("quiet", plugins={"persistence": (Layer("test", False),)})
        agent = it.harness.agents.create(quiet)
        await agent.run("Hello.")

    assert files(root) == []


async def test_nobody_can_resume_twice(dsh_offline, persistence):
    async with dsh_offline("One.", plugin=persistence()) as it:
        await it.agent.run("Hello.")
        with pytest.raises(AgentError, match="is live already"):
            await it.harness.agents.resume(it.agent.id)


def test_importing_it_is_light():
    program = (
        "import sys, dsh_core.harness\n"
        "before = set(sys.modules)\n"
        "import dsh_persistence\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    assert not {"pydantic", "sqlalchemy", "jinja2", "yaml", "httpx"}.intersection(output)
    assert len([name for name in output if not name.startswith("dsh_")]) < 25, output


def test_modules_below_the_plugin_know_no_pluggy():
    for path in (FOLDER / "dsh_persistence").rglob("*.py"):
        if path.name != "__init__.py":
            forbidden = r"pluggy|hookimpl|dsh_core\.(loop|harness|hooks)"
            assert not re.search(forbidden, path.read_text()), path


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="window_seconds"):
        Persistence.Settings(window_seconds=-1)


def test_one_word_in_four_places():
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    assert project["name"] == "dsh-persistence"
    assert project["entry-points"]["dsh"] == {"persistence": "dsh_persistence:Persistence"}
    assert (FOLDER / "LICENSE").read_text().startswith("MIT License")


def test_the_readme_names_every_setting_with_its_default():
    text = (FOLDER / "README.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    written = yaml.safe_load(block)["plugins"]["persistence"]
    defaults = Persistence.Settings()
    assert set(written) == set(Persistence.Settings.__dataclass_fields__)
    assert written.pop("folder") == "~/sessions"
    assert written.pop("url").startswith("postgresql+psycopg://")
    assert written == {name: getattr(defaults, name) for name in written}
