"""A plugin changes the outcome through each hook of a session."""

from __future__ import annotations

import json
from pathlib import Path

from offline import offline, request_text

from dsh_core import Event, Harness, Session, SessionHeader, Text, UserError, hookimpl
from dsh_core.events import ContextMessage, ErrorEvent, UserMessage
from dsh_core.messages import PluginSource
from dsh_core.session.store import StoredSession


async def test_hook_session_created_writes_the_first_event() -> None:
    class Greets:
        @hookimpl
        def session_created(self, session: Session) -> None:
            text = Text(f"This is session {session.id}.")
            session.record(ContextMessage((text,), PluginSource("it")))

    async with offline("ok", plugin=Greets()) as stage:
        await stage.agent.run("go")

    assert stage.types()[:3] == ["turn/start", "context/message", "turn/end"]
    assert f"This is session {stage.agent.id}." in request_text(stage.requests[0])


async def test_hook_session_validate_keeps_an_event_out_of_the_log() -> None:
    class Guards:
        @hookimpl
        def session_validate(self, session: Session, event: Event) -> None:
            if isinstance(event.data, UserMessage) and "hunter2" in str(event.data):
                raise ValueError("a password")

    async with offline("ok", plugin=Guards()) as stage:
        stage.agent.send("My password is hunter2.")
        await stage.agent.when_idle()
        await stage.agent.run("Hello.")

    assert [error.plugin for error in stage.logged(ErrorEvent)] == ["it"]
    assert "hunter2" not in str(stage.agent.session.events)
    assert "hunter2" not in request_text(stage.requests[0])


async def test_hook_session_event_copies_the_log_as_it_grows(tmp_path: Path) -> None:
    class Writes:
        @hookimpl
        def session_event(self, session: Session, event: Event) -> None:
            with (tmp_path / session.id).open("a") as file:
                file.write(json.dumps(event.to_json()) + "\n")

    async with offline("ok", plugin=Writes()) as stage:
        await stage.agent.run("go")

    lines = (tmp_path / stage.agent.id).read_text().splitlines()
    assert [Event.from_json(json.loads(line)) for line in lines] == stage.agent.session.events


async def test_hook_session_flush_makes_the_turn_durable_before_the_agent_is_idle(
    tmp_path: Path,
) -> None:
    class Saves:
        @hookimpl
        async def session_flush(self, session: Session) -> None:
            (tmp_path / session.id).write_text(str(len(session.events)))

    async with offline("ok", plugin=Saves()) as stage:
        await stage.agent.run("go")
        saved = (tmp_path / stage.agent.id).read_text()

    assert saved == str(len(stage.agent.session.events))


class OneSession:
    """A store of one session, without locks to speak of."""

    def __init__(self, stored: StoredSession):
        self._stored = stored

    async def load(self, session_id: str) -> StoredSession:
        if session_id != self._stored.header.id:
            raise UserError(f"there is no session {session_id!r}")
        return self._stored

    async def lock(self, session_id: str) -> OneSession:
        return self

    async def release(self) -> None:
        """Nothing is locked."""


async def test_hook_session_store_lets_a_session_be_resumed() -> None:
    async with offline("It is 7.") as first:
        await first.agent.run("Remember 7.")
    stored = StoredSession(SessionHeader("old", 0.0), tuple(first.agent.session.events))

    class Stores:
        @hookimpl
        async def session_store(self, harness: Harness) -> OneSession:
            return OneSession(stored)

    async with offline("Still 7.", plugin=Stores()) as stage:
        agent = await stage.harness.agents.resume("old")
        await agent.run("Which number?")

    assert "Remember 7." in request_text(stage.requests[0])
    assert agent.session.last_turn == 2
