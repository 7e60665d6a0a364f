"""A recorded session as a regression test: the same replies again, and the same log expected.

::

    async def test_the_session_of_issue_12():
        await assert_replays("issue-12.jsonl", plugin=Words())

The file is what `dsh run --json` wrote, or a stored session's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from dsh_core.content import Reasoning, ToolCall, text_of
from dsh_core.events import (
    AssistantChunk,
    AssistantMessage,
    ErrorEvent,
    Event,
    LlmRetry,
    PluginTrace,
    RequestHeader,
    RequestMessages,
    ToolProgress,
    TurnStart,
    UsageEvent,
    UserMessage,
)
from dsh_core.messages import UserSource
from dsh_core.session.recorded import read_session
from dsh_core.testing.log_text import render_log
from dsh_core.testing.offline import offline_harness

OF_THE_MODEL = (AssistantChunk, UsageEvent, LlmRetry)
OF_THE_PLACE = (RequestHeader, RequestMessages, ToolProgress, PluginTrace)
"""Differ with the provider, the folder, the time, and what is watched."""
_ROUTE = re.compile(r" model=\S+")


class ReplayModel:
    """The model of a recorded session.

    Attributes:
        prompts: What the user said, a turn each: the texts of its messages.
        replies: What the model said, one per step, as `offline_harness` takes it.

    """

    def __init__(self, events: Iterable[Event]):
        self.prompts: list[str] = []
        self.replies: list[Mapping[str, Any]] = []
        answered: tuple[int, int] | None = None
        begun = False
        for event in events:
            match event.data:
                case TurnStart():
                    begun = True
                case UserMessage(content=content, source=UserSource()):
                    if begun:
                        self.prompts.append(text_of(content))
                    else:
                        self.prompts[-1] += f"\n{text_of(content)}"
                    begun = False
                case AssistantMessage(replaces=None) as message:
                    self.replies.append(_reply(message))
                    answered = (message.turn, message.step)
                case ErrorEvent(plugin=None) as error if answered != (error.turn, error.step):
                    failure = {"code": error.code, "message": error.message}
                    self.replies.append({"fail": failure})

    @classmethod
    def from_file(cls, path: Path | str) -> ReplayModel:
        """Read a session from a file of JSON lines. Raises `UserError`."""
        return cls(read_session(Path(path)))


async def assert_replays(
    session: Path | str | Sequence[Event],
    *,
    replace: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Run a recorded session again and compare the logs, without what differs anyway.

    Args:
        session: A file of JSON lines, or events.
        replace: As for `log_snapshot`.
        options: As for `offline_harness`: the plugin under test, a folder.

    Raises:
        AssertionError: The logs differ; says how.
        UserError: The file holds no session.
    """
    recorded = read_session(Path(session)) if isinstance(session, (str, Path)) else session
    model = ReplayModel(recorded)
    async with offline_harness(*model.replies, **options) as offline:
        for prompt in model.prompts:
            await offline.agent.run(prompt)
        again = list(offline.agent.session.events)
    before, after = (log_snapshot(one, replace=replace) for one in (recorded, again))
    if before != after:
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), "recorded", "replayed", lineterm=""
        )
        raise AssertionError("the session went another way:\n" + "\n".join(lines))


def log_snapshot(events: Iterable[Event], *, replace: Mapping[str, str] | None = None) -> str:
    """Return a log as text that is the same on every run, model and machine: one line per event.

    As `render_log`, without pieces of a stream, usage, request headers and traces, numbered anew.

    Args:
        events: In order.
        replace: Text → what stands for it, as in `{str(tmp_path): "<cwd>"}`.
    """
    return _ROUTE.sub("", render_log(_comparable(events), replace=replace))


def _comparable(events: Iterable[Event]) -> Iterator[Event]:
    kept = (event for event in events if not isinstance(event.data, OF_THE_MODEL + OF_THE_PLACE))
    for seq, event in enumerate(kept):
        yield changed(event, seq=seq)


def _reply(message: AssistantMessage) -> Mapping[str, Any]:
    calls = [
        {"id": block.id, "name": block.name, "arguments": block.arguments}
        for block in message.content
        if isinstance(block, ToolCall)
    ]
    thought = "".join(block.text for block in message.content if isinstance(block, Reasoning))
    return {
        "text": text_of(message.content),
        "reasoning": thought,
        "calls": calls,
        "finish": message.finish,
    }
