import pytest

from dsh_core.testing.provider_rules import problems_of


def asked(name="read", arguments="{}", call_id="c1"):
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def assistant(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def tool(call_id="c1", content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function(name="read", **parameters):
    schema = {"type": "object", "properties": {}} | parameters
    return {"type": "function", "function": {"name": name, "parameters": schema}}


USER = {"role": "user", "content": "hi"}
GOOD = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "tool_choice": "auto",
    "tools": [
        function("read", properties={"p": {"$ref": "#/$defs/P"}}, **{"$defs": {"P": {}}}),
        {"type": "function", "function": {"name": "noop"}},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "look 👍"},
            {"type": "image_url", "image_url": {"url": "data:"}},
        ]},
        assistant(asked(), asked(call_id="c2", arguments='{"path": "a"}'), content="ok"),
        tool("c2"),
        tool("c1"),
        {"role": "assistant", "content": "done"},
        USER,
    ],
}  # fmt: skip


def test_what_a_provider_takes_has_no_problem():
    assert problems_of(GOOD) == []


BROKEN_MESSAGES = {
    "messages: missing or empty": [],
    "messages[0]: role is 'bot'": [{"role": "bot", "content": "x"}],
    "messages[0]: role is 'x'": ["x"],
    "messages[0].content: expected text or parts, found null": [{"role": "user", "content": None}],
    "messages[0].content: expected text or parts, found []": [{"role": "user", "content": []}],
    "messages[0].content[0]: not a text": [{"role": "user", "content": [{"type": "x"}]}],
    "messages[0].content: expected text": [{"role": "assistant", "content": None}],
    "messages[0]: tool_call_id 'c1' answers no open call": [tool()],
    "messages[3]: tool_call_id 'c1' answers": [USER, assistant(asked()), tool(), tool()],
    "messages[2].content: expected text": [USER, assistant(asked()), tool(content=None)],
    "messages[2]: follows calls without a result: c1": [USER, assistant(asked()), USER],
    "messages: end with calls without a result: c2": [
        assistant(asked(), asked(call_id="c2")),
        tool("c1"),
    ],
    "messages[0].tool_calls: expected a list": [{"role": "assistant", "tool_calls": []}],
    "messages[0].tool_calls: ids missing": [assistant(asked(), asked()), tool(), tool()],
    "messages[0].tool_calls[0]: not a function call": [assistant({"id": "c1"}), tool()],
    "messages[0].tool_calls[0].function.name: 'a b'": [assistant(asked("a b")), tool()],
    "messages[0].tool_calls[0].function.arguments": [assistant(asked(arguments="[]")), tool()],
    "messages[0].tool_calls[0].function.arguments: not": [assistant(asked(arguments="")), tool()],
    "messages[0].content: lone surrogate": [{"role": "user", "content": "\ud83d"}],
}
BROKEN_BODIES = {
    "model: missing": {"model": ""},
    "stream_options: only allowed": {"stream": False},
    "tool_choice: only allowed with tools": {"tools": None},
    "tools: expected a list that is not empty": {"tools": []},
    "tools[0]: not a function": {"tools": [{"type": "web"}]},
    "tools[0].function.name: 'a.b' does not match": {"tools": [function("a.b")]},
    "tools[1].function.name: 'a' appears twice": {"tools": [function("a"), function("a")]},
    "parameters: expected a schema of type object": {"tools": [function(type="string")]},
    "parameters.properties: expected an object": {"tools": [function(properties=[])]},
    "$ref '#/$defs/X' leads nowhere": {"tools": [function(items=[{"$ref": "#/$defs/X"}])]},
    "$ref 'other.json' leads nowhere": {"tools": [function(items={"$ref": "other.json"})]},
    "user (a key): lone surrogate": {"user": {"\udc00": 1}},
} | {problem: {"messages": messages} for problem, messages in BROKEN_MESSAGES.items()}


@pytest.mark.parametrize(("problem", "change"), BROKEN_BODIES.items(), ids=range(31))
def test_what_a_provider_refuses_is_one_problem(problem, change):
    body = {name: value for name, value in (GOOD | change).items() if value is not None}

    (found,) = problems_of(body)

    assert problem in found
