import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_core.adapters.openai_chat.wire import RequestEncoder
from dsh_core.codec import case
from dsh_core.content import Block, Image, Reasoning, Text, ToolCall, ToolResult
from dsh_core.errors import LlmFailure
from dsh_core.llm.adapter import ModelConfig
from dsh_core.messages import Message
from dsh_core.request import Request, ToolSchema
from dsh_core.testing.provider_rules import problems_of

PLAIN = ModelConfig()


def user(*blocks: Block | str) -> Message:
    return Message("user", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: Block | str) -> Message:
    return Message("assistant", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def result(call_id: str, *blocks: Block | str) -> Message:
    content = tuple(Text(b) if isinstance(b, str) else b for b in blocks)
    return Message("user", (ToolResult(call_id, content),))


def body(
    *messages: Message,
    model: ModelConfig = PLAIN,
    encoder: RequestEncoder | None = None,
    **fields: Any,
) -> dict[str, Any]:
    request = Request("deepseek/deepseek-chat", messages, **fields)
    sent: dict[str, Any] = json.loads((encoder or RequestEncoder()).encode(request, model))
    return sent


def wired(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = body(*messages, **fields)["messages"]
    return sent


# --- the head


def test_a_request_without_anything_is_still_valid() -> None:
    assert body() == {
        "model": "deepseek-chat",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [],
    }


def test_a_model_name_may_hold_slashes() -> None:
    request = Request("openrouter/deepseek/deepseek-chat")
    assert json.loads(RequestEncoder().encode(request, PLAIN))["model"] == "deepseek/deepseek-chat"


def test_usage_is_asked_for_only_with_a_stream_and_only_if_wanted() -> None:
    assert "stream_options" not in body(stream=False)
    assert body(stream=False)["stream"] is False
    assert "stream_options" not in body(encoder=RequestEncoder(include_usage=False))


def test_parameters_go_out_by_their_wire_names_and_none_is_left_out() -> None:
    sent = body(
        parameters={"temperature": 0, "tool_choice": {"type": "function"}, "stop": None, "n": True}
    )
    assert (sent["temperature"], sent["tool_choice"]) == (0, {"type": "function"})
    assert sent["n"] is True
    assert "stop" not in sent


def test_the_models_parameters_are_defaults_that_the_request_can_replace_or_remove() -> None:
    model = ModelConfig(parameters={"temperature": 1, "top_p": 0.5, "max_tokens": 9})
    sent = body(model=model, parameters={"temperature": 0, "top_p": None})
    assert (sent["temperature"], sent["max_tokens"]) == (0, 9)
    assert "top_p" not in sent


def test_parameters_that_are_equal_but_not_the_same_are_not_confused() -> None:
    encoder = RequestEncoder()
    first = body(encoder=encoder, parameters={"x": 1})
    second = body(encoder=encoder, parameters={"x": True})
    assert first["x"] is not second["x"]


def test_frozen_parameters_are_encoded_as_what_they_were() -> None:
    request = Request("p/m", parameters={"response_format": {"a": [1, {"b": None}]}})
    request.freeze()
    sent = json.loads(RequestEncoder().encode(request, PLAIN))
    assert sent["response_format"] == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("name", ["messages", "model", "stream", "tools"])
def test_a_parameter_of_the_adapters_own_is_refused_by_name(name: str) -> None:
    with pytest.raises(LlmFailure, match=name) as raised:
        body(parameters={name: 1})
    assert raised.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_a_parameter_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(LlmFailure, match="no JSON") as raised:
        body(parameters={"x": value})
    assert raised.value.code == "INVALID_REQUEST"


def test_tools_are_functions_with_their_schema() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "ü"}}}
    tools = (ToolSchema("read", "Read a file.", schema), ToolSchema("now", "", {}))
    assert body(tools=tools)["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read a file.", "parameters": schema},
        },
        {
            "type": "function",
            "function": {
                "name": "now",
                "description": "",
                "parameters": {"type": "object", "properties": {}},
            },
        },
    ]


def test_tools_are_encoded_once_and_no_tool_is_taken_for_another() -> None:
    encoder = RequestEncoder()
    for number in range(600):  # ids of objects that are gone are given to new ones
        tool = ToolSchema(f"tool_{number}", "", {})
        for _ in range(2):
            sent = body(encoder=encoder, tools=(tool,))
            assert sent["tools"][0]["function"]["name"] == f"tool_{number}"
    assert len(encoder._tools) <= 256


# --- messages


def test_the_system_text_comes_first_in_the_role_of_the_options() -> None:
    assert wired(user("hi"), system="Be brief.")[0] == {"role": "system", "content": "Be brief."}
    encoder = RequestEncoder(system_role="developer")
    assert wired(system="Be brief.", encoder=encoder)[0]["role"] == "developer"


def test_consecutive_user_messages_stay_separate() -> None:
    assert wired(user("a"), user("b", "c")) == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "bc"},
    ]


def test_assistant_content_is_an_empty_text_and_never_null() -> None:
    sent = wired(assistant(ToolCall("a", "f", "{}")), assistant(Reasoning("so")))
    assert [message["content"] for message in sent] == ["", ""]


def test_a_tool_result_is_a_tool_message_and_an_empty_one_says_so() -> None:
    sent = wired(
        assistant(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")),
        result("a", "one", "two"),
        result("b", " \n"),
    )
    assert sent[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "onetwo"},
        {"role": "tool", "tool_call_id": "b", "content": "(no output)"},
    ]


def test_a_message_of_results_and_text_becomes_tool_messages_and_then_a_user_message() -> None:
    mixed = Message("user", (ToolResult("a", (Text("r"),)), Text("and now"), ToolResult("b", ())))
    roles = [message["role"] for message in wired(mixed)]
    assert roles == ["tool", "tool", "user"]


def test_an_image_of_the_user_is_a_data_url() -> None:
    assert wired(user("look", Image("image/png", "aGk="))) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        }
    ]


def test_an_image_in_a_tool_result_is_named_in_its_text() -> None:
    sent = wired(result("a", "shot: ", Image("image/png", "aGk=")))
    assert sent[0]["content"] == "shot: (image/png image, not shown)"


def test_a_block_that_a_plugin_added_is_not_sent() -> None:
    @case("wire-test-note")
    class Note(Block):
        text: str

    try:
        assert wired(user(Note("x")), user("a", Note("x")), assistant(Note("x"))) == [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": ""},
        ]
    finally:
        del Block.cases["wire-test-note"]


# --- reasoning


THOUGHT = (Reasoning("so "), Reasoning("far"))


@pytest.mark.parametrize(
    ("policy", "with_calls", "without"),
    [("auto", "so far", None), ("send", "so far", "so far"), ("drop", None, None)],
)
def test_reasoning_is_sent_back_as_the_policy_says(
    policy: Any, with_calls: str | None, without: str | None
) -> None:
    messages = (
        assistant(*THOUGHT, ToolCall("a", "f", "{}")),
        result("a", "r"),
        assistant(*THOUGHT, "done"),
    )
    sent = wired(*messages, model=ModelConfig(reasoning=policy))
    assert [sent[0].get("reasoning_content"), sent[2].get("reasoning_content")] == [
        with_calls,
        without,
    ]


def test_one_message_serves_models_with_different_policies() -> None:
    message = assistant(*THOUGHT, "done")
    for policy, expected in (("send", True), ("drop", False), ("send", True)):
        sent = wired(message, model=ModelConfig(reasoning=policy))  # type: ignore[arg-type]
        assert ("reasoning_content" in sent[0]) is expected


def test_a_call_without_reasoning_carries_no_empty_one() -> None:
    assert "reasoning_content" not in wired(assistant(ToolCall("a", "f", "{}")))[0]


# --- calls


def sent_call(name: str = "f", arguments: str = "{}") -> dict[str, str]:
    sent = wired(assistant(ToolCall("a", name, arguments)))
    function: dict[str, str] = sent[0]["tool_calls"][0]["function"]
    return function


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " ",
        "null",
        "[1]",
        '"echo"',
        "7",
        '{"command": "echo hi',
        '{"a": 1}{"b": 2}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        "{'a': 1}",
        '{"a": "line\nbreak"}',
        pytest.param('{"a":' * 100_000, id="nested beyond any stack"),
    ],
)
def test_arguments_that_are_no_json_object_go_back_as_an_empty_one(raw: str) -> None:
    message = assistant(ToolCall("a", "f", raw))
    assert wired(message)[0]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert message.content == (ToolCall("a", "f", raw),)


@pytest.mark.parametrize("raw", ['{"a": 1}', ' {"a" :1.50} ', '{"a": "\\u00fc ü 😀"}'])
def test_arguments_that_are_a_json_object_go_back_as_they_came(raw: str) -> None:
    assert sent_call(arguments=raw)["arguments"] == raw


@pytest.mark.parametrize("raw", ['{"a": "x\\ud99cy"}', '{"a": "x\ud99cy"}', '{"x\\ud99cy": 1}'])
def test_a_lone_surrogate_in_arguments_is_replaced_also_where_it_is_escaped(raw: str) -> None:
    arguments = sent_call(arguments=raw)["arguments"]
    assert "x\ufffdy" in arguments
    assert isinstance(json.loads(arguments), dict)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Bash", "Bash"),
        ("mcp__x-y", "mcp__x-y"),
        ("functions.read file", "functions_read_file"),
        ("lies(ü)", "lies___"),
        ("x" * 80, "x" * 64),
        ("", "_"),
    ],
)
def test_a_name_goes_back_in_a_form_that_servers_take(name: str, safe: str) -> None:
    assert sent_call(name=name)["name"] == safe


def steps(*ids: tuple[str, ...]) -> tuple[Message, ...]:
    """A history of steps, each with calls of these ids and their results, in order."""
    messages: list[Message] = [user("go")]
    for number, step in enumerate(ids):
        messages.append(assistant(*[ToolCall(name, "f", "{}") for name in step]))
        messages += [result(name, f"r{number}.{place}") for place, name in enumerate(step)]
    return tuple(messages)


def pairs(sent: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Each call's id with the results that answer it in its step."""
    found: list[tuple[str, list[str]]] = []
    for message in sent:
        for call in message.get("tool_calls", ()):
            found.append((call["id"], []))
        if message["role"] == "tool":
            asked = message["tool_call_id"]
            next(texts for name, texts in reversed(found) if name == asked).append(
                message["content"]
            )
    return found


def test_ids_that_are_unique_stay_as_they_are() -> None:
    assert pairs(wired(*steps(("a", "b"), ("c",)))) == [
        ("a", ["r0.0"]),
        ("b", ["r0.1"]),
        ("c", ["r1.0"]),
    ]


def test_ids_that_repeat_from_step_to_step_are_told_apart() -> None:
    found = pairs(wired(*steps(("call_0",), ("call_0", "call_1"), ("call_0",))))
    assert [name for name, _ in found] == ["call_0", "call_0-2", "call_1", "call_0-3"]
    assert [texts for _, texts in found] == [["r0.0"], ["r1.0"], ["r1.1"], ["r2.0"]]


def test_ids_that_repeat_within_a_step_pair_in_order() -> None:
    found = pairs(wired(*steps(("x", "x"), ("", ""))))
    assert found == [
        ("x", ["r0.0"]),
        ("x-2", ["r0.1"]),
        ("call", ["r1.0"]),
        ("call-2", ["r1.1"]),
    ]


def test_results_out_of_order_find_their_call_by_id() -> None:
    history = (
        *steps(("a", "b")),
        assistant(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")),
        result("b", "for b"),
        result("a", "for a"),
    )
    assert pairs(wired(*history))[2:] == [("a-2", ["for a"]), ("b-2", ["for b"])]


def test_a_new_id_does_not_meet_one_that_was_made() -> None:
    found = pairs(wired(*steps(("a",), ("a",), ("a-2",), ("a",))))
    assert len({name for name, _ in found}) == 4


@given(st.lists(st.lists(st.sampled_from(["", "a", "a-2", "b", "call"]), max_size=3), max_size=6))
def test_every_call_has_one_id_and_its_result_and_a_longer_history_begins_the_same(
    ids: list[list[str]],
) -> None:
    history = steps(*map(tuple, ids))
    sent = wired(*history)
    found = pairs(sent)
    assert [texts for _, texts in found] == [
        [f"r{number}.{place}"] for number, step in enumerate(ids) for place in range(len(step))
    ]
    assert len({name for name, _ in found}) == len(found)
    assert all(name for name, _ in found)
    for length in range(len(history)):
        assert wired(*history[:length]) == sent[:length]


def test_a_message_first_seen_in_a_short_history_fits_a_longer_one() -> None:
    history = steps(("a",), ("a",))
    assert pairs(wired(*history[3:])) == [("a", ["r1.0"])]
    assert [name for name, _ in pairs(wired(*history))] == ["a", "a-2"]
    assert pairs(wired(*history[3:])) == [("a", ["r1.0"])]


def test_a_strict_provider_finds_no_fault_with_a_nasty_history() -> None:
    history = (
        *steps(("call_0",), ("call_0", ""), ("", "")),
        assistant(Reasoning("so\ud800"), ToolCall("x", "no such tool!", '{"a": "\\ud800"')),
        result("x", ""),
        user(Image("image/png", "aGk=")),
        assistant("done \ud800"),
    )
    tools = (ToolSchema("f", "", {}),)
    assert problems_of(body(*history, system="s", tools=tools)) == []


# --- bytes


def test_a_message_is_encoded_once_and_its_bytes_are_kept() -> None:
    message = user("hello")
    assert wired(message) == [{"role": "user", "content": "hello"}]
    message.keep_encoded("openai_chat:auto", b'{"kept":true}')
    assert wired(message) == [{"kept": True}]


def test_the_bytes_of_a_renamed_call_are_kept_too() -> None:
    history = steps(("a",), ("a",))
    wired(*history)
    (kept,) = [key for key in history[3]._wire if isinstance(key, tuple)]
    history[3].keep_encoded(kept, b'{"role":"kept"}')
    assert wired(*history)[3] == {"role": "kept"}


def test_the_text_is_utf8_and_not_escaped() -> None:
    encoded = RequestEncoder().encode(Request("p/m", (user("naïve 😀 \u2028"),)), PLAIN)
    assert "naïve 😀 \u2028".encode() in encoded


def test_lone_surrogates_are_replaced_wherever_they_stand() -> None:
    lone, clean = "a\ud82db", "a\ufffdb"
    tool = ToolSchema("t", lone, {"type": "object", "description": lone})
    sent = body(
        user(lone),
        assistant(lone, Reasoning(lone), ToolCall(lone, lone, "{}")),
        result(lone, lone),
        system=lone,
        tools=(tool,),
        parameters={"user": lone},
        model=ModelConfig(reasoning="send"),
    )
    assert lone not in json.dumps(sent, ensure_ascii=False)
    assert sent["user"] == clean
    assert [message["content"] for message in sent["messages"]] == [clean] * 4
    assert sent["messages"][2]["tool_calls"][0]["id"] == sent["messages"][3]["tool_call_id"]
