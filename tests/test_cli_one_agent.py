"""`dsh run` creates the chosen agent, and shows that one alone."""

from __future__ import annotations

import json

import pytest
from distributions import distribution
from program import Shell

CONFIG = """\
providers:
  offline: {adapter: scripted, loop: true, replies: [Hello.], models: {m: {}}}
default_agent: chosen
agents:
  chosen: {model: offline/m}
  other: {model: offline/m, autostart: true}
"""
OTHERS = """\
from dsh_core import hookimpl

@hookimpl
def agent_created(agent):
    if agent.name == "chosen":
        agent.harness.agents.create("other").send("early")

@hookimpl
async def agent_turn_start(agent, turn):
    if agent.name == "chosen":
        late = agent.harness.agents.create("other")
        await late.run("late")
        await late.dispose()

@hookimpl
async def agent_turn_end(agent, turn, reason):
    raise ValueError(f"said of {agent.name}")
"""


@pytest.fixture
def crowded(dsh: Shell) -> Shell:
    """A configuration with an `autostart` agent, and a plugin that creates others."""
    dsh.write("two.yaml", CONFIG)
    distribution(dsh.work / "site", "others", {"others": "others"}, others=OTHERS)
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    return dsh


def test_a_run_creates_the_chosen_agent_only(dsh: Shell) -> None:
    dsh.write("two.yaml", CONFIG)
    tells = (
        "import sys\n"
        "from dsh_core import hookimpl\n"
        "@hookimpl\n"
        "def agent_created(agent):\n"
        "    print('created', agent.name, file=sys.stderr)\n"
    )
    distribution(dsh.work / "site", "tells", {"tells": "tells"}, tells=tells)
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    done = dsh("run", "-c", "two.yaml", "Hi")

    assert done.returncode == 0
    assert "created chosen" in done.stderr
    assert "created other" not in done.stderr
    assert "created other" in dsh("run", "-c", "two.yaml", "-a", "other", "Hi").stderr


def test_json_lines_are_those_of_one_session(crowded: Shell) -> None:
    done = crowded("run", "-c", "two.yaml", "--json", "Hi")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    types = [line["type"] for line in lines]

    assert done.returncode == 0
    assert (types.count("dsh/header"), types.count("dsh/result")) == (1, 1)
    assert lines[0]["session"]["agent"] == "chosen"
    assert lines[-1]["session_id"] == lines[0]["session"]["id"]
    events = [line for line in lines if "seq" in line]
    assert [event["seq"] for event in events] == list(range(len(events)))
    failures = [line["message"] for line in lines if line["type"] == "dsh/error"]
    assert len(failures) == 1
    assert "said of chosen" in failures[0]


def test_the_answer_is_that_of_the_chosen_agent(crowded: Shell) -> None:
    assert crowded("run", "-c", "two.yaml", "Hi").stdout == "Hello.\n"
