"""What a model was shown can be rebuilt from the log alone, and who changed it is known."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from loop_stage import Gate, Stage, bounded, calls, lines, paused, stage

from dsh_core import (
    Agent,
    AgentDefinition,
    Assembly,
    Chunk,
    Event,
    Message,
    Request,
    Retry,
    Section,
    hookimpl,
    tool,
)
from dsh_core.chunks import Finish, TextDelta
from dsh_core.content import Text
from dsh_core.errors import LlmFailure
from dsh_core.events import (
    AssistantChunk,
    Errored,
    RequestHeader,
    RequestMessages,
    StepStart,
    TurnEnd,
    UserMessage,
)
from dsh_core.session.history import History


@tool
def nothing() -> str:
    """Do nothing."""
    return "done"


# --------------------------------------------------------------------------------- from the log


class _Rebuilder:
    """Rebuilds every request of a log that got an answer, reading it once."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self._history = History()
        self._header: RequestHeader | None = None
        self._messages: tuple[Message, ...] | None = None
        self._is_answered = False

    def read(self, event: Event) -> None:
        self._history.feed(event)
        match event.data:
            case StepStart():
                self._messages, self._is_answered = None, False
            case RequestHeader() as header:
                self._header = header
            case RequestMessages() as change:
                derived = self._history.messages()
                tail = derived[len(derived) - change.keep_tail :]
                self._messages = (*derived[: change.keep_head], *change.messages, *tail)
            case AssistantChunk(chunk=chunk):
                if not self._is_answered:
                    self._take()
                self._is_answered = not isinstance(chunk, Finish)
                if isinstance(chunk, Finish):
                    self._messages = None

    def _take(self) -> None:
        header = self._header
        assert header is not None
        messages = self._history.messages() if self._messages is None else self._messages
        self.requests.append(
            (header.model, header.system, header.tools, dict(header.parameters), messages)
        )


def rebuilt(events: Any) -> list[tuple[Any, ...]]:
    reader = _Rebuilder()
    for event in events:
        reader.read(event)
    return reader.requests


def sent(s: Stage) -> list[tuple[Any, ...]]:
    return [(r.model, r.system, r.tools, dict(r.parameters), r.messages) for r in s.model.requests]


def assert_logged(s: Stage) -> None:
    """Every request equals what the log says, also when the log comes from a file."""
    assert rebuilt(s.agent.session.events) == sent(s)
    stored = [Event.from_json(event.to_json()) for event in s.agent.session.events]
    for (*header, messages), (*expected, shown) in zip(rebuilt(stored), sent(s), strict=True):
        assert header[0] == expected[0]
        assert header[1] == expected[1]
        assert [schema.name for schema in header[2]] == [schema.name for schema in expected[2]]
        assert messages == shown


async def test_a_plain_conversation_is_rebuilt() -> None:
    async with stage(calls(("nothing", "{}")), tools=(nothing,)) as s:
        await bounded(s.agent.run("one"))
        await bounded(s.agent.run("two"))

        assert len(s.model.requests) == 3
        assert_logged(s)
        assert s.logged(RequestMessages) == []


class Rewrites:
    """A plugin that changes a different part of each request."""

    def __init__(self) -> None:
        self.count = 0

    @hookimpl
    async def agent_request(self, request: Request) -> None:
        self.count += 1
        note = Message("user", (Text(f"note {self.count}"),))
        messages = request.messages
        match self.count % 5:
            case 0:
                request.messages = (note, *messages)
            case 1:
                request.messages = (*messages, note)
            case 2:
                request.messages = (*messages[:1], note, *messages[2:])
            case 3:
                request.messages = messages[1:]
                request.system = f"system {self.count}"
            case 4:
                request.tools = ()
                request.parameters = {"temperature": 0, "stop": ["a", "b"]}
                request.model = "m/other"


async def test_requests_that_plugins_rewrote_are_rebuilt() -> None:
    script = [calls(("nothing", "{}"))] * 11
    async with stage(*script, plugin=Rewrites(), tools=(nothing,), settings={"limits": False}) as s:
        await bounded(s.agent.run("one"))

        assert len(s.model.requests) == 12
        assert_logged(s)
        assert {m.changed_by for m in s.logged(RequestMessages)} == {"it"}
        assert len(s.logged(RequestMessages)[0].messages) == 1


async def test_what_is_injected_while_the_request_is_built_or_on_its_way_is_not_in_it() -> None:
    gate = Gate()

    class Injects:
        @hookimpl
        async def agent_request(
            self, agent: Agent, *, call_next: Callable[[], Awaitable[Request]]
        ) -> Request:
            agent.inject("while it is built")
            return await call_next()

        @hookimpl
        async def llm_stream(
            self, agent: Agent, *, call_next: Callable[[], Awaitable[AsyncIterator[Chunk]]]
        ) -> AsyncIterator[Chunk]:
            agent.inject("while it is sent")
            async for chunk in await call_next():
                agent.inject("while it is answered")
                yield chunk

    async with stage(paused(gate), "second", plugin=Injects()) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.inject("while the model thinks")
        gate.open()
        await bounded(s.agent.when_idle())
        assert lines(s.model.requests[0].messages) == ["user: go"]
        await bounded(s.agent.run("again"))

        assert_logged(s)
        second = "\n".join(lines(s.model.requests[1].messages))
        for text in ("is built", "is sent", "is answered", "thinks"):
            assert text in second


async def test_what_is_injected_while_only_the_model_thinks_is_not_in_its_request() -> None:
    gate = Gate()
    async with stage(paused(gate)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.inject("too late")
        gate.open()
        await bounded(s.agent.when_idle())

        assert lines(s.model.requests[0].messages) == ["user: go"]
        assert_logged(s)
        (difference,) = s.logged(RequestMessages)
        assert (difference.keep_head, difference.messages, difference.keep_tail) == (1, (), 0)


async def test_each_attempt_is_rebuilt() -> None:
    class Changes:
        count = 0

        @hookimpl
        async def agent_request(self, request: Request) -> None:
            self.count += 1
            if self.count == 1:
                request.messages = (*request.messages, Message("user", (Text("first only"),)))

        @hookimpl
        async def agent_request_error(self, agent: Agent, attempt: int) -> Retry:
            agent.inject(f"attempt {attempt} failed")
            return Retry()

    failures = [LlmFailure("X", "x")] * 2
    async with stage(*failures, "ok", plugin=Changes()) as s:
        await bounded(s.agent.run("go"))

        assert [len(request.messages) for request in s.model.requests] == [2, 2, 3]
        assert_logged(s)


async def test_a_compacted_history_is_rebuilt() -> None:
    class Compacts:
        @hookimpl
        async def agent_turn_start(self, agent: Agent, turn: int) -> None:
            if turn == 3:
                seqs = [seq for seq, _ in agent.session.message_sources()]
                summary = UserMessage((Text("summary"),), replaces=(seqs[0], seqs[2]))
                agent.session.append(summary)

    async with stage(plugin=Compacts()) as s:
        for text in ("one", "two", "three"):
            await bounded(s.agent.run(text))

        assert lines(s.model.requests[2].messages) == [
            "user: summary",
            "assistant: done",
            "user: three",
        ]
        assert_logged(s)


# ------------------------------------------------------------------------------------- the header


async def test_the_header_is_logged_once_while_nothing_changes() -> None:
    class Same:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            request.parameters = {"stop": ["a"], "deep": {"list": [1, {"x": []}]}}

    script = [calls(("nothing", "{}"))] * 3
    async with stage(*script, plugin=Same(), tools=(nothing,)) as s:
        await bounded(s.agent.run("go"))
        await bounded(s.agent.run("again"))

        (header,) = s.logged(RequestHeader)
        assert (header.model, header.changed_by) == ("m/model", {"parameters": "it"})
        assert [schema.name for schema in header.tools] == ["nothing"]
        assert header.prefix_break == ()


@pytest.mark.parametrize(
    ("change", "logged"),
    [
        ({"parameters": {"temperature": 1}}, ()),
        ({"model": "m/other"}, ()),
        ({"system": "new"}, ("system",)),
        ({"tools": ()}, ("tools",)),
        ({"tools": (), "system": "new"}, ("tools", "system")),
        ({"tools": (), "model": "m/other"}, ()),
    ],
)
async def test_a_change_is_logged_with_who_made_it_and_what_it_breaks(
    change: dict[str, Any], logged: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    class Changes:
        @hookimpl
        async def agent_request(self, turn: int, request: Request) -> None:
            if turn == 2:
                for name, value in change.items():
                    setattr(request, name, value)

    async with stage(plugin=Changes(), tools=(nothing,)) as s:
        for text in "abc":
            await bounded(s.agent.run(text))

        first, second, third = s.logged(RequestHeader)
        assert first.changed_by is None
        assert second.changed_by == dict.fromkeys(change, "it")
        assert second.prefix_break == logged
        assert (third.model, third.system, third.tools) == (first.model, first.system, first.tools)
        assert third.changed_by == second.changed_by, "it left alone what it had changed"
        for name in logged:
            assert caplog.text.count(f"the prompt cache is lost: {name} changed (it)") == 2


async def test_parameters_that_a_plugin_changes_in_place_are_a_change() -> None:
    kept = {"deep": {"count": 0}}

    class Keeps:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            kept["deep"]["count"] += 1
            request.parameters = kept

    async with stage(plugin=Keeps()) as s:
        await bounded(s.agent.run("a"))
        await bounded(s.agent.run("b"))

        assert [h.parameters["deep"]["count"] for h in s.logged(RequestHeader)] == [1, 2]
        assert_logged(s)


async def test_a_section_that_changes_is_blamed_on_its_plugin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Clock:
        now = 0

        @hookimpl
        async def system_prompt_sections(self) -> list[Section]:
            self.now += 1
            return [Section("clock", f"It is {self.now}.")]

    class Steady:
        @hookimpl
        async def system_prompt_assemble(self, assembly: Assembly) -> None:
            assembly.sections = (*assembly.sections, Section("more", "Be brief."))

    async with stage(plugins={"clock": Clock(), "steady": Steady()}) as s:
        await bounded(s.agent.run("a"))
        await bounded(s.agent.run("b"))

        second = s.logged(RequestHeader)[1]
        assert second.changed_by == {"system": "clock"}
        assert second.prefix_break == ("system",)
        assert "the prompt cache is lost: system changed (clock)" in caplog.text


async def test_a_plugin_that_stops_editing_is_named_beside_one_that_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Once:
        left = 1

        @hookimpl
        async def system_prompt_assemble(self, assembly: Assembly) -> None:
            if self.left:
                self.left -= 1
                assembly.sections = (*assembly.sections, Section("more", "Be brief."))

    class Always:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            request.system += "\nBe kind."

    async with stage(plugins={"once": Once(), "always": Always()}) as s:
        for text in "abc":
            await bounded(s.agent.run(text))

        first, second = s.logged(RequestHeader)
        assert (first.changed_by, second.changed_by) == ({"system": "always"}, {"system": "once"})
        assert "the prompt cache is lost: system changed (once)" in caplog.text


async def test_a_plugin_that_stops_rewriting_messages_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Once:
        left = 1

        @hookimpl
        async def agent_request(self, request: Request) -> None:
            if self.left:
                self.left -= 1
                request.messages = (Message("user", (Text("first"),)), *request.messages)

    async with stage(plugin=Once()) as s:
        await bounded(s.agent.run("a"))
        await bounded(s.agent.run("b"))

    assert "the prompt cache is lost: messages changed (it)" in caplog.text


async def test_a_tool_that_comes_or_goes_is_blamed_on_its_owner() -> None:
    async with stage() as s:
        await bounded(s.agent.run("a"))
        dispose = s.harness.tools.register(nothing, owner="brings")
        await bounded(s.agent.run("b"))
        dispose()
        await bounded(s.agent.run("c"))

        assert [h.changed_by for h in s.logged(RequestHeader)] == [
            None,
            {"tools": "brings"},
            {"tools": "brings"},
        ]


# ----------------------------------------------------------------------------------- the messages


async def test_a_past_that_a_plugin_changes_is_a_lost_cache(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Dates:
        count = 0

        @hookimpl
        async def agent_request(self, request: Request) -> None:
            self.count += 1
            request.messages = (Message("user", (Text(f"{self.count}"),)), *request.messages)

    async with stage(plugin=Dates()) as s:
        await bounded(s.agent.run("a"))
        assert "cache" not in caplog.text
        await bounded(s.agent.run("b"))

    assert "the prompt cache is lost: messages changed (it)" in caplog.text


@pytest.mark.parametrize("how", ["appends", "redacts", "rebuilds"])
async def test_a_plugin_that_keeps_the_past_as_it_was_loses_nothing(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Edits:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            messages = request.messages
            if how == "appends":
                request.messages = (*messages, Message("user", (Text(f"{len(messages)} so far"),)))
            elif how == "redacts":
                request.messages = tuple(
                    Message(m.role, (Text(m.text.replace("secret", "…")),)) for m in messages
                )
            else:
                request.messages = list(messages)

    async with stage(plugin=Edits()) as s:
        for text in ("a secret", "b", "c"):
            await bounded(s.agent.run(text))

        assert "cache" not in caplog.text
        assert_logged(s)
        if how == "rebuilds":
            assert s.logged(RequestMessages) == []


# ---------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    "change",
    [
        {"messages": ("text",)},
        {"messages": None},
        {"messages": (Message("user", ("text",)),)},
        {"messages": (Message("user", (Text("\ud800"),)),)},
        {"tools": ("nothing",)},
        {"parameters": {"temperature": float("nan")}},
        {"parameters": None},
        {"system": None},
    ],
    ids=str,
)
async def test_a_request_that_cannot_be_logged_is_not_sent(change: dict[str, Any]) -> None:
    class Breaks:
        left = 1

        @hookimpl
        async def agent_request(self, request: Request) -> None:
            if self.left:
                self.left -= 1
                for name, value in change.items():
                    setattr(request, name, value)

    async with stage(plugin=Breaks()) as s:
        result = await bounded(s.agent.run("go"))

        assert isinstance(result.reason, Errored)
        assert s.model.requests == []
        assert (await bounded(s.agent.run("again"))).is_success


async def test_text_with_half_a_character_is_shown_with_a_whole_one() -> None:
    """A working directory may hold bytes that are no UTF-8; `os.fsdecode` gives surrogates."""
    async with stage() as s:
        definition = AgentDefinition(model="m/x", system_prompt="half \ud800")
        agent = s.harness.agents.create(definition, cwd="/tmp/\udcff")
        s.agents.append(agent)
        assert (await bounded(agent.run("go"))).is_success

        assert "half \ufffd" in s.model.requests[0].system
        assert "/tmp/\ufffd" in s.model.requests[0].system


async def test_the_request_a_model_gets_cannot_be_changed_any_more() -> None:
    kept: list[Request] = []

    class Keeps:
        @hookimpl
        async def agent_request(self, request: Request) -> None:
            kept.append(request)

    async with stage(plugin=Keeps()) as s:
        await bounded(s.agent.run("go"))

        with pytest.raises(AttributeError, match="frozen"):
            kept[0].messages = ()
        kept[0].freeze()
        with pytest.raises(TypeError):
            s.model.requests[0].parameters["temperature"] = 1


async def test_a_step_takes_as_many_calls_in_a_long_history_as_in_a_short_one() -> None:
    async def calls_of_a_turn(history: int) -> int:
        count = 0

        def counting(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call") and "dsh_core" in frame.f_code.co_filename

        reply = calls(("nothing", "{}"))
        async with stage(reply, "ok", reply, reply, "ok", tools=(nothing,)) as s:
            for number in range(history):
                s.agent.inject(f"{number}")
            await s.agent.run("warm up")
            sys.setprofile(counting)
            try:
                await s.agent.run("go")
            finally:
                sys.setprofile(None)
        return count

    await calls_of_a_turn(1)
    short, long = await calls_of_a_turn(1), await calls_of_a_turn(2_000)

    assert abs(long - short) < 100


async def test_an_aborted_request_leaves_no_difference_behind() -> None:
    gate = Gate()

    async def silent(request: Request) -> AsyncIterator[Chunk]:
        await gate.wait()
        yield TextDelta(0, "never")

    async with stage(silent) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.inject("context")
        s.agent.abort()
        await bounded(s.agent.when_idle())
        assert s.logged(TurnEnd)[0].reason.type == "aborted"
        await bounded(s.agent.run("again"))
        await asyncio.sleep(0)

        assert rebuilt(s.agent.session.events) == sent(s)[1:]
