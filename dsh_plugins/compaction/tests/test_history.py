"""Whatever the log: a compacted history is balanced, and every reader derives the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from compaction_stage import (
    WINDOW,
    bounded,
    fetches,
    is_summary_request,
    staged,
    summarising,
    texts,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsh_compaction import compact, pin
from dsh_compaction.choice import choose
from dsh_compaction.events import CompactionEnd
from dsh_compaction.pruning import prunable
from dsh_compaction.settings import Settings
from dsh_compaction.view import SUMMARY, build, request_seqs
from dsh_core import Event, Layer, Message, Session, SessionHeader, Text, ToolCall, ToolResult
from dsh_core.events import (
    AssistantMessage,
    Completed,
    ContextMessage,
    MessageTrigger,
    SteeringMessage,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UserMessage,
)
from dsh_core.testing import assert_balanced
from dsh_core.testing.behaviours import reply
from dsh_core.testing.hooks import HookLab

LIMITS = Settings(prune_over_characters=600, prune_head_characters=60, prune_tail_characters=20)

words = st.integers(0, 900).map(lambda count: "w" * count + "!")
steps = st.lists(
    st.tuples(
        st.lists(words, max_size=3),  # results of parallel calls
        st.sampled_from(["", "inject", "steer", "inject in the middle", "lose a result"]),
    ),
    min_size=1,
    max_size=4,
)
turns = st.lists(st.tuples(words, steps), min_size=1, max_size=4)


def new_session(seed: Any = ()) -> Session:
    return Session(SessionHeader("s", 0.0), HookLab().hooks, seed=seed)


def stored(session: Session) -> list[Event]:
    """The log as a store gives it back."""
    return [Event.from_json(json.loads(json.dumps(e.to_json()))) for e in session.events]


class Writer:
    """Writes a log as the loop would."""

    def __init__(self) -> None:
        self.session = new_session()
        self._calls = 0

    def turn(self, text: str, its_steps: Any) -> None:
        append, number = self.session.append, self.session.last_turn + 1
        append(TurnStart(number, MessageTrigger()))
        append(UserMessage((Text(text),)))
        for step, (results, extra) in enumerate(its_steps, start=1):
            append(StepStart(number, step))
            self._step(number, step, results, extra)
            append(StepEnd(number, step))
        append(TurnEnd(number, Completed()))

    def _step(self, turn: int, step: int, results: list[str], extra: str) -> None:
        append = self.session.append
        if extra == "inject":
            append(ContextMessage((Text("a fact"),)))
        ids = [f"c{self._calls + index}" for index in range(len(results))]
        self._calls += len(ids)
        calls = [ToolCall(call_id, "fetch", "{}") for call_id in ids]
        append(AssistantMessage(turn, step, (Text("so"), *calls)))
        for index, (call_id, result) in enumerate(zip(ids, results, strict=True)):
            append(ToolCallEvent(turn, step, call_id, "fetch", "{}"))
            if extra == "inject in the middle" and index == 0:
                append(ContextMessage((Text("between"),)))
            if not (extra == "lose a result" and index == len(ids) - 1):
                append(ToolResultEvent(turn, step, call_id, (Text(result),)))
        if extra == "steer":
            append(SteeringMessage(turn, (Text("rather"),)))


def cost(message: Message) -> int:
    return 4 + len(json.dumps([str(block) for block in message.content])) // 4


def view_of(session: Session, pins: frozenset[int] = frozenset()) -> Any:
    sources = session.message_sources()
    pinned = pins.union(request_seqs(sources, session.events))
    costs = [cost(message) for _, message in sources]
    return build(sources, costs, pinned, fixed=10, scale=1.0, generation=session.generation)


def assert_complete(messages: tuple[Message, ...]) -> None:
    """Each call has its one result directly after it, in order; no result is without a call."""
    waiting: list[str] = []
    for message in messages:
        results = [b.call_id for b in message.content if isinstance(b, ToolResult)]
        if results:
            assert results == waiting[:1]
            waiting = waiting[1:]
            continue
        assert waiting == []
        waiting = [b.id for b in message.content if isinstance(b, ToolCall)]
    assert waiting == []


def compacted(session: Session, keep: float, pins: frozenset[int]) -> bool:
    """Do what a compaction does, without a model."""
    turn = session.last_turn + 1
    session.append(TurnStart(turn, MessageTrigger()))
    view = view_of(session, pins)
    for pruned in prunable(view, session.events, LIMITS, len(view.units) // 2):
        session.append(pruned.event)
    view = view_of(session, pins)
    choice = choose(view, keep=keep)
    for start, stop in reversed(choice.segments if choice else ()):
        seqs = view.sources[start][0], view.sources[stop - 1][0]
        session.append(ContextMessage((Text("Summary."),), SUMMARY, replaces=seqs))
    session.append(TurnEnd(turn, Completed()))
    return choice is not None


@given(turns, st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_log_stays_balanced_and_derivable_through_any_compactions(log, data):
    writer = Writer()
    pins: frozenset[int] = frozenset()
    for text, its_steps in log:
        writer.turn(text, its_steps)
        known = [seq for seq, _ in writer.session.message_sources()]
        pins |= frozenset(data.draw(st.lists(st.sampled_from(known), max_size=2)))
        kept = {
            seq: message
            for seq, message in writer.session.message_sources()
            if seq in pins and not isinstance(writer.session.events[seq].data, ToolResultEvent)
        }
        first = writer.session.messages()[0]
        compacted(writer.session, data.draw(st.integers(0, 800)), pins)
        messages = writer.session.messages()

        assert_complete(messages)
        if not any(extra == "lose a result" for _, some in log for _, extra in some):
            assert_balanced(writer.session.events)
        assert messages[0] == first
        assert kept.items() <= dict(writer.session.message_sources()).items()
        assert new_session(writer.session.events).messages() == messages
        stored = [
            Event.from_json(json.loads(json.dumps(e.to_json()))) for e in writer.session.events
        ]
        assert new_session(stored).messages() == messages


@given(turns, st.integers(0, 2000))
@settings(max_examples=60, deadline=None)
def test_a_choice_leaves_what_was_to_be_kept_and_is_never_empty(log, keep):
    writer = Writer()
    for text, its_steps in log:
        writer.turn(text, its_steps)
    view = view_of(writer.session)
    choice = choose(view, keep=keep, largest=2000)
    if choice is None:
        return
    assert choice.segments[0][0] >= 1
    assert all(start < stop for start, stop in choice.segments)
    assert choice.stop == choice.segments[-1][1]
    edges = {unit.start for unit in view.units} | {unit.stop for unit in view.units}
    assert {edge for segment in choice.segments for edge in segment} <= edges
    smaller = choose(view, keep=keep, largest=2000, room=view.tokens / 2)
    assert smaller is None or smaller.stop <= choice.stop


# ------------------------------------------------------------------------- resuming, forking


@pytest.mark.parametrize("how", ["resume", "fork", "json"])
async def test_a_resumed_or_forked_session_sends_what_the_first_one_would(how):
    work = [fetches(1500 + i) for i in range(12)]
    async with staged(summarising(*work)) as s:
        await s.run("TASK")
        await bounded(compact(s.agent))
        first = s.agent.session
        if how == "fork":
            fork = await s.harness.sessions.fork(first.id)
            seed = fork.events
            s.harness.sessions.forget(fork)
        elif how == "json":
            seed = stored(first)
        else:
            seed = first.events
        again = s.create(seed=seed)
        assert again.session.messages() == first.messages()
        measured = [
            await s.harness.llm.measure(agent, agent.session.messages())
            for agent in (s.agent, again)
        ]
        assert measured[0] == pytest.approx(measured[1], rel=0.2)
        await s.run("go on", s.agent)
        await s.run("go on", again)
        one, other = (request.body for request in s.server.requests[-2:])
        assert one == other


async def test_a_session_resumed_above_the_threshold_is_compacted_before_its_first_request():
    work = [*[fetches(1500 + i) for i in range(7)], reply("Done.")]
    by_hand = {"compaction": (Layer("test", {"automatic": False}),)}
    async with staged(summarising(*work)) as s:
        first = s.create(name="by hand", plugins=by_hand)
        await s.run("TASK", first)
        assert s.server.requests[-1].tokens > 0.75 * WINDOW
        again = s.create(seed=first.session.events)
        requests = len(s.server.requests)
        await s.run("go on " + "words " * 120, again)
        assert is_summary_request(s.server.requests[requests])
        assert s.logged(CompactionEnd, again)[0].outcome == "compacted"


async def test_an_older_fork_has_the_originals():
    async with staged(summarising(reply("One."), *[fetches(900)], reply("Two."))) as s:
        await s.run("first")
        await s.run("second " + "words " * 100)
        await s.run("third")
        await bounded(compact(s.agent))
        fork = await s.harness.sessions.fork(s.agent.session.id, at_turn=2)
        assert texts(fork.messages())[1] == "One."
        assert len(texts(s.agent.session.messages())) < len(texts(fork.messages())) + 2
        assert replace(fork.header).parent == s.agent.session.id


async def test_a_crash_at_any_moment_leaves_a_history_that_can_be_sent():
    work = [fetches(900, 901), fetches(902), reply("One."), fetches(903, 904), reply("Two.")]
    async with staged(summarising(*work)) as s:
        await s.run("first")
        await s.run("second")
        await s.run("third")
        pin(s.agent, next(q for q, m in s.agent.session.message_sources() if m.text == "second"))
        await bounded(compact(s.agent))
        events = list(s.agent.session.events)
        assert sum(getattr(event.data, "replaces", None) is not None for event in events) == 2
        for length in range(1, len(events) + 1):
            session = new_session(events[:length])
            assert_complete(session.messages())
            assert_balanced(session.events)
