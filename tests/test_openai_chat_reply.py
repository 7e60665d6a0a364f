import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.adapters.openai_chat.failures import Failures
from dsh_core.adapters.openai_chat.reply import Reply, read_usage
from dsh_core.chunks import (
    BlockAssembler,
    BlockStart,
    Chunk,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_core.content import Block, Reasoning, Text, ToolCall
from dsh_core.errors import LlmFailure

DONE = b"[DONE]"


def event(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def delta(finish: str | None = None, **fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish}])


def call(index: int | None, call_id: str | None, name: str | None, arguments: Any) -> bytes:
    fragment: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    if index is not None:
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    return delta(tool_calls=[fragment])


def fold(*payloads: bytes, request_id: str | None = None) -> list[Chunk]:
    reply = Reply(Failures("https://api.test/v1/chat/completions"), request_id)
    chunks: list[Chunk] = []
    for payload in payloads:
        ended = reply.take(payload)
        chunks += reply.out
        reply.out.clear()
        if ended:
            break
    return chunks + reply.finish()


def blocks(*payloads: bytes) -> tuple[Block, ...]:
    return assembled(fold(*payloads)).blocks()


def assembled(chunks: list[Chunk]) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.feed(chunk)
    return assembler


def finish(*payloads: bytes) -> Finish:
    last = fold(*payloads)[-1]
    assert isinstance(last, Finish)
    return last


def failure(*payloads: bytes) -> LlmFailure:
    """The failure raised, or the one that the answer finishes with."""
    try:
        end = finish(*payloads)
    except LlmFailure as raised:
        return raised
    assert end.reason == "error"
    assert end.failure is not None
    return end.failure


STOP = delta("stop")


def test_text_comes_as_deltas_of_one_block_then_usage_then_finish() -> None:
    chunks = fold(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(content="lo"),
        STOP,
        event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2}),
        DONE,
        request_id="req-1",
    )
    assert chunks == [
        BlockStart(0, "text"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        UsageChunk(Usage(3, 2)),
        Finish("stop", request_id="req-1"),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_a_block_of_its_own(field: str) -> None:
    chunks = fold(
        delta(**{field: "", "content": None}),
        delta(**{field: "so", "content": None}),
        delta(content="yes", **{field: None}),
        STOP,
        DONE,
    )
    assert chunks == [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "so"),
        BlockStart(1, "text"),
        TextDelta(1, "yes"),
        Finish("stop"),
    ]


def test_an_empty_first_reasoning_opens_no_block() -> None:
    assert blocks(delta(reasoning_content="", content="hi"), STOP, DONE) == (Text("hi"),)


def test_the_same_reasoning_under_two_names_counts_once() -> None:
    both = delta(reasoning_content="so", reasoning="so")
    assert blocks(both, STOP, DONE) == (Reasoning("so"),)


def test_reasoning_alone_is_an_answer() -> None:
    assert finish(delta(reasoning_content="so"), STOP, DONE).reason == "stop"


def test_chunks_without_choices_and_nulls_are_tolerated() -> None:
    assert blocks(
        event(id="x", object="chat.completion.chunk"),
        event(choices=None, usage=None),
        event(choices=[{"index": 0, "delta": None, "finish_reason": None}], error=None),
        event(choices=[{"index": 0}]),
        delta(role="assistant", content=None, tool_calls=None, reasoning_content=None),
        delta(role="assistant", content="OK"),
        delta("stop", content=None),
        event(choices=[], usage={"prompt_tokens": 1}),
        DONE,
    ) == (Text("OK"),)


def test_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "other"}, {"type": "text", "text": "b"}]
    assert blocks(delta(content=parts), STOP, DONE) == (Text("ab"),)


def test_a_refusal_is_text() -> None:
    assert blocks(delta(content=None, refusal="No."), STOP, DONE) == (Text("No."),)


def test_interleaved_calls_are_told_apart_by_index() -> None:
    assert blocks(
        call(0, "a", "bash", ""),
        call(1, "b", "bash", ""),
        call(0, None, None, '{"command": "echo A'),
        call(1, None, None, '{"command": "echo B'),
        call(0, None, None, 'AA"}'),
        call(1, None, None, 'BB"}'),
        delta("tool_calls"),
        DONE,
    ) == (
        ToolCall("a", "bash", '{"command": "echo AAA"}'),
        ToolCall("b", "bash", '{"command": "echo BBB"}'),
    )


def test_without_an_index_a_new_id_opens_a_call_and_no_id_continues_the_last() -> None:
    assert blocks(
        call(None, "a", "bash", '{"command": "A"}'),
        call(None, "b", "bash", '{"command": '),
        call(None, None, None, '"B"}'),
        call(None, "a", None, " "),
        delta("tool_calls"),
        DONE,
    ) == (
        ToolCall("a", "bash", '{"command": "A"} '),
        ToolCall("b", "bash", '{"command": "B"}'),
    )


def test_whole_calls_without_index_and_id_stay_apart() -> None:
    found = blocks(
        call(None, None, "read", '{"path": "a"}'),
        call(None, None, "read", '{"path": "b"}'),
        delta("stop"),
        DONE,
    )
    assert found == (
        ToolCall("call-0", "read", '{"path": "a"}'),
        ToolCall("call-1", "read", '{"path": "b"}'),
    )


def test_calls_that_all_have_index_0_stay_apart() -> None:
    assert blocks(
        call(0, "a", "read", '{"path": "a"}'),
        call(0, "b", "read", '{"path":'),
        call(0, None, None, ' "b"}'),
        delta("tool_calls"),
        DONE,
    ) == (ToolCall("a", "read", '{"path": "a"}'), ToolCall("b", "read", '{"path": "b"}'))


def test_an_id_that_changes_within_a_call_does_not_split_it() -> None:
    assert blocks(
        call(0, "a1", "read", ""),
        call(0, "a2", None, '{"path":'),
        call(0, "a3", "read", ' "a"}'),
        delta("tool_calls"),
        DONE,
    ) == (ToolCall("a1", "read", '{"path": "a"}'),)


def test_a_repeated_name_does_not_grow_and_null_arguments_are_nothing() -> None:
    chunks = fold(
        delta(role="assistant", content=None),
        call(0, "a", "bash", None),
        call(0, "a", "bash", '{"command": "echo AAA"}'),
        call(0, "a", "bash", None),
        call(0, "a", "bash", ""),
        delta("tool_calls"),
        DONE,
    )
    assert chunks == [
        BlockStart(0, "tool-call"),
        ToolCallDelta(0, "a", "bash", ""),
        ToolCallDelta(0, None, None, '{"command": "echo AAA"}'),
        Finish("tool-calls"),
    ]


def test_arguments_that_come_as_an_object_become_text() -> None:
    assert blocks(call(0, "a", "read", {"path": "ü"}), delta("stop"), DONE) == (
        ToolCall("a", "read", '{"path": "ü"}'),
    )


def test_an_empty_fragment_opens_no_call() -> None:
    assert blocks(delta(tool_calls=[{"index": 0}], content="x"), STOP, DONE) == (Text("x"),)


def test_text_before_and_after_calls_is_one_text() -> None:
    assert blocks(delta(content="a"), call(0, "i", "f", "{}"), delta(content="b"), STOP, DONE) == (
        Text("ab"),
        ToolCall("i", "f", "{}"),
    )


def test_what_was_streamed_decides_between_stop_and_tool_calls() -> None:
    assert finish(call(0, "a", "bash", "{}"), delta("stop"), DONE).reason == "tool-calls"
    assert finish(delta(content="OK-dis"), delta("tool_calls"), DONE).reason == "stop"


def test_length_is_max_tokens_whatever_was_streamed() -> None:
    assert finish(call(0, "a", "write", '{"content": "li'), delta("length")).reason == "max-tokens"
    assert finish(delta("length"), DONE).reason == "max-tokens"


def test_a_finish_reason_in_capitals_is_understood() -> None:
    assert finish(delta("STOP", content="x")).reason == "stop"


def test_a_finish_reason_without_done_is_a_whole_answer() -> None:
    assert finish(delta(content="x"), STOP).reason == "stop"


def test_done_without_a_finish_reason_is_a_whole_answer() -> None:
    assert finish(delta(content="x"), DONE).reason == "stop"
    assert finish(delta(content="x"), b" [DONE] ").reason == "stop"


def test_nothing_after_done_is_read() -> None:
    assert blocks(delta(content="a"), DONE, delta(content="b")) == (Text("a"),)


def test_an_answer_that_ends_without_either_is_a_transport_failure() -> None:
    assert failure(delta(content="half")).code == "TRANSPORT"
    assert failure().code == "TRANSPORT"


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_nothing_at_all_is_an_empty_response(reason: str) -> None:
    found = failure(delta(role="assistant", content=""), delta(reason), DONE)
    assert found.code == "EMPTY_RESPONSE"
    assert "api.test" in found.message


def test_an_answer_that_fails_at_its_end_still_has_its_usage() -> None:
    usage = event(choices=[], usage={"prompt_tokens": 5})
    chunks = fold(delta("content_filter"), usage, DONE)
    assert chunks[0] == UsageChunk(Usage(5))
    assert isinstance(chunks[1], Finish)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("content_filter", "CONTENT_FILTER"),
        ("sensitive", "CONTENT_FILTER"),
        ("insufficient_system_resource", "SERVER"),
        ("error", "SERVER"),
        ("repetition-truncation", "REPETITION_TRUNCATION"),
        ("???", "UNKNOWN"),
    ],
)
def test_an_unhappy_finish_reason_is_a_failure(reason: str, code: str) -> None:
    assert failure(delta(content="part"), delta(reason), DONE).code == code


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        ({"message": "credit used up E402", "code": 402}, "QUOTA", 402),
        ({"message": "slow down", "code": "429"}, "RATE_LIMIT", 429),
        ({"message": "over", "code": 529}, "SERVER", 529),
        ({"message": "no", "code": 400, "type": "x"}, "INVALID_REQUEST", 400),
        ({"message": "no", "code": "insufficient_quota"}, "QUOTA", None),
        ({"message": "Rate limit reached", "code": None}, "RATE_LIMIT", None),
        ({"message": "no", "code": "context_length_exceeded"}, "CONTEXT_WINDOW_EXCEEDED", None),
        ({"message": "no", "type": "invalid_request_error"}, "INVALID_REQUEST", None),
        ({"message": "no", "type": "authentication_error"}, "AUTH", None),
        ({"message": "the engine died"}, "SERVER", None),
        ("the engine died", "SERVER", None),
    ],
)
def test_an_error_inside_the_stream_is_a_failure(error: Any, code: str, status: int | None) -> None:
    found = failure(delta(content="part"), event(error=error), DONE)
    assert (found.code, found.status) == (code, status)
    assert (error if isinstance(error, str) else error["message"]) in found.message


def test_what_came_before_an_error_in_the_stream_is_still_handed_on() -> None:
    reply = Reply(Failures("https://api.test/"))
    assert not reply.take(delta(content="part"))
    assert reply.take(event(error={"message": "x"}))
    assert reply.out == [BlockStart(0, "text"), TextDelta(0, "part")]


def test_an_error_object_without_an_error_key_is_understood() -> None:
    found = failure(event(object="error", message="too many requests", code=429))
    assert found.code == "RATE_LIMIT"
    assert "too many requests" in found.message


@pytest.mark.parametrize(
    "payload",
    [
        b"{broken",
        b'"text"',
        b"[1]",
        b"null",
        b'{"choices": 7}',
        b'{"choices": [null]}',
        b'{"choices": [{"delta": "x"}]}',
        b'{"choices": [{"delta": {"content": 7}}]}',
        b'{"choices": [{"delta": {"tool_calls": [null]}}]}',
        b'{"choices": [{"delta": {"tool_calls": 1}}]}',
        b'{"choices": [{"delta": {"tool_calls": [{"function": 1}]}}]}',
        b'{"a":' * 5000,
    ],
)
def test_an_event_of_another_shape_is_malformed_and_shown_in_part(payload: bytes) -> None:
    found = failure(payload)
    assert found.code == "MALFORMED_RESPONSE"
    assert payload[:8].decode() in found.message
    assert len(found.message) < 500


def test_empty_data_is_nothing() -> None:
    assert blocks(b"", b"  ", delta(content="x"), STOP) == (Text("x"),)


# --- surrogates


def test_a_pair_split_over_two_deltas_is_joined() -> None:
    chunks = fold(
        rb'{"choices":[{"delta":{"content":"OK-\ud83d"}}]}',
        rb'{"choices":[{"delta":{"content":"\ude00 ok"}}]}',
        STOP,
    )
    assert chunks[1:3] == [TextDelta(0, "OK-"), TextDelta(0, "😀 ok")]


def test_a_half_that_stays_alone_is_replaced() -> None:
    first = rb'{"choices":[{"delta":{"content":"x\ud82dy\ude00"}}]}'
    last = rb'{"choices":[{"delta":{"content":"z\ud83d"}}]}'
    assert blocks(first, last, STOP) == (Text("x\ufffdy\ufffdz\ufffd"),)
    assert blocks(last, delta(content="a"), STOP) == (Text("z\ufffda"),)


def test_a_half_in_a_tool_call_waits_for_the_next_fragment_of_that_call() -> None:
    found = blocks(
        rb'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f",'
        rb'"arguments":"{\"x\": \"\ud83d"}}]}}]}',
        call(1, "b", "f", "{}"),
        rb'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":'
        rb'{"arguments":"\ude00\"}"}}]}}]}',
        delta("tool_calls"),
    )
    assert found == (ToolCall("a", "f", '{"x": "😀"}'), ToolCall("b", "f", "{}"))


def test_a_half_at_the_end_of_arguments_is_replaced_there() -> None:
    fragment = (
        rb'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"\ud83d","function":'
        rb'{"name":"f","arguments":"\ud83d"}}]}}]}'
    )
    assert blocks(fragment, delta("tool_calls")) == (ToolCall("\ufffd", "f", "\ufffd"),)


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    payload = b'{"choices":[{"delta":{"content":"a\xff\xed\xa0\xbdb"}}]}'
    (text,) = blocks(payload, STOP)
    assert isinstance(text, Text)
    assert text.text.encode()
    assert (text.text[0], text.text[-1]) == ("a", "b")


@given(st.text(), st.lists(st.integers(0, 40), max_size=8))
def test_text_cut_anywhere_between_utf16_units_arrives_unchanged(
    text: str, cuts: list[int]
) -> None:
    units = text.encode("utf-16-le")
    edges = sorted({0, len(units), *(2 * cut for cut in cuts if 2 * cut < len(units))})
    parts = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(edges)]
    found = blocks(
        *[delta(content=part, reasoning_content=part) for part in parts],
        *[call(0, "i", "f", part) for part in parts],
        call(0, "i", "f", ""),
        STOP,
    )
    thought = (Reasoning(text), Text(text)) if text else ()
    assert found == (*thought, ToolCall("i", "f", text))


# --- usage


@pytest.mark.parametrize(
    ("wire", "usage"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 3}, Usage(10, 3)),
        (
            {
                "prompt_tokens": 100000,
                "completion_tokens": 1000,
                "prompt_cache_hit_tokens": 90000,
                "prompt_cache_miss_tokens": 10000,
            },
            Usage(10000, 1000, 90000),
        ),
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64}},
            Usage(36, 0, 64),
        ),
        ({"prompt_tokens": 100, "cached_tokens": 64}, Usage(36, 0, 64)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cache_write_tokens": 4}},
            Usage(5, 0, 0, 4),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 90}, Usage(0, 0, 10)),
        ({"prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 5}, Usage(5, 0, 90)),
        (
            {
                "prompt_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 8},
            },
            Usage(0, 0, 8, 2),
        ),
        (
            {"prompt_tokens": -5, "completion_tokens": "7", "prompt_tokens_details": [1]},
            Usage(),
        ),
        ({"prompt_tokens": None, "completion_tokens": 2.0}, Usage(0, 2)),
        ({"prompt_tokens": float("nan"), "completion_tokens": float("inf")}, Usage()),
    ],
)
def test_usage_is_read_into_disjoint_counts_that_are_never_negative(
    wire: dict[str, Any], usage: Usage
) -> None:
    assert read_usage(wire) == usage


def test_running_usage_is_not_added_up_but_replaced() -> None:
    def running(tokens: int, text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return event(choices=[choice], usage={"prompt_tokens": 10, "completion_tokens": tokens})

    chunks = fold(
        running(1, "a"),
        running(2, "b"),
        running(3, "", "stop"),
        event(choices=[], usage={"prompt_tokens": 10, "completion_tokens": 3}),
        event(choices=[], usage=None),
        DONE,
    )
    assert [chunk for chunk in chunks if isinstance(chunk, UsageChunk)] == [
        UsageChunk(Usage(10, 3))
    ]


def test_usage_inside_the_choice_is_found() -> None:
    choice = {"delta": {"content": "x"}, "finish_reason": "stop", "usage": {"prompt_tokens": 4}}
    assert UsageChunk(Usage(4)) in fold(event(choices=[choice]))


def test_usage_of_another_shape_is_ignored() -> None:
    assert fold(delta(content="x"), event(choices=[], usage=[1]), STOP)[-1] == Finish("stop")


# --- an answer in one object


def test_a_completion_in_one_object_gives_the_same_blocks() -> None:
    message = {
        "role": "assistant",
        "content": "text",
        "reasoning_content": "so",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "a", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    chunks = fold(
        event(
            choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            usage={"prompt_tokens": 1, "completion_tokens": 2},
        )
    )
    assert assembled(chunks).blocks() == (
        Reasoning("so"),
        Text("text"),
        ToolCall("a", "f", "{}"),
        ToolCall("a", "g", "{}"),
    )
    assert chunks[-2:] == [UsageChunk(Usage(1, 2)), Finish("tool-calls")]


def test_a_completion_without_content_is_empty() -> None:
    message = {"role": "assistant", "content": None, "refusal": None}
    found = failure(event(choices=[{"message": message, "finish_reason": "stop"}]))
    assert found.code == "EMPTY_RESPONSE"
