"""From the model's words to a result: resolved, judged, asked about, run, bounded. Never raised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from loop_stage import Gate, bounded, calls, lines, stage

from dsh_core import (
    Approval,
    ApprovalRequest,
    Call,
    Effect,
    Event,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    UserError,
    Verdict,
    hookimpl,
    tool,
)
from dsh_core.content import Image, Reasoning, Text, text_of
from dsh_core.events import (
    ApprovalAsked,
    ApprovalDecided,
    ErrorEvent,
    ToolCallEvent,
    ToolProgress,
    ToolResultEvent,
)
from dsh_core.policy import MAY_WRITE
from dsh_core.tools import progress as progress_module

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


@tool
def work(text: str = "", number: int = 0) -> str:
    """Do something.

    Args:
        text: What to say.
        number: How often.
    """
    ran.append(text)
    return f"worked {text}"


async def result_of(
    arguments: str, *tools: Tool, name: str = "work", plugin: object = None, **options: Any
) -> ToolResultEvent:
    """Let the model make one call, and return its result; the turn must go on after it."""
    async with stage(
        calls((name, arguments)), plugin=plugin, tools=tools or (work,), **options
    ) as s:
        result = await bounded(s.agent.run("go"))
        assert result.is_success
        assert s.logged(ErrorEvent) == []
        (logged,) = s.logged(ToolResultEvent)
        return logged


def said(result: ToolResultEvent) -> str:
    return text_of(result.content)


# ------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ('{"text": "a"}', "worked a"),
        ("", "worked "),
        ("  \n", "worked "),
        ("{}", "worked "),
        ('{"text": "\\ud83d\\ude00"}', "worked 😀"),
        ('{"text": "half \\ud83d"}', "worked half \ufffd"),
        ('{"text": "a", "number": "3"}', "worked a"),
        ('{"text": "a", "number": -0.0}', "worked a"),
    ],
)
async def test_arguments_that_are_clear_are_taken(arguments: str, answer: str) -> None:
    result = await result_of(arguments)

    assert (said(result), result.is_error) == (answer, False)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"text": "echo hi', "the arguments are not valid JSON"),
        ("null", "must be a JSON object, not null"),
        ("[1]", "not an array"),
        ('"echo"', "not a string"),
        ("true", "not a boolean"),
        ("3", "not a number"),
        ('{"number": NaN}', "NaN is not JSON"),
        ('{"number": 1e999}', "1e999 is too large a number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"text": ' + "[" * 300 + "]" * 300 + "}", "text"),
        ('{"nubmer": 1, "text": 5}', "did you mean `number`"),
    ],
    ids=range(11),
)
async def test_arguments_that_cannot_be_used_run_nothing_and_are_explained(
    arguments: str, says: str
) -> None:
    result = await result_of(arguments)

    assert (result.is_error, result.code, ran) == (True, "INVALID_ARGS", [])
    assert says in said(result)
    assert len(said(result)) < 1_000


async def test_every_violation_is_named_at_once() -> None:
    result = await result_of('{"text": 5, "number": "x", "more": 1}')

    for name in ("text", "number", "more"):
        assert f"`{name}`" in said(result)


async def test_the_raw_arguments_stay_in_the_log() -> None:
    async with stage(calls(("work", '{"text": "cut')), tools=(work,)) as s:
        await bounded(s.agent.run("go"))

        assert s.logged(ToolCallEvent)[0].arguments == '{"text": "cut'


async def test_a_schema_that_cannot_be_made_fails_its_calls_only() -> None:
    bad = Tool("bad", "", lambda: "x", schema_override={"type": "object"})
    object.__setattr__(bad, "__dict__", {**bad.__dict__})

    class Broken:
        schema = {"type": "object"}  # noqa: RUF012

        def validate(self, arguments: Any) -> Any:
            raise NameError("name 'Nowhere' is not defined")

    bad.__dict__["parameters"] = Broken()
    result = await result_of("{}", bad, name="bad")

    assert (result.code, "Nowhere" in said(result)) == ("INVALID_ARGS", True)


# --------------------------------------------------------------------------------- unknown, hidden


@pytest.mark.parametrize("name", ["execute_python", "Work", "x" * 200, "", "half \ud800"])
async def test_an_unknown_tool_is_a_result_that_lists_the_tools(name: str) -> None:
    result = await result_of("{}", name=name)

    assert (result.code, ran) == ("UNKNOWN_TOOL", [])
    assert "tools: work" in said(result)
    assert len(said(result)) < 300


async def test_a_tool_that_is_hidden_from_the_model_is_refused_too() -> None:
    hidden = Tool("hidden", "", lambda: ran.append("hidden"))

    class Hides:
        @hookimpl
        async def system_prompt_assemble(self, assembly: Any) -> None:
            assembly.tools = tuple(t for t in assembly.tools if t.name == "work")

    async with stage(calls(("hidden", "{}")), tools=(work, hidden)) as s:
        agent = s.create(tools=("work",))
        await bounded(agent.run("go"))

        (result,) = s.logged(ToolResultEvent)
        assert (result.code, ran) == ("UNKNOWN_TOOL", [])
        assert [t.name for t in s.model.requests[0].tools] == ["work"]


async def test_a_plugin_that_is_off_takes_its_tools_along() -> None:
    from dsh_core import AgentDefinition, Layer

    class Brings:
        @hookimpl
        def tools_register(self) -> list[Tool]:
            return [work]

    async with stage(calls(("work", "{}")), plugins={"brings": Brings()}) as s:
        definition = AgentDefinition(
            "quiet", model="m/x", plugins={"brings": (Layer("test", False),)}
        )
        agent = s.harness.agents.create(definition)
        s.agents.append(agent)
        await bounded(agent.run("go"))

        assert s.logged(ToolResultEvent)[0].code == "UNKNOWN_TOOL"
        assert s.model.requests[0].tools == ()


# ------------------------------------------------------------------------------------- judgements


def judging(*answers: Any, hook: str = "tools_authorize") -> dict[str, object]:
    """One plugin per answer; an exception is raised."""

    def plugin(answer: Any) -> object:
        async def judge(self: object, call: Call) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer(call) if callable(answer) else answer

        return type("Judge", (), {hook: hookimpl(judge)})()

    return {f"judge{i}": plugin(answer) for i, answer in enumerate(answers)}


ALLOW, ASK, DENY = Verdict("allow"), Verdict("ask", "may it?"), Verdict("deny", "never")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ([], None),
        ([None], None),
        ([ALLOW], None),
        ([None, ALLOW, None], None),
        ([DENY], "DENIED"),
        ([ALLOW, DENY, ALLOW], "DENIED"),
        ([ASK], "DENIED"),
        ([DENY, ASK], "DENIED"),
        ([ValueError("broken")], "DENIED"),
        ([SystemExit(1)], "DENIED"),
        ([asyncio.CancelledError()], "DENIED"),
        ([UserError("broken"), ALLOW], "DENIED"),
        ([ALLOW, "yes"], "DENIED"),
        ([True], "DENIED"),
    ],
)
async def test_verdicts_are_folded_deny_over_ask_over_allow(
    verdicts: list[Any], code: str | None
) -> None:
    async with stage(calls(("work", "{}")), plugins=judging(*verdicts), tools=(work,)) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        (result,) = s.logged(ToolResultEvent)
        (call,) = s.logged(ToolCallEvent)

        assert (result.code, len(ran)) == (code, 1 if code is None else 0)
        assert call.verdict == ("allow" if code is None else "deny")
        assert (s.errors == []) is all(v in (None, ALLOW, ASK, DENY) for v in verdicts)


@pytest.mark.parametrize(
    ("verdicts", "by"),
    [
        ([], None),
        ([None], None),
        ([None, ALLOW], "judge1"),
        ([ASK, DENY], "judge1"),
        ([ALLOW, ASK, replace(ASK, user_only=True)], "judge2"),
    ],
)
async def test_the_log_says_whose_verdict_counted(verdicts: list[Any], by: str | None) -> None:
    async with stage(calls(("work", "{}")), plugins=judging(*verdicts), tools=(work,)) as s:
        await bounded(s.agent.run("go"))

        assert [call.judged_by for call in s.logged(ToolCallEvent)] == [by]


async def test_the_model_reads_why_a_call_was_denied() -> None:
    result = await result_of("{}", plugins=judging(ALLOW, Verdict("deny", "not on a \ud800day")))

    assert said(result) == "Error: denied: not on a \ufffdday"


async def test_unknown_tools_and_bad_arguments_are_judged_too() -> None:
    seen: list[Call] = []
    plugins = judging(seen.append)
    script = calls(("none", "{}", "a"), ("work", "[1]", "b"), ("work", '{"number": "7"}', "c"))
    async with stage(script, plugins=plugins, tools=(work,)) as s:
        await bounded(s.agent.run("go"))

    first, second, third = seen
    assert (first.known, "no tool" in str(first.problem)) == (False, True)
    assert (second.known, second.arguments, second.raw) == (True, {}, "[1]")
    assert (third.problem, third.arguments["number"], third.raw) == (None, 7, '{"number": "7"}')


async def test_what_was_judged_cannot_be_changed() -> None:
    caught: list[str] = []

    def tamper(call: Call) -> None:
        for change in (
            lambda: setattr(call, "name", "other"),
            lambda: call.arguments.__setitem__("text", "other"),
        ):
            with pytest.raises((AttributeError, TypeError)):
                change()
            caught.append("refused")

    result = await result_of('{"text": "a"}', plugins=judging(tamper))

    assert (said(result), len(caught)) == ("worked a", 2)


async def test_a_denied_call_is_denied_though_a_plugin_would_answer_in_its_place() -> None:
    answered: list[str] = []

    class Answers:
        @hookimpl
        async def tools_execute(self, call: Call) -> ToolOutput:
            answered.append(call.name)
            return ToolOutput.of("from the cache")

    allowed = await result_of("{}", plugins={"cache": Answers(), **judging(ALLOW)})
    denied = await result_of("{}", plugins={"cache": Answers(), **judging(DENY)})

    assert (said(allowed), denied.code) == ("from the cache", "DENIED")
    assert (answered, ran) == (["work"], [])


# ----------------------------------------------------------------------------------------- effects


@pytest.mark.parametrize(
    ("declared", "answers", "expected"),
    [
        ({}, [], (MAY_WRITE,)),
        ({}, [None], (MAY_WRITE,)),
        ({}, [[]], ()),
        ({}, [None, frozenset()], ()),
        ({}, [[Effect("read", "/a")]], (Effect("read", "/a"),)),
        ({"read_only": True}, [None], (Effect("read"),)),
        (
            {"read_only": True, "network": True},
            [[Effect("read")], (Effect("run", "ls"),)],
            (Effect("read"), Effect("network"), Effect("run", "ls")),
        ),
        ({"destructive": True}, [None], (Effect("write"),)),
        ({"read_only": True}, [ValueError("x")], (Effect("read"), MAY_WRITE)),
        ({"read_only": True}, ["write"], (Effect("read"), MAY_WRITE)),
        ({"read_only": True}, [["write"]], (Effect("read"), MAY_WRITE)),
        ({}, [[], asyncio.CancelledError()], (MAY_WRITE,)),
    ],
    ids=range(12),
)
async def test_effects_are_what_is_declared_and_what_plugins_know(
    declared: dict[str, bool], answers: list[Any], expected: tuple[Effect, ...]
) -> None:
    seen: list[tuple[Effect, ...]] = []
    one = Tool("one", "", lambda: "x", **declared)
    plugins = {
        **judging(*answers, hook="tool_effects"),
        "sees": judging(lambda call: seen.append(call.effects))["judge0"],
    }
    async with stage(calls(("one", "{}")), plugins=plugins, tools=(one,)) as s:
        await bounded(s.agent.run("go"))

        assert seen == [expected]
        is_sound = all(a is None or isinstance(a, (list, tuple, frozenset)) for a in answers)
        assert (s.errors == []) is (is_sound and ["write"] not in answers)


# --------------------------------------------------------------------------------------- approvals


def answering(*answers: Any) -> dict[str, object]:
    def plugin(answer: Any) -> object:
        async def decide(self: object, request: ApprovalRequest) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer(request) if callable(answer) else answer

        return type("Answers", (), {"approval_request": hookimpl(decide)})()

    return {f"answer{i}": plugin(answer) for i, answer in enumerate(answers)}


YES, NO = Approval(True, "fine"), Approval(False, "rather not")


@pytest.mark.parametrize(
    ("answers", "allowed", "says"),
    [
        ([YES], True, "worked"),
        ([None, YES], True, "worked"),
        ([YES, NO], True, "worked"),
        ([NO, YES], False, "rather not"),
        ([], False, "may it?"),
        ([None], False, "may it?"),
        ([ValueError("no terminal")], False, "nobody could be asked"),
        ([SystemExit(1)], False, "nobody could be asked"),
        ([asyncio.CancelledError()], False, "nobody could be asked"),
        (["yes"], False, "nobody could be asked"),
        ([True], False, "nobody could be asked"),
        ([Approval("false")], False, "cannot be used"),
        ([Approval(1)], False, "cannot be used"),
        ([Approval(True, message=5)], False, "cannot be used"),
        ([Approval(False, "half \ud800")], False, "half \ufffd"),
    ],
    ids=range(15),
)
async def test_only_a_clear_yes_is_a_yes(answers: list[Any], allowed: bool, says: str) -> None:
    plugins = {**judging(ASK), **answering(*answers)}
    async with stage(calls(("work", "{}")), plugins=plugins, tools=(work,)) as s:
        assert (await bounded(s.agent.run("go"))).is_success
        (result,) = s.logged(ToolResultEvent)
        (asked,) = s.logged(ApprovalAsked)
        (decided,) = s.logged(ApprovalDecided)

        assert says in said(result)
        assert (result.code is None, decided.allowed, ran != []) == (allowed, allowed, allowed)
        assert (asked.name, asked.message, asked.plugin) == ("work", "may it?", "judge0")
        assert asked.approval_id == decided.approval_id
        assert s.types().index("approval/decided") < s.types().index("tool/call")


async def test_a_question_carries_what_the_asker_knows() -> None:
    seen: list[ApprovalRequest] = []
    verdict = Verdict("ask", "push?", rule="Bash(git push:*)", offers=("Bash(git:*)",))
    plugins = {
        **judging(None, verdict, ALLOW),
        **answering(lambda request: seen.append(request) or Approval(True, scope="session")),
    }
    async with stage(calls(("work", '{"text": "a"}')), plugins=plugins, tools=(work,)) as s:
        await bounded(s.agent.run("go"))

        (request,) = seen
        assert (request.plugin, request.rule) == ("judge1", "Bash(git push:*)")
        assert (request.offers, request.call.arguments["text"]) == (("Bash(git:*)",), "a")
        assert s.logged(ApprovalAsked)[0].rule == "Bash(git push:*)"
        assert s.logged(ApprovalDecided)[0].scope == "session"


async def test_a_denial_after_an_approval_still_denies() -> None:
    result = await result_of("{}", plugins={**judging(ASK, DENY), **answering(YES)})

    assert result.code == "DENIED"


@pytest.mark.parametrize("refused", ["approval/asked", "approval/decided"])
async def test_a_question_that_cannot_be_logged_is_a_denial(refused: str) -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == refused:
                raise ValueError("no questions")

    plugins = {**judging(ASK), **answering(YES), "refuses": Refuses()}
    result = await result_of("{}", plugins=plugins)

    assert (result.code, ran) == ("DENIED", [])


async def test_a_question_that_is_interrupted_is_answered_with_no() -> None:
    gate = Gate()

    class Asks:
        @hookimpl
        async def approval_request(self) -> Approval:
            await gate.wait()
            return YES

    plugins = {**judging(ASK), "asks": Asks()}
    async with stage(calls(("work", "{}")), plugins=plugins, tools=(work,)) as s:
        s.agent.send("go")
        await gate.reached()
        s.agent.abort()
        await bounded(s.agent.when_idle())

        (decided,) = s.logged(ApprovalDecided)
        assert (decided.allowed, decided.message) == (False, "the question was interrupted")
        assert s.logged(ToolResultEvent)[0].code == "ABORTED_BEFORE_DISPATCH"


# ------------------------------------------------------------------------------------- wrappers


def wrapping(wrap: Callable[[Callable[[], Awaitable[ToolOutput]]], Awaitable[Any]]) -> object:
    class Wraps:
        @hookimpl
        async def tools_execute(self, *, call_next: Callable[[], Awaitable[ToolOutput]]) -> Any:
            return await wrap(call_next)

    return Wraps()


async def test_a_wrapper_changes_the_output() -> None:
    async def shout(call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        output = await call_next()
        return ToolOutput.of(output.text.upper(), meta={"loud": True})

    result = await result_of('{"text": "a"}', plugin=wrapping(shout))

    assert (said(result), dict(result.meta or {})) == ("WORKED A", {"loud": True})


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ValueError("broken"), "TOOL_FAILED", "plugin 'it' in tools_execute: ValueError: broken"),
        (SystemExit(3), "TOOL_FAILED", "SystemExit"),
        (asyncio.CancelledError(), "TOOL_FAILED", "CancelledError"),
        (ToolError("the disk is full", code="NO_CHECKPOINT"), "NO_CHECKPOINT", "disk is full"),
        (UserError("not here", remedy="Go there."), "TOOL_FAILED", "Go there."),
    ],
    ids=lambda e: type(e).__name__,
)
async def test_a_wrapper_that_raises_gives_its_call_an_error_result(
    error: BaseException, code: str, says: str
) -> None:
    async def fails(call_next: Any) -> Any:
        raise error

    result = await result_of("{}", plugin=wrapping(fails))

    assert (result.is_error, result.code, ran) == (True, code, [])
    assert says in said(result)


async def test_a_tool_that_goes_away_after_it_was_judged_does_not_run() -> None:
    async def leaves(call_next: Callable[[], Awaitable[ToolOutput]]) -> ToolOutput:
        dispose()
        return await call_next()

    async with stage(calls(("late", "{}")), plugin=wrapping(leaves)) as s:
        late = Tool("late", "", lambda: ran.append("late"))
        dispose = s.harness.tools.register(late, owner="test")
        await bounded(s.agent.run("go"))

        (result,) = s.logged(ToolResultEvent)
        assert (result.code, said(result), ran) == ("UNKNOWN_TOOL", "Error: late is gone", [])


@pytest.mark.parametrize("junk", ["text", 3, None, ToolOutput(None), ToolOutput(("text",))])
async def test_a_wrapper_that_returns_junk_gives_its_call_an_error_result(junk: Any) -> None:
    async def returns(call_next: Any) -> Any:
        await call_next()
        return junk

    result = await result_of("{}", plugin=wrapping(returns))

    assert result.is_error
    assert result.code in ("TOOL_FAILED", "INVALID_TOOL_OUTPUT")


# ----------------------------------------------------------------------------------------- bodies


@dataclass(frozen=True)
class Point:
    x: int


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        ("half \ud800", "half \ufffd"),
        (None, "(no output)"),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, "é"], '[1, "é"]'),
        ([], "[]"),
        ({}, "{}"),
        ({"a": {"b": (1, 2)}}, '{"a": {"b": [1, 2]}}'),
        ({1}, "[1]"),
        (Path("/a"), '"/a"'),
        (Text("block"), "block"),
        ([Text("a"), Text("b")], "ab"),
        (ToolOutput.of("output"), "output"),
        (ToolOutput("a mistake of many"), "a mistake of many"),
        (ToolOutput(Text("one block")), "one block"),
        (ToolOutput([Text("a list")]), "a list"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_body_returns_becomes_text(value: Any, text: str, is_async: bool) -> None:
    async def eventually() -> Any:
        return value

    one = Tool("one", "", eventually if is_async else lambda: value)
    result = await result_of("{}", one, name="one")

    assert (said(result), result.is_error) == (text, False)


@pytest.mark.parametrize(
    "value",
    [
        circle(),
        {(1, 2): "a"},
        ToolOutput(None),
        ToolOutput((3,)),
        ToolOutput((Text(5),)),
        ToolOutput((Text("a"),), code=5),
        ToolOutput((Text("a"),), meta=[1]),
        ToolOutput((Text("a"),), meta={"path": Path("/a")}),
        ToolOutput((Text("a"),), meta={"n": float("nan")}),
        ToolOutput((Text("a"),), meta={"t": "\ud800"}),
    ],
    ids=range(10),
)
async def test_an_output_that_cannot_be_logged_is_an_error_that_says_why(value: Any) -> None:
    result = await result_of("{}", Tool("one", "", lambda: value), name="one")

    assert (result.code, result.meta) == ("INVALID_TOOL_OUTPUT", None)
    json.dumps(said(result)).encode()


async def test_blocks_that_are_no_text_reach_the_model() -> None:
    image = Image("image/png", "AA==")
    one = Tool("one", "", lambda: [Text("look"), image, Reasoning("hm")])
    result = await result_of("{}", one, name="one")

    assert result.content == (Text("look"), image, Reasoning("hm"))


async def test_a_sync_body_may_return_an_awaitable() -> None:
    async def eventually() -> str:
        return "waited for"

    result = await result_of("{}", Tool("one", "", lambda: eventually()), name="one")

    assert said(result) == "waited for"


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ToolError("not found", code="FS_NOT_FOUND"), "FS_NOT_FOUND", "Error: not found"),
        (ToolError("half \ud800"), "TOOL_FAILED", "Error: half \ufffd"),
        (UserError("no", remedy="Do that."), "TOOL_FAILED", "Do that."),
        (ValueError("x"), "TOOL_FAILED", "one failed: ValueError: x"),
    ],
)
async def test_what_a_body_raises_is_told_to_the_model(
    error: Exception, code: str, says: str
) -> None:
    def fails() -> str:
        raise error

    result = await result_of("{}", Tool("one", "", fails), name="one")

    assert (result.code, result.is_error) == (code, True)
    assert says in said(result)


async def test_a_plugin_that_fails_a_body_is_reported() -> None:
    from dsh_core import hookspecs

    class Fails:
        @hookimpl
        async def shell_executor(self) -> None:
            raise OSError("no sandbox")

    async def runs(ctx: ToolContext) -> str:
        async def local(agent: Any) -> Any:
            raise AssertionError("unreachable")

        await ctx.agent.hooks.waterfall(hookspecs.shell_executor, local, agent=ctx.agent)
        return "never"

    async with stage(calls(("runs", "{}")), plugin=Fails(), tools=(Tool("runs", "", runs),)) as s:
        assert (await bounded(s.agent.run("go"))).is_success

        (result,) = s.logged(ToolResultEvent)
        assert (result.code, "no sandbox" in said(result)) == ("TOOL_FAILED", True)
        assert [getattr(error, "plugin", None) for error in s.errors] == ["it"]


async def test_the_root_cause_is_told() -> None:
    def fails() -> str:
        try:
            raise OSError("the disk is full")
        except OSError as error:
            raise RuntimeError("cannot save") from error

    result = await result_of("{}", Tool("one", "", fails), name="one")

    assert "RuntimeError: cannot save ← OSError: the disk is full" in said(result)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_tool_that_takes_too_long_gets_an_error_and_is_told_to_stop(is_async: bool) -> None:
    contexts: list[ToolContext] = []

    async def hangs(ctx: ToolContext) -> None:
        contexts.append(ctx)
        await asyncio.Event().wait()

    def blocks(ctx: ToolContext) -> None:
        contexts.append(ctx)
        ctx.cancelled.wait(10)

    slow = Tool("slow", "", hangs if is_async else blocks, timeout_seconds=0.05)
    result = await result_of("{}", slow, name="slow")

    assert (result.code, said(result)) == ("TOOL_TIMEOUT", "Error: slow took more than 0.05 s")
    assert contexts[0].cancelled.is_set()


async def test_a_body_knows_where_it_is(tmp_path: Path) -> None:
    seen: list[ToolContext] = []

    def looks(ctx: ToolContext, text: str) -> str:
        seen.append(ctx)
        return text

    async with stage(
        calls(("looks", '{"text": "a"}', "id7")), tools=(Tool("looks", "", looks),), cwd=tmp_path
    ) as s:
        await bounded(s.agent.run("go"))

        (context,) = seen
        assert (context.agent, context.cwd, context.call_id) == (s.agent, tmp_path, "id7")
        assert (context.call.turn, context.call.step) == (1, 1)
        assert context.call.arguments == {"text": "a"}


# --------------------------------------------------------------------------------------- progress


async def test_progress_is_logged_while_a_call_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL_SECONDS", 0.001)
    gate = Gate()

    async def works(ctx: ToolContext) -> str:
        ctx.progress("first \ud800")
        await gate.wait()
        return "done"

    async with stage(calls(("works", "{}")), tools=(Tool("works", "", works),)) as s:
        s.agent.send("go")
        await gate.reached()
        while not s.logged(ToolProgress):
            await asyncio.sleep(0)
        gate.open()
        await bounded(s.agent.when_idle())

        assert s.logged(ToolProgress) == [ToolProgress(1, 1, "c0", "first \ufffd")]


async def test_progress_from_many_threads_is_throttled_and_never_late() -> None:
    def floods(ctx: ToolContext) -> str:
        for number in range(20_000):
            ctx.progress(f"{number}")
        return "done"

    script = calls(*[("floods", "{}", f"id{n}") for n in range(3)])
    flood = Tool("floods", "", floods, read_only=True)
    async with stage(script, tools=(flood,)) as s:
        await bounded(s.agent.run("go"))
        await asyncio.sleep(0)

        for call_id in ("id0", "id1", "id2"):
            texts = [p.text for p in s.logged(ToolProgress) if p.call_id == call_id]
            assert len(texts) <= 50
            assert texts == sorted(texts, key=int)
        last = max(i for i, t in enumerate(s.types()) if t == "tool/result")
        assert "tool/progress" not in s.types()[last:]


async def test_progress_that_waits_when_its_call_ends_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL_SECONDS", 0)

    async def quick(ctx: ToolContext) -> str:
        ctx.progress("first")
        await asyncio.sleep(0)
        ctx.progress("second")
        return "done"

    async def slow() -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        return "done"

    tools = [Tool("quick", "", quick, read_only=True), Tool("slow", "", slow, read_only=True)]
    async with stage(calls(("quick", "{}"), ("slow", "{}")), tools=tools) as s:
        await bounded(s.agent.run("go"))

        assert [p.text for p in s.logged(ToolProgress)] == ["first"]


async def test_the_newest_progress_is_the_one_that_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_module, "INTERVAL_SECONDS", 0.01)

    async def works(ctx: ToolContext) -> str:
        for number in range(100):
            ctx.progress(f"{number}")
        await asyncio.to_thread(ctx.cancelled.wait, 0.05)
        return "done"

    async with stage(calls(("works", "{}")), tools=(Tool("works", "", works),)) as s:
        await bounded(s.agent.run("go"))

        assert [p.text for p in s.logged(ToolProgress)][-1] == "99"
        assert len(s.logged(ToolProgress)) <= 2


@pytest.mark.parametrize("text", [None, 5, b"bytes", object()])
async def test_progress_never_raises(text: Any) -> None:
    result = await result_of(
        "{}", Tool("one", "", lambda ctx: ctx.progress(text) or "ok"), name="one"
    )

    assert said(result) == "ok"


async def test_progress_that_is_refused_stops_and_the_call_goes_on() -> None:
    class Refuses:
        @hookimpl
        def session_validate(self, event: Event) -> None:
            if event.type == "tool/progress":
                raise ValueError("no")

    async def works(ctx: ToolContext) -> str:
        ctx.progress("a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ctx.progress("b")
        return "done"

    result = await result_of("{}", Tool("works", "", works), name="works", plugin=Refuses())

    assert said(result) == "done"


async def test_long_progress_is_cut_to_its_end() -> None:
    async def works(ctx: ToolContext) -> str:
        ctx.progress("x" * 10_000 + "end")
        await asyncio.sleep(0)
        return "done"

    async with stage(calls(("works", "{}")), tools=(Tool("works", "", works),)) as s:
        await bounded(s.agent.run("go"))

        (shown,) = s.logged(ToolProgress)
        assert (len(shown.text), shown.text[-3:]) == (500, "end")


# ------------------------------------------------------------------------------------ what is shown


async def test_the_model_sees_every_answer_once_and_goes_on() -> None:
    script = calls(("work", '{"text": "a"}'), ("none", "{}"), ("work", "[1]"))
    async with stage(script, "done", tools=(work,)) as s:
        await bounded(s.agent.run("go"))

        shown = lines(s.model.requests[1].messages)
        assert len(shown) == 5
        assert shown[2] == "user: worked a"
        assert all(line.startswith("user: Error: ") for line in shown[3:])


@pytest.mark.parametrize("decision", ["denied", "", None, ["allow"]])
def test_a_verdict_is_one_of_three_words(decision: Any) -> None:
    with pytest.raises(ValueError, match="a verdict is allow, ask or deny, not "):
        Verdict(decision)
