"""`dsml`: calls written as text run or are refused, and never pass for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from offline import offline, request_text

from dsh_core import Approval, HarnessConfig, Layer, Text, ToolCall, Verdict, hookimpl, tool
from dsh_core.builtin.dsml_markup import MarkupError, read_calls, with_calls
from dsh_core.events import (
    AssistantMessage,
    Completed,
    ContextMessage,
    LimitReached,
    ToolCallEvent,
    ToolResultEvent,
)
from dsh_core.messages import Message

CALL = (
    "<｜DSML｜tool_calls>\n"
    '<｜DSML｜invoke name="shout">\n'
    '<｜DSML｜parameter name="text" string="true">hello</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="times" string="false">2</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>"
)
CUT = CALL[: CALL.index("</｜DSML｜invoke>")]


@tool(read_only=True)
def shout(text: str, times: int = 1) -> str:
    """Say it loudly."""
    return text.upper() * times


def parameter(value: str, *, name: str = "x", string: str = "true") -> str:
    return f'<｜DSML｜parameter name="{name}" string="{string}">{value}</｜DSML｜parameter>'


def block(*parameters: str, name: str = "write") -> str:
    inner = "\n".join(parameters)
    return (
        f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{name}">\n{inner}\n'
        "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
    )


def arguments(text: str) -> Any:
    (call,) = read_calls(text)[1]
    return json.loads(call.arguments)


# -------------------------------------------------------------------------------- reading


def test_a_complete_block_becomes_a_call_and_leaves_the_text() -> None:
    text, (call,) = read_calls(f"Let me see.\n{CALL}")

    assert text == "Let me see."
    assert (call.name, json.loads(call.arguments)) == ("shout", {"text": "hello", "times": 2})


def test_text_on_both_sides_of_a_block_stays() -> None:
    assert read_calls(f"Before.\n\n{CALL}\n\nAfter.")[0] == "Before.\n\nAfter."


def test_several_invokes_and_blocks_become_calls_in_their_order_with_ids_of_their_own() -> None:
    two = block(parameter("1")).replace(
        "</｜DSML｜tool_calls>",
        '<｜DSML｜invoke name="read">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
    )
    _, calls = read_calls(f"{two}\n{CALL}")

    assert [call.name for call in calls] == ["write", "read", "shout"]
    assert calls[1].arguments == "{}"
    assert len({call.id for call in calls}) == 3


@pytest.mark.parametrize(
    ("value", "string", "expected"),
    [
        ("42", "true", "42"),
        ("42", "false", 42),
        ('["a", {"b": null}]', "false", ["a", {"b": None}]),
        ("  spaces\n\tand lines \n", "true", "  spaces\n\tand lines \n"),
        ("# Usage\n```sh\nls | wc -l\n```\n`a` < b && c > d", "true", ...),
        ("", "true", ""),
        ('漢字 🙂 \\n "quoted"', "true", ...),
    ],
)
def test_a_value_is_text_as_it_stands_or_json(value: str, string: str, expected: Any) -> None:
    wanted = value if expected is ... else expected

    assert arguments(block(parameter(value, string=string))) == {"x": wanted}


@pytest.mark.parametrize(
    "written",
    [
        CALL.replace("tool_calls", "function_calls"),
        CALL.replace("｜", "|"),
        CALL.replace("｜", "｜｜"),
        CALL.replace("｜", "‖"),
        CALL.replace("\n", ""),
    ],
    ids=["version 3.2", "ascii bars", "doubled bars", "other bars", "no line ends"],
)
def test_spellings_seen_in_the_field_are_understood(written: str) -> None:
    assert arguments(written) == {"text": "hello", "times": 2}


MALFORMED = {
    "cut in a tag": CALL[:12],
    "cut in a value": CALL[: CALL.index("hello") + 2],
    "cut after a parameter": CUT,
    "no end of the block": CALL.removesuffix("</｜DSML｜tool_calls>"),
    "no block around": CALL.replace("<｜DSML｜tool_calls>\n", ""),
    "an end alone": "done </｜DSML｜tool_calls>",
    "an empty block": "<｜DSML｜tool_calls>\n</｜DSML｜tool_calls>",
    "prose inside": CALL.replace("</｜DSML｜invoke>", "so be it</｜DSML｜invoke>"),
    "no name": CALL.replace(' name="shout"', ""),
    "an empty name": CALL.replace('"shout"', '""'),
    "no kind of value": CALL.replace(' string="true"', ""),
    "no such kind of value": CALL.replace('"true"', '"yes"'),
    "not JSON": block(parameter("[1,", string="false")),
    "a number JSON lacks": block(parameter("NaN", string="false")),
    "deeper than a parser goes": block(parameter("[" * 100_000, string="false")),
    "a parameter twice": block(parameter("1"), parameter("2")),
    "markup in a value": block(parameter(CALL)),
    "the second of two": CALL + CUT,
    "the bare marker": "The marker is <｜DSML｜ as you know.",
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_markup_that_is_not_whole_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(MarkupError):
        read_calls(text)


QUOTED = {
    "fence": f"So:\n```\n{CALL}\n```\nDone.",
    "fence with a language": f"```xml\n{CALL}\n```",
    "tildes": f"~~~\n{CUT}\n~~~",
    "longer fence": f"````\n```\n{CALL}\n```\n````",
    "fence in a list": f"- so:\n\n    ```\n    {CALL}\n    ```\n",
    "fence in a quote": f"> ```\n> {CUT}\n> ```\n",
    "fence that is not closed": f"```\n{CALL}",
    "inline": "The marker is `<｜DSML｜tool_calls>`, as in `</｜DSML｜invoke>`.",
    "inline with two ticks": "It is ``<｜DSML｜ ` tool_calls>`` here.",
    "the word": "DSML is a markup language.",
}


@pytest.mark.parametrize("text", QUOTED.values(), ids=QUOTED)
def test_markup_that_is_only_quoted_is_no_call(text: str) -> None:
    message = Message("assistant", (Text(text),))

    assert with_calls(message) is message


@pytest.mark.parametrize(
    "before",
    ["```\ncode\n```\n", "Use `ls` for it.\n", "A stray ` here.\n\n", "```inline```\n", "~~\n"],
)
def test_code_before_a_call_does_not_hide_it(before: str) -> None:
    assert arguments(before + CALL) == {"text": "hello", "times": 2}


def test_calls_come_after_all_text_and_an_empty_text_goes() -> None:
    message = Message("assistant", (Text(CALL), Text("Wait."), Text(f"And {CALL}")))

    content = with_calls(message).content

    assert content[:2] == (Text("Wait."), Text("And"))
    assert [type(one) for one in content[2:]] == [ToolCall, ToolCall]


# --------------------------------------------------------------------------- in an agent


async def test_a_written_call_runs_and_the_model_sees_its_result() -> None:
    async with offline(f"Let me shout.\n{CALL}", "Done.", tools=(shout,)) as stage:
        result = await stage.agent.run("go")

    (call,) = stage.logged(ToolCallEvent)
    assert stage.logged(ToolResultEvent)[0].content == (Text("HELLOHELLO"),)
    assert stage.logged(AssistantMessage)[0].content == (
        Text("Let me shout."),
        ToolCall(call.call_id, "shout", call.arguments),
    )
    assert "HELLOHELLO" in request_text(stage.requests[1])
    assert "DSML" not in request_text(stage.requests[1])
    assert (result.text, result.is_success) == ("Done.", True)


@pytest.mark.parametrize(("answer", "code"), [(True, None), (False, "DENIED")])
async def test_a_written_call_is_judged_like_any_other(answer: bool, code: str | None) -> None:
    class Policy:
        @hookimpl
        async def tools_authorize(self, call: Any) -> Verdict:
            return Verdict("ask", f"May it {call.name}?")

        @hookimpl
        async def approval_request(self, request: Any) -> Approval:
            return Approval(answer)

    async with offline(CALL, "Done.", tools=(shout,), plugin=Policy()) as stage:
        await stage.agent.run("go")

    assert stage.logged(ToolResultEvent)[0].code == code


async def test_the_model_is_told_of_markup_that_cannot_run_and_goes_on() -> None:
    async with offline(f"Soon.\n{CUT}", CALL, "Done.", tools=(shout,)) as stage:
        result = await stage.agent.run("go")

    assert stage.logged(AssistantMessage)[0].content == (Text(f"Soon.\n{CUT}"),)
    (told,) = stage.logged(ContextMessage)
    assert "`shout` is malformed or not closed" in told.content[0].text
    assert "It did not run." in request_text(stage.requests[1])
    assert len(stage.logged(ToolCallEvent)) == 1
    assert (result.text, result.reason) == ("Done.", Completed())


async def test_a_model_that_does_it_again_and_again_ends_the_turn_without_success() -> None:
    async with offline(CUT, CUT, CUT, "never asked") as stage:
        result = await stage.agent.run("go")

    assert len(stage.requests) == 3
    assert len(stage.logged(ContextMessage)) == 2
    assert isinstance(result.reason, LimitReached)
    assert (result.reason.limit, result.is_success) == ("dsml", False)


async def test_the_next_turn_counts_anew() -> None:
    async with offline(CUT, CUT, CUT, CUT, CUT, "Done.") as stage:
        await stage.agent.run("go")
        result = await stage.agent.run("again")

    assert (result.text, result.is_success) == ("Done.", True)


async def test_a_refusal_of_an_aborted_turn_is_not_told_in_the_next() -> None:
    class Aborts:
        @hookimpl
        async def agent_step_end(self, agent: Any, turn: int) -> None:
            if turn == 1:
                agent.abort()

    async with offline(CUT, "Fine.", plugin=Aborts()) as stage:
        await stage.agent.run("go")
        result = await stage.agent.run("again")

    assert stage.logged(ContextMessage) == []
    assert (result.text, result.is_success) == ("Fine.", True)


async def test_quoted_markup_is_an_answer() -> None:
    text = f"It looks like this:\n```\n{CALL}\n```"
    async with offline(text, tools=(shout,)) as stage:
        result = await stage.agent.run("What is DSML?")

    assert (result.text, result.is_success) == (text, True)


async def test_text_beside_a_real_call_is_left_alone() -> None:
    reply = {"text": CUT, "calls": [{"name": "shout", "arguments": {"text": "a"}}]}
    async with offline(reply, "Done.", tools=(shout,)) as stage:
        await stage.agent.run("go")

    assert [call.name for call in stage.logged(ToolCallEvent)] == ["shout"]
    assert stage.logged(ContextMessage) == []


async def test_a_call_in_a_reply_that_was_cut_does_not_run() -> None:
    reply = {"text": CALL, "finish": "max-tokens"}
    async with offline(reply, "Done.", tools=(shout,)) as stage:
        await stage.agent.run("go")

    assert stage.logged(ToolResultEvent)[0].code == "TRUNCATED"


async def test_a_plugin_that_rewrites_replies_does_not_bring_markup_past_it() -> None:
    class Rewrites:
        @hookimpl
        async def agent_step_result(self, message: Message) -> Message:
            return Message("assistant", message.content, model=message.model)

        @hookimpl
        async def agent_turn_continuation(self) -> bool:
            return False

    async with offline(CUT, "Done.", plugin=Rewrites()) as stage:
        result = await stage.agent.run("go")

    assert (result.text, len(stage.requests)) == ("Done.", 2)


async def test_the_steps_it_asks_for_count_for_the_limits() -> None:
    config = HarnessConfig(autoload=False, plugins={"limits": (Layer("test", {"max_steps": 2}),)})
    async with offline(CUT, CUT, "never asked", config=config) as stage:
        result = await stage.agent.run("go")

    assert isinstance(result.reason, LimitReached)
    assert result.reason.limit == "max_steps"


async def test_switched_off_it_leaves_markup_alone() -> None:
    config = HarnessConfig(autoload=False, blocked=frozenset({"dsml"}))
    async with offline(CALL, config=config, tools=(shout,)) as stage:
        result = await stage.agent.run("go")

    assert result.text == CALL
