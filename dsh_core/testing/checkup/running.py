"""What shows only in use: two agents at the same time, then the plugin is taken out."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dsh_core.agents import Agent
from dsh_core.codec import to_json
from dsh_core.config.model import HarnessConfig
from dsh_core.errors import PluginError, UserError, error_chain
from dsh_core.harness import Harness
from dsh_core.marks import hookimpl
from dsh_core.messages import Message
from dsh_core.request import Request
from dsh_core.testing.checkup.arguments import arguments_for
from dsh_core.testing.checkup.finding import Finding
from dsh_core.testing.checkup.held_loop import LIMIT_SECONDS, HeldLoop
from dsh_core.testing.checkup.reading import alone
from dsh_core.testing.checkup.subject import Subject
from dsh_core.testing.offline import OfflineHarness, offline_harness

MARKS = {"first": "quokka-3141", "second": "axolotl-2718"}
"""Session id → a text that this agent alone is given."""
TURNS = 2
MOST_REQUESTS = 60
HANGS_SECONDS = 30.0
HOME_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


async def running_findings(subject: Subject, config: HarnessConfig) -> list[Finding]:
    """Return what went wrong while two agents used the plugin, in a folder and home of their own.

    Tools that are declared destructive or to use the network are not called.
    """
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="dsh-check-") as scratch, _own_home(Path(scratch)):
        try:
            await _use(subject, config, Path(scratch), findings)
        except TimeoutError:
            said = f"two agents did not end their turns within {HANGS_SECONDS:g} s"
            findings.append(Finding("hang", said))
        except (AssertionError, UserError) as error:
            findings.append(Finding("run", error_chain(error)))
    return list(dict.fromkeys(findings))


async def _use(
    subject: Subject, config: HarnessConfig, work: Path, findings: list[Finding]
) -> None:
    reports = _Reports(subject.name)
    plugins = {subject.name: subject.load(), "checkup": reports}
    model = _Model(subject.name)
    async with offline_harness(
        *[model.answer] * MOST_REQUESTS,
        plugins=plugins,
        config=alone(config, subject.name),
        cwd=work,
        hangs_seconds=HANGS_SECONDS,
    ) as offline:
        model.harness = offline.harness
        before = set(asyncio.all_tasks())
        agents = [offline.harness.agents.create(session_id=name) for name in MARKS]
        with HeldLoop(subject.folder) as held:
            await asyncio.gather(*(_turns(subject, agent, findings) for agent in agents))
        findings += _held(held)
        findings += _leaks(offline)
        await offline.harness.plugins.unregister(subject.name)
        await asyncio.sleep(0)
        findings += _left(subject, offline.harness, agents, before)
    findings += reports.findings


class _Model:
    """Calls every tool of the plugin once per turn, with a text of the agent's own."""

    def __init__(self, owner: str):
        self.harness: Harness | None = None
        self._owner = owner

    def answer(self, request: Request) -> Any:
        assert self.harness is not None
        last = request.messages[-1]
        mark = MARKS.get(request.session_id or "")
        if mark is None or not last.text.startswith("Turn "):
            return "Done."
        tools = self.harness.tools.visible(self.harness.plugins.base)
        calls = [
            {"name": schema.name, "arguments": arguments_for(schema.parameters, mark)}
            for schema in request.tools
            if self.harness.tools.owner_of(schema.name) == self._owner
            and not tools[schema.name].destructive
            and not tools[schema.name].network
        ]
        return {"calls": calls} if calls else "Done."


class _Reports:
    """Keeps what is reported of the plugin."""

    def __init__(self, name: str):
        self.findings: list[Finding] = []
        self._name = name

    @hookimpl
    def agent_error(self, error: BaseException) -> None:
        if isinstance(error, PluginError) and error.plugin == self._name:
            is_timed = "held the event loop" in error.message
            if not is_timed:  # `HeldLoop` finds those too, and says where
                self.findings.append(Finding("hook", f"{error.hook}: {error.message}"))


async def _turns(subject: Subject, agent: Agent, findings: list[Finding]) -> None:
    mark = MARKS[agent.id]
    for turn in range(1, TURNS + 1):
        result = await agent.run(f"Turn {turn}: {mark}")
        if not result.is_success:
            findings.append(Finding("run", f"a turn ended with {to_json(result.reason)}"))
    for command in agent.harness.commands.list(agent):
        try:
            await agent.harness.commands.execute(agent, f"/{command.name} {mark}")
        except UserError:
            continue  # a text for people is a fine answer to arguments that make no sense
        except Exception as error:  # noqa: BLE001 - a finding, whatever it is
            findings.append(Finding("command", f"/{command.name}: {error_chain(error)}"))


# ---------------------------------------------------------------------- what came of it


def _held(held: HeldLoop) -> Iterator[Finding]:
    for place in held.places:
        yield Finding(
            "blocking",
            f"holds the event loop for more than {LIMIT_SECONDS * 1000:g} ms: {place}",
            "Move blocking work to a thread: await asyncio.to_thread(…).",
            is_timed=True,
        )


def _leaks(offline: OfflineHarness) -> Iterator[Finding]:
    for request in offline.requests:
        for agent, mark in MARKS.items():
            if request.session_id in (agent, None):
                continue
            for part in _parts_with(request, mark):
                yield Finding(
                    "leak",
                    f"what one agent was given is in the {part} of another's request",
                    "Keep what belongs to an agent in agent.stash[KEY]: one instance of the "
                    "plugin serves all agents.",
                )


def _parts_with(request: Request, mark: str) -> Iterator[str]:
    parts: dict[str, Any] = {
        "system text": request.system,
        "messages": [_plain(message) for message in request.messages],
        "tools": to_json(request.tools),
        "parameters": to_json(request.parameters),
    }
    for name, value in parts.items():
        if mark in json.dumps(value):
            yield name


def _plain(message: Message) -> Any:
    return to_json(message.content)


def _left(
    subject: Subject, harness: Harness, agents: list[Agent], before: set[asyncio.Task[Any]]
) -> Iterator[Finding]:
    left = partial(Finding, "left", remedy="Undo it in harness_stop.")
    hooks = harness.plugins.base
    for kind, names in {
        "tool": [n for n in harness.tools.visible(hooks) if harness.tools.owner_of(n) != "checkup"],
        "slash command": [c.name for c in harness.commands.list(agents[0])],
    }.items():
        for name in names:
            yield left(
                f"the {kind} {name} is still there when the plugin is not",
                remedy=f"Register it with owner={subject.name!r}, or in a *_register hook.",
            )
    on = {info.name for info in harness.plugins.infos() if info.state == "on"}
    for agent in agents:
        for key in agent.stash:
            if key.owner.partition(".")[0] not in on:
                yield left(
                    f"{key!r} is still in the stash of agents when the plugin is not",
                    remedy=f'Name it StashKey("{subject.name}.…"): it then goes with the plugin.',
                )
    for task in asyncio.all_tasks() - before:
        if _is_of(task, subject.folder):
            yield left(f"the task {task.get_name()} still runs when the plugin does not")


def _is_of(task: asyncio.Task[Any], folder: Path | None) -> bool:
    code = getattr(task.get_coro(), "cr_code", None)
    path = Path(code.co_filename) if code is not None else None
    return folder is not None and path is not None and folder in (path, *path.parents)


@contextmanager
def _own_home(folder: Path) -> Iterator[None]:
    """Keep the user's files out of it."""
    kept = {name: os.environ.get(name) for name in HOME_VARIABLES}
    os.environ.update({name: str(folder / name.lower()) for name in HOME_VARIABLES})
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
