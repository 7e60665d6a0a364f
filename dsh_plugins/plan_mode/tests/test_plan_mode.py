"""Plan mode as a user meets it: what runs, what does not, and who can end it."""

from __future__ import annotations

import asyncio

import pytest

from dsh_core import (
    AgentDefinition,
    Approval,
    Effect,
    Executor,
    HarnessConfig,
    Layer,
    LocalExecutor,
    ToolError,
    Verdict,
    hookimpl,
    hookspecs,
    text_of,
    tool,
)
from dsh_core.events import ApprovalAsked, ContextMessage, ToolResultEvent
from dsh_core.testing import calling, offline_harness, request_text
from dsh_plan_mode import PlanMode, PlanSettings
from dsh_plan_mode.events import PlanModeChanged

PLAN = "# Plan\n\n1. Change it."
EXIT = calling("exit_plan_mode", plan=PLAN)


@pytest.fixture
def made(tmp_path):
    """A file that must not come to be while plan mode is on."""
    return tmp_path / "made.txt"


class World:
    """A tool that writes, one that looks, one that says nothing of itself; counts what ran."""

    def __init__(self, made):
        self._made = made
        self.ran = []

    @tool
    def make(self) -> str:
        """Write the file."""
        self.ran.append("make")
        self._made.write_text("made")
        return "made"

    @tool(read_only=True)
    def look(self) -> str:
        """Look."""
        self.ran.append("look")
        return "seen"

    @tool(read_only=True, network=True)
    def fetch(self) -> str:
        """Ask another machine."""
        self.ran.append("fetch")
        return "fetched"

    @hookimpl
    def tools_register(self):
        return [self.make, self.look, self.fetch]


class Agrees:
    """A person: answers every question, keeps it, and may do something before answering."""

    def __init__(self, allowed=True, message="", meanwhile=None):
        self.asked = []
        self._approval = Approval(allowed, message)
        self._meanwhile = meanwhile

    @hookimpl
    async def approval_request(self, agent, request):
        self.asked.append(request)
        if self._meanwhile is not None:
            await self._meanwhile(agent)
        return self._approval


def planning(*replies, plugins=None, **settings):
    plan_mode = PlanMode(PlanSettings(start=True, **settings))
    return offline_harness(*replies, plugins={"plan_mode": plan_mode, **(plugins or {})})


def results(offline):
    return [text_of(result.content) for result in offline.logged(ToolResultEvent)]


async def test_what_would_write_is_refused_and_the_model_reads_why(made):
    world = World(made)
    async with planning(calling("make"), "ok", plugins={"world": world}) as offline:
        await offline.agent.run("go")

        assert "plan mode: make would change something" in results(offline)[0]
        assert offline.logged(ToolResultEvent)[0].code == "DENIED"
    assert not made.exists()


async def test_what_only_looks_runs(made):
    world = World(made)
    async with planning(calling("look"), "ok", plugins={"world": world}) as offline:
        await offline.agent.run("go")

    assert world.ran == ["look"]


async def test_the_network_is_a_change_of_the_world_until_somebody_knows_better(made):
    world = World(made)
    async with planning(calling("fetch"), "ok", plugins={"world": world}) as offline:
        await offline.agent.run("go")

    assert world.ran == []


async def test_a_shell_is_refused_where_nobody_knows_what_a_command_does(dsh_offline):
    from dsh_shell import Shell

    plugins = {"plan_mode": PlanMode(PlanSettings(start=True)), "shell": Shell()}
    async with dsh_offline(calling("bash", command="ls"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

        assert "plan mode: bash would change something" in results(offline)[0]


@pytest.mark.parametrize(
    ("effects", "runs"),
    [
        ([Effect("read", "/a")], True),
        ([], True),
        ([Effect("read", "/a"), Effect("write", "/b")], False),
        ([Effect("read", "/a", certain=False)], False),
        ([Effect("run", "rm")], False),
        ([Effect("network", "example.org")], False),
        ([Effect("other")], False),
    ],
)
async def test_a_call_is_judged_by_all_its_effects(made, effects, runs):
    class Knows:
        @hookimpl
        async def tool_effects(self, call):
            return effects

    world = World(made)
    plugins = {"world": world, "knows": Knows()}
    async with planning(calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

    assert (world.ran == ["make"]) is runs


async def test_an_allowing_policy_does_not_lift_it(made):
    class AllowsAll:
        @hookimpl
        async def tools_authorize(self):
            return Verdict("allow")

    plugins = {"world": World(made), "allows": AllowsAll()}
    async with planning(calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

    assert not made.exists()


async def test_a_tool_that_the_user_vouches_for_runs(made):
    world = World(made)
    settings = {"read_only_tools": ("MAKE",), "plugins": {"world": world}}
    async with planning(calling("make"), "ok", **settings) as offline:
        await offline.agent.run("go")

    assert world.ran == ["make"]


async def test_vouching_does_not_outweigh_known_effects(made):
    class Knows:
        @hookimpl
        async def tool_effects(self, call):
            return [Effect("write", "/etc/passwd")]

    plugins = {"world": World(made), "knows": Knows()}
    async with planning(
        calling("make"), "ok", read_only_tools=("make",), plugins=plugins
    ) as offline:
        await offline.agent.run("go")

    assert not made.exists()


async def test_the_user_sees_the_plan_and_agreeing_ends_plan_mode(made):
    user = Agrees()
    plugins = {"world": World(made), "user": user}
    async with planning(EXIT, calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

        assert user.asked[0].call.arguments == {"plan": PLAN}
        assert user.asked[0].user_only
        assert [e.active for e in offline.logged(PlanModeChanged)] == [True, False]
    assert made.read_text() == "made"


async def test_calls_beside_the_plan_are_still_planning(made):
    """The model wrote them before anybody agreed."""
    both = {"calls": [EXIT["calls"][0], {"name": "make", "arguments": {}}]}
    plugins = {"world": World(made), "user": Agrees()}
    async with planning(both, "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

        assert [result.is_error for result in offline.logged(ToolResultEvent)] == [False, True]
    assert not made.exists()


async def test_what_the_user_says_against_the_plan_reaches_the_model(made):
    plugins = {"world": World(made), "user": Agrees(False, "Not without a test.")}
    async with planning(EXIT, calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")

        assert "Not without a test." in results(offline)[0]
    assert not made.exists()


async def test_where_nobody_answers_the_plan_is_the_result(made):
    async with planning(EXIT, PLAN, plugins={"world": World(made)}) as offline:
        result = await offline.agent.run("go")

        assert result.text == PLAN
        assert "the plan is the result" in request_text(offline.requests[1])
        assert len(offline.logged(ApprovalAsked)) == 1


async def test_another_asking_plugin_cannot_make_it_a_question_that_yes_answers():
    """`--yes` answers what is not for people only; the strictest question is put."""

    class AsksFirst:
        @hookimpl(tryfirst=True)
        async def tools_authorize(self):
            return Verdict("ask", "anything")

    user = Agrees(False)
    async with planning(EXIT, "ok", plugins={"asks": AsksFirst(), "user": user}) as offline:
        await offline.agent.run("go")

    assert [request.user_only for request in user.asked] == [True]


async def test_the_tool_is_there_in_and_out_of_plan_mode_and_schemas_stay(made):
    async with offline_harness("a", "b", plugin=PlanMode()) as offline:
        await offline.agent.run("one")
        await offline.harness.commands.execute(offline.agent, "/plan")
        await offline.agent.run("two")

        first, second = offline.requests
        assert first.tools == second.tools
        assert "Plan mode is on" in second.system
        assert "Plan mode is on" not in first.system


async def test_leaving_what_is_not_on_is_an_error_that_asks_nobody():
    user = Agrees()
    async with offline_harness(EXIT, "ok", plugin=PlanMode(), plugins={"user": user}) as offline:
        await offline.agent.run("go")

        assert "plan mode is not on" in results(offline)[0]
    assert user.asked == []


async def test_a_command_enters_and_leaves(made):
    plugins = {"world": World(made)}
    replies = "hi", calling("make"), "no", calling("make"), "yes"
    async with offline_harness(*replies, plugin=PlanMode(), plugins=plugins) as offline:
        execute = offline.harness.commands.execute
        await offline.agent.run("hello")
        assert await execute(offline.agent, "/plan") == "Plan mode is on."
        assert await execute(offline.agent, "/plan") == "Plan mode is on already."
        await offline.agent.run("make it")
        assert not made.exists()

        assert await execute(offline.agent, "/plan off") == "Plan mode is off."
        assert await execute(offline.agent, "/plan off") == "Plan mode is not on."
        await offline.agent.run("make it")

        notices = [text_of(m.content) for m in offline.logged(ContextMessage)]
        assert [notice.split(":")[0] for notice in notices] == [
            "The user switched plan mode on",
            "The user ended plan mode",
        ]
    assert made.exists()


async def test_a_command_with_text_plans_that(made):
    replies = calling("make"), "planned"
    plugins = {"world": World(made)}
    async with offline_harness(*replies, plugin=PlanMode(), plugins=plugins) as offline:
        await offline.harness.commands.execute(offline.agent, "/plan make it")
        await offline.agent.when_idle()

        assert "make it" in request_text(offline.requests[0])
    assert not made.exists()


async def test_plan_mode_that_begins_while_a_person_thinks_counts_for_that_call(made):
    class Asks:
        @hookimpl
        async def tools_authorize(self, call):
            return Verdict("ask", "sure?")

    async def enter(agent):
        await agent.harness.commands.execute(agent, "/plan")

    plugins = {"world": World(made), "asks": Asks(), "user": Agrees(meanwhile=enter)}
    async with offline_harness(
        calling("make"), "ok", plugin=PlanMode(), plugins=plugins
    ) as offline:
        await offline.agent.run("go")

        assert "plan mode: make would change something" in results(offline)[0]
    assert not made.exists()


async def test_a_fork_of_the_session_is_still_planning(made):
    plugins = {"world": World(made)}
    async with offline_harness(
        "ok", calling("make"), "no", plugin=PlanMode(), plugins=plugins
    ) as offline:
        await offline.harness.commands.execute(offline.agent, "/plan")
        await offline.agent.run("go")
        seed = offline.agent.session.events
        heir = offline.harness.agents.create(seed=seed)
        await heir.run("go on")
        await heir.run("make it")

    assert not made.exists()


async def test_what_the_user_left_does_not_come_back_with_the_next_turn(made):
    plugins = {"world": World(made)}
    async with planning("planned", calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("plan")
        await offline.harness.commands.execute(offline.agent, "/plan off")
        await offline.agent.run("go")

    assert made.exists()


async def test_commands_run_read_only_where_the_executor_can():
    class Sandbox(LocalExecutor):
        is_read_only = False

        def read_only(self) -> Executor:
            narrowed = Sandbox()
            narrowed.is_read_only = True
            return narrowed

    class Sandboxes:
        @hookimpl
        async def shell_executor(self, agent):
            return Sandbox()

    seen = []

    @tool(read_only=True)
    async def start(ctx) -> str:
        """Start something."""

        async def nobody(agent):
            raise ToolError("nobody")

        executor = await ctx.agent.hooks.waterfall(
            hookspecs.shell_executor, nobody, agent=ctx.agent
        )
        seen.append(executor.is_read_only)
        return "ok"

    plugins = {"plan_mode": PlanMode(PlanSettings(start=True)), "sandbox": Sandboxes()}
    async with offline_harness(
        calling("start"), "ok", calling("start"), "ok", plugins=plugins, tools=[start]
    ) as offline:
        await offline.agent.run("go")
        await offline.harness.commands.execute(offline.agent, "/plan off")
        await offline.agent.run("go")

    assert seen == [True, False]


async def test_an_agent_without_the_plugin_is_not_bound(made):

    off = AgentDefinition(
        "free", model="offline/script", plugins={"plan_mode": (Layer("t", False),)}
    )
    plugins = {"world": World(made)}
    async with planning(calling("make"), "ok", plugins=plugins) as offline:
        await offline.harness.agents.create(off).run("go")

    assert made.exists()


async def test_an_untrusted_file_can_neither_switch_it_off_nor_vouch_for_tools(made):
    layer = Layer("dsh.yaml", {"read_only_tools": ["make"]}, trusted=False)
    config = HarnessConfig(autoload=False, plugins={"plan_mode": (layer,)})
    plugins = {"world": World(made)}
    async with offline_harness(calling("make"), "ok", config=config, plugins=plugins) as offline:
        await offline.harness.commands.execute(offline.agent, "/plan")
        await offline.agent.run("go")

    assert not made.exists()


async def test_an_aborted_review_keeps_planning(made):
    async def leave(agent):
        agent.abort("enough")
        await asyncio.Event().wait()

    plugins = {"world": World(made), "user": Agrees(meanwhile=leave)}
    async with planning(EXIT, calling("make"), "ok", plugins=plugins) as offline:
        await offline.agent.run("go")
        await offline.agent.run("go on")

        assert [e.active for e in offline.logged(PlanModeChanged)] == [True]
    assert not made.exists()
