import asyncio

import pytest
from scripted_stage import asking, played, said

from dsh_core.adapters.scripted import ScriptedModel, open_scripted
from dsh_core.adapters.scripted_reply import ScriptedReply
from dsh_core.chunks import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageChunk,
)
from dsh_core.content import Reasoning, Text, ToolCall, ToolResult
from dsh_core.errors import LlmFailure
from dsh_core.llm.adapter import ProviderConfig
from dsh_core.messages import Message
from dsh_core.request import Request, ToolSchema


def opened(**options):
    return open_scripted(ProviderConfig("demo", "scripted", options=options))


async def failure_of(model, request=None):
    with pytest.raises(LlmFailure) as failure:
        await played(model, request)
    return failure.value


# ---------------------------------------------------------------------------------- stream


async def test_a_reply_streams_reasoning_text_and_calls_then_usage_then_finish():
    reply = {
        "reasoning": "Let me see.",
        "text": "I will look.",
        "calls": [{"name": "bash", "arguments": {"command": "cat a-long-file-name.txt"}}],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    arguments = '{"command": "cat a-long-file-name.txt"}'

    assert await played(ScriptedModel([reply])) == [
        BlockStart(0, "reasoning"),
        *(ReasoningDelta(0, word) for word in ("Let ", "me ", "see.")),
        BlockEnd(0, Reasoning("Let me see.")),
        BlockStart(1, "text"),
        *(TextDelta(1, word) for word in ("I ", "will ", "look.")),
        BlockEnd(1, Text("I will look.")),
        BlockStart(2, "tool-call"),
        ToolCallDelta(2, "call_1_1", "bash"),
        ToolCallDelta(2, arguments=arguments[:24]),
        ToolCallDelta(2, arguments=arguments[24:]),
        BlockEnd(2, ToolCall("call_1_1", "bash", arguments)),
        UsageChunk(Usage(7, 3)),
        Finish("tool-calls"),
    ]


@pytest.mark.parametrize("text", ["one two", "  lead\n\ntrail \n", "\n", "日本語 テキスト", ""])
async def test_words_joined_are_the_text_again(text):
    chunks = await played(ScriptedModel([text]))

    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == text
    assert chunks[-1] == Finish("stop")


async def test_arguments_given_as_text_are_sent_as_they_are():
    model = ScriptedModel([{"calls": [{"name": "bash", "arguments": '{"comm'}]}])

    chunks = await played(model)

    assert BlockEnd(0, ToolCall("call_1_1", "bash", '{"comm')) in chunks


async def test_usage_is_estimated_and_the_same_every_time():
    first = await played(ScriptedModel(["four words of text"]), asking(tools=["bash"]))
    again = await played(ScriptedModel(["four words of text"]), asking(tools=["bash"]))

    assert first == again
    assert first[-2].usage.output_tokens == 5
    assert first[-2].usage.input_tokens > 10


async def test_a_cut_reply_says_so():
    assert (await played(ScriptedModel([{"text": "cu", "finish": "max-tokens"}])))[-1] == Finish(
        "max-tokens"
    )


async def test_call_ids_do_not_repeat_what_the_history_holds():
    model = ScriptedModel([{"calls": [{"name": "a"}, {"name": "b"}, {"name": "c", "id": "mine"}]}])
    before = Message("assistant", (ToolCall("call_1_1", "a", "{}"),))

    chunks = await played(model, asking(history=[before]))

    ids = [chunk.block.id for chunk in chunks if isinstance(chunk, BlockEnd)]
    assert ids == ["call_1_2", "call_1_3", "mine"]


async def test_a_scripted_failure_comes_after_what_was_said():
    model = ScriptedModel(
        [{"text": "half", "fail": {"code": "RATE_LIMIT", "status": 429, "retry_after_seconds": 2}}]
    )
    stream = model.stream(asking())
    said = [await anext(stream) for _ in range(3)]

    with pytest.raises(LlmFailure) as failure:
        await anext(stream)

    assert said == [BlockStart(0, "text"), TextDelta(0, "half"), BlockEnd(0, Text("half"))]
    assert failure.value == LlmFailure(
        "RATE_LIMIT", "the script says so", status=429, retry_after_seconds=2
    )


async def test_the_delay_lies_between_chunks(monkeypatch):
    pauses = []

    async def note(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    chunks = await played(ScriptedModel(["a b"], delay_seconds=0.5))

    assert pauses == [0.5] * len(chunks)


# ---------------------------------------------------------------------------------- cursor


async def test_every_session_reads_the_whole_script():
    model = ScriptedModel(["one", "two"])

    assert await said(model, asking(session_id="a")) == "one"
    assert await said(model, asking(session_id="b")) == "one"
    assert await said(model, asking(session_id="a")) == "two"
    assert await said(model, asking(session_id=None)) == "one"
    assert len(model.requests) == 4


async def test_a_closed_stream_has_used_up_its_reply():
    model = ScriptedModel(["one two three", "next"])
    stream = model.stream(asking())
    await anext(stream)
    await stream.aclose()

    assert await said(model) == "next"


async def test_an_exhausted_script_says_what_was_asked_last():
    model = ScriptedModel(["only"], source="replies.yaml")
    await played(model)

    failure = await failure_of(model, asking("and now? " + "x" * 1000))

    assert failure.code == "SCRIPT_EXHAUSTED"
    assert failure.message.startswith(
        "replies.yaml: all 1 replies are used up; asked last: user: and now? xxx"
    )
    assert len(failure.message) < 500


async def test_a_looping_script_starts_over_with_new_call_ids():
    model = ScriptedModel([{"calls": [{"name": "a"}]}, "done"], loop=True)

    ids = [
        chunk.block.id
        for _ in range(4)
        for chunk in await played(model)
        if isinstance(chunk, BlockEnd) and isinstance(chunk.block, ToolCall)
    ]

    assert ids == ["call_1_1", "call_3_1"]


async def test_an_empty_script_is_exhausted_even_when_it_loops():
    assert (await failure_of(ScriptedModel([], loop=True))).code == "SCRIPT_EXHAUSTED"


# ----------------------------------------------------------------------------- expectation


async def test_a_reply_is_given_when_its_expectations_hold():
    result = Message("user", (ToolResult("c", (Text("a.txt b.txt"),)),))
    expect = {
        "last_contains": ["a.txt", "b.txt"],
        "last_not_contains": "c.txt",
        "contains": ["list", "ls -l"],
        "not_contains": "rm",
        "system_contains": "careful",
        "tools_include": ["bash"],
        "tools_exclude": "web",
        "messages_at_least": 3,
        "messages_at_most": 3,
    }
    history = (
        Message("user", (Text("list"),)),
        Message("assistant", (ToolCall("c", "bash", "ls -l"),)),
        result,
    )
    request = Request("m/x", history, system="Be careful.", tools=(ToolSchema("bash", "", {}),))

    assert await said(ScriptedModel([{"text": "ok", "expect": expect}]), request) == "ok"


@pytest.mark.parametrize(
    ("expect", "line"),
    [
        ({"last_contains": "bye"}, "last_contains: expected 'bye', found: user: hello"),
        ({"last_contains": "user"}, "last_contains: expected 'user', found: user: hello"),
        (
            {"last_not_contains": ["x", "hell"]},
            "last_not_contains: did not expect 'hell', found: hello",
        ),
        ({"contains": "bye"}, "contains: expected 'bye', found: Be brief.\nhello"),
        ({"not_contains": "brief"}, "did not expect 'brief', found: Be brief.\nhello"),
        ({"system_contains": "long"}, "system_contains: expected 'long', found: Be brief."),
        ({"tools_include": "web"}, "tools_include: expected 'web', found: bash, read"),
        ({"tools_include": "ba"}, "tools_include: expected 'ba', found: bash, read"),
        ({"tools_exclude": "bash"}, "did not expect 'bash', found: bash, read"),
        ({"messages_at_least": 2}, "messages_at_least: expected 2, found 1"),
        ({"messages_at_most": 0}, "messages_at_most: expected 0, found 1"),
    ],
)
async def test_an_expectation_that_does_not_hold_shows_what_was_found(expect, line):
    model = ScriptedModel(["first", {"text": "no", "expect": expect}], source="demo.yaml")
    await played(model)

    request = asking("hello", tools=["bash", "read"], system="Be brief.")
    failure = await failure_of(model, request)

    assert failure.code == "SCRIPT_EXPECTATION"
    assert failure.message.startswith("demo.yaml, reply 2:\n")
    assert failure.message.endswith(line)


async def test_what_was_found_is_shown_in_bounds_and_around_the_match():
    long = "a" * 5000 + "needle" + "b" * 5000
    expect = {"contains": "thread", "not_contains": "needle"}

    failure = await failure_of(ScriptedModel([{"expect": expect}]), asking(long))

    assert "needle" in failure.message.split("not_contains")[1].split("found")[1]
    assert len(failure.message) < 1000


# -------------------------------------------------------------------------------- functions


async def one_by_one(request):
    yield TextDelta(0, request.model)
    yield Finish("stop")


async def later(request):
    return {"text": f"{len(request.messages)} later"}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda request: "plain", "plain"),
        (lambda request: {"text": "mapping"}, "mapping"),
        (lambda request: ScriptedReply(text="reply"), "reply"),
        (lambda request: [TextDelta(0, "list"), Finish("stop")], "list"),
        (later, "1 later"),
        (one_by_one, "demo/any"),
    ],
)
async def test_a_function_may_answer_with_a_reply_or_with_chunks(function, text):
    assert await said(ScriptedModel([function])) == text


async def test_chunks_of_a_function_are_closed_with_the_stream():
    closed = []

    async def endless(request):
        try:
            while True:
                yield TextDelta(0, "x")
        finally:
            closed.append(True)

    stream = ScriptedModel([endless]).stream(asking())
    await anext(stream)
    await stream.aclose()

    assert closed == [True]


async def test_a_function_that_answers_nothing_is_named():
    failure = await failure_of(ScriptedModel([lambda request: None]))

    assert failure.code == "SCRIPT_FUNCTION"
    assert "reply 1: the function returned NoneType" in failure.message
