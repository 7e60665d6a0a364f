"""The plugin in a running harness: what it judges, asks, remembers and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsh_core import (
    Approval,
    ApprovalRequest,
    Call,
    ConfigError,
    Effect,
    Harness,
    HarnessConfig,
    Layer,
    ToolOutput,
    TrustStore,
    hookimpl,
    load_config,
    tool,
)
from dsh_core.events import ApprovalAsked, ApprovalDecided, ToolCallEvent, ToolResultEvent
from dsh_core.testing import calling
from dsh_permission import Permission, PermissionGranted, PermissionSettings

Offline = Callable[..., Any]


class Shell:
    """A `bash` that only writes down what it is given, and knows the effects of each call."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.effects: list[tuple[Effect, ...]] = []

    @hookimpl
    def tools_register(self) -> list[Any]:
        @tool(name="bash")
        async def bash(command: str) -> str:
            """Run."""
            self.ran.append(command)
            return "ran"

        return [bash]

    @hookimpl
    async def tools_authorize(self, call: Call) -> None:
        self.effects.append(call.effects)


class Person:
    """Answers every question in the same way, and keeps the questions."""

    def __init__(self, *answers: Approval):
        self._answers = list(answers)
        self.asked: list[ApprovalRequest] = []

    @hookimpl
    async def approval_request(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def guarded(**settings: Any) -> Permission:
    return Permission(settings=PermissionSettings(**settings))


def bash(*commands: str) -> list[Any]:
    return [*(calling("bash", command=command) for command in commands), "Done."]


def results(it: Any) -> list[str]:
    return [data.content[0].text.removeprefix("Error: ") for data in it.logged(ToolResultEvent)]


async def test_what_rules_allow_runs_and_what_they_deny_does_not(dsh_offline: Offline) -> None:
    shell = Shell()
    rule = {"rule": "Bash(git push:*)", "reason": "use the pipeline"}
    plugin = guarded(allow=["Bash(git:*)"], deny=[rule])
    replies = bash("git commit -m x", "git push", "timeout 5 git -C . push")
    async with dsh_offline(*replies, plugin=plugin, plugins={"shell": shell}) as it:
        await it.agent.run("Go.")

    assert shell.ran == ["git commit -m x"]
    assert "denied: the rule Bash(git push:*) (use the pipeline) denies" in results(it)[1]
    assert [data.verdict for data in it.logged(ToolCallEvent)] == ["allow", "deny", "deny"]


async def test_an_ask_that_nobody_answers_says_how_to_allow_it(dsh_offline: Offline) -> None:
    shell = Shell()
    async with dsh_offline(
        *bash("ls && npm run test"), plugin=guarded(), plugins={"shell": shell}
    ) as it:
        await it.agent.run("Go.")

    assert shell.ran == []
    (text,) = results(it)
    assert text.startswith(
        'denied: no permission rule allows this. part: "npm run test" (no rule).'
    )
    assert 'add "Bash(npm run test:*)" to plugins.permission.allow in dsh.yaml' in text
    assert "--allow 'Bash(npm run test:*)'" in text
    assert 'Parts already allowed: "ls"' in text


async def test_questions_and_answers_are_logged_as_pairs(dsh_offline: Offline) -> None:
    shell, person = Shell(), Person(Approval(True))
    replies = bash("npm test", "npm test")
    async with dsh_offline(
        *replies, plugin=guarded(), plugins={"shell": shell, "person": person}
    ) as it:
        await it.agent.run("Go.")

    assert shell.ran == ["npm test"] * 2, "once is once: it is asked again"
    asked, decided = it.logged(ApprovalAsked), it.logged(ApprovalDecided)
    assert [data.approval_id for data in asked] == [data.approval_id for data in decided]
    assert [data.allowed for data in decided] == [True, True]
    assert person.asked[0].offers == ("Bash(npm test:*)",)


async def test_a_grant_for_the_session_is_an_event_and_holds_when_it_is_resumed(
    dsh_offline: Offline,
) -> None:
    shell, person = Shell(), Person(Approval(True, scope="session"))
    replies = bash("npm test", "npm test -- -x", "npm publish")
    async with dsh_offline(
        *replies, plugin=guarded(), plugins={"shell": shell, "person": person}
    ) as it:
        await it.agent.run("Go.")
        events = list(it.agent.session.events)
        cwd = str(it.agent.cwd)

    assert [request.call.arguments["command"] for request in person.asked] == [
        "npm test",
        "npm publish",
    ]
    granted = [event.data for event in events if isinstance(event.data, PermissionGranted)]
    assert (granted[0].rule, granted[0].scope, granted[0].workspace) == (
        "Bash(npm test:*)",
        "session",
        cwd,
    )
    async with dsh_offline(*bash("npm test -- -y"), plugin=guarded(),
                           plugins={"shell": shell}) as it:  # fmt: skip
        agent = it.harness.agents.create(seed=events)
        await agent.run("Again.")

    assert shell.ran[-1] == "npm test -- -y"


async def test_only_rules_that_were_offered_can_be_granted(dsh_offline: Offline) -> None:
    shell = Shell()
    person = Person(Approval(True, scope="session", rule="Bash"))
    async with dsh_offline(
        *bash("npm test", "curl x"), plugin=guarded(), plugins={"shell": shell, "person": person}
    ) as it:
        await it.agent.run("Go.")

    assert len(person.asked) == 2
    assert it.logged(PermissionGranted) == []


async def test_a_no_holds_for_the_rest_of_the_turn(dsh_offline: Offline) -> None:
    shell, person = Shell(), Person(Approval(False, "use yarn"))
    replies = [*bash("npm test", "npm test"), calling("bash", command="npm test"), "Done."]
    async with dsh_offline(
        *replies, plugin=guarded(), plugins={"shell": shell, "person": person}
    ) as it:
        await it.agent.run("Go.")
        assert len(person.asked) == 1
        assert results(it)[0] == "denied: use yarn"
        assert "already said no" in results(it)[1]
        await it.agent.run("Again.")

    assert len(person.asked) == 2, "the next turn asks anew"


def in_project(tmp_path: Path, **settings: Any) -> HarnessConfig:
    layers = {"permission": (Layer("dsh.yaml", settings),)}
    return HarnessConfig(autoload=False, plugins=layers, user_dir=tmp_path / "user")


async def test_a_grant_for_the_project_is_kept_in_a_file_that_dsh_writes(
    dsh_offline: Offline, tmp_path: Path
) -> None:
    (tmp_path / "user").mkdir()
    shell, person = Shell(), Person(Approval(True, scope="project"))
    plugins = {"shell": shell, "person": person}
    config = in_project(tmp_path)
    for _ in range(2):
        replies = bash("npm test")
        async with dsh_offline(*replies, plugins=plugins, config=config) as it:
            await it.agent.run("Go.")
            file = Path(it.agent.cwd) / ".dsh/permissions.local.yaml"

    assert len(person.asked) == 1
    assert shell.ran == ["npm test", "npm test"]
    assert '- "Bash(npm test:*)"' in file.read_text()
    assert (file.parent / ".gitignore").read_text() == "*.local.yaml\n"


async def test_a_file_of_grants_that_dsh_did_not_write_allows_nothing(
    dsh_offline: Offline, tmp_path: Path
) -> None:
    (tmp_path / "user").mkdir()
    grants = tmp_path / "work/.dsh/permissions.local.yaml"
    shell = Shell()
    async with dsh_offline(*bash("npm test"), plugins={"shell": shell},
                           config=in_project(tmp_path)) as it:  # fmt: skip
        grants.parent.mkdir()
        grants.write_text('allow:\n- "Bash"\n')
        await it.agent.run("Go.")
    assert shell.ran == []

    TrustStore(tmp_path / "user").trust(grants, grants.read_bytes())
    async with dsh_offline(*bash("npm test"), plugins={"shell": shell},
                           config=in_project(tmp_path)) as it:  # fmt: skip
        await it.agent.run("Go.")
    assert shell.ran == ["npm test"]


async def test_a_verdict_counts_even_if_another_plugin_answers_in_the_tools_place(
    dsh_offline: Offline,
) -> None:
    class Shortcut:
        @hookimpl
        async def tools_execute(self, call: Call) -> ToolOutput:
            ran.append(call.arguments["command"])
            return ToolOutput(())

    ran: list[str] = []
    async with dsh_offline(
        *bash("rm x"), plugin=guarded(deny=["Bash(rm:*)"]),
        plugins={"shell": Shell(), "shortcut": Shortcut()},
    ) as it:  # fmt: skip
        await it.agent.run("Go.")

    assert ran == []


async def test_other_plugins_see_what_a_command_would_do(dsh_offline: Offline) -> None:
    shell = Shell()
    async with dsh_offline(
        *bash("cat a.txt", "echo x > b.txt", "make all", "ls $X"), plugin=guarded(allow=["Bash"]),
        plugins={"shell": shell},
    ) as it:  # fmt: skip
        await it.agent.run("Go.")
        cwd = str(it.agent.cwd)

    read, write, run, unknown = shell.effects
    assert [(e.kind, e.target) for e in read] == [("read", f"{cwd}/a.txt")]
    assert ("write", f"{cwd}/b.txt") in [(e.kind, e.target) for e in write]
    assert run == (Effect("run", "make", detail="make all"),)
    assert [effect.certain for effect in unknown] == [False]


async def test_plan_mode_denies_whatever_changes_something(dsh_offline: Offline) -> None:
    shell = Shell()
    plugin = guarded(mode="plan", allow=["Bash", "Edit(**)"])
    async with dsh_offline(*bash("ls", "touch x"), plugin=plugin, plugins={"shell": shell}) as it:
        await it.agent.run("Go.")

    assert shell.ran == ["ls"]
    assert results(it)[1] == (
        "denied: plan mode: touch x would change something (it runs touch); "
        "describe it in the plan instead."
    )


async def test_a_tool_that_only_reads_needs_no_rule_and_another_one_does(
    dsh_offline: Offline,
) -> None:
    @tool(read_only=True)
    async def clock() -> str:
        """Tell the time."""
        return "noon"

    @tool
    async def order() -> str:
        """Order a pizza."""
        return "ordered"

    replies = [calling("clock"), calling("order"), "Done."]
    async with dsh_offline(*replies, plugin=guarded(), tools=[clock, order]) as it:
        await it.agent.run("Go.")
    assert results(it)[0] == "noon"
    assert "denied" in results(it)[1]
    assert 'add "order"' in results(it)[1]

    async with dsh_offline(*replies, plugin=guarded(allow=["order"]), tools=[clock, order]) as it:
        await it.agent.run("Go.")
    assert results(it) == ["noon", "ordered"]


async def test_searches_leave_out_what_must_not_be_read(dsh_offline: Offline) -> None:
    config = HarnessConfig(autoload=False, plugins={"files": {}})
    replies = [calling("grep", pattern="key"), calling("glob", pattern="*"),
               calling("read", file_path="secrets/b"), "Done."]  # fmt: skip
    plugin = guarded(deny=["Read(secrets/**)", "Read(.env)"])
    async with dsh_offline(*replies, plugin=plugin, config=config) as it:
        for name in ("a", "secrets/b", ".env"):
            path = Path(it.agent.cwd) / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("key")
        await it.agent.run("Go.")

    grep, glob, read = results(it)
    assert grep.startswith("Found 1 match in 1 file.\n\na:")
    assert glob == "a"
    assert read.startswith("denied: the rule Read(secrets/**) denies")


# ------------------------------------------------------------------------- configuration


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def configured(tmp_path: Path, text: str) -> HarnessConfig:
    file = write(tmp_path / "dsh.yaml", text)
    environ = {"HOME": str(tmp_path)}
    return load_config(cwd=tmp_path, file=file, environ=environ, trust=TrustStore(tmp_path))


async def test_a_rule_for_an_unknown_tool_stops_the_start_with_file_and_line(
    tmp_path: Path,
) -> None:
    text = "autoload: false\nplugins:\n  permission:\n    deny:\n    - Bash(rm:*)\n    - Bsah\n"

    with pytest.raises(ConfigError) as caught:
        async with Harness(configured(tmp_path, text)):
            pass
    assert "dsh.yaml:6" in str(caught.value)
    assert "'Bsah' can never match: there is no tool 'bsah'" in str(caught.value)
    assert "Did you mean 'bash'?" in str(caught.value)


async def test_a_text_that_is_no_rule_stops_the_start_with_file_and_line(tmp_path: Path) -> None:
    text = "autoload: false\nplugins:\n  permission:\n    allow:\n    - Bash(a && b)\n"

    with pytest.raises(ConfigError, match=r"dsh\.yaml:5: plugins\.permission\.allow\.0"):
        Harness(configured(tmp_path, text)).load()


def test_an_untrusted_file_can_only_tighten(tmp_path: Path) -> None:
    untrusted = {
        "mode": "bypass", "allow": ["Bash"], "read_only_tools": ["mcp__a__b"],
        "ask": ["Bash(ls:*)"], "deny": ["Bash(rm:*)"], "protected": ["deploy"],
    }  # fmt: skip
    layers = (Layer("dsh.yaml", untrusted, trusted=False, settings_only=True),)
    harness = Harness(HarnessConfig(plugins={"permission": layers}))
    harness.load()
    found = next(info.settings for info in harness.plugins.infos() if info.name == "permission")

    assert (found.mode, found.allow, found.read_only_tools) == ("default", (), ())
    assert [rule.text for rule in (*found.ask, *found.deny)] == ["Bash(ls:*)", "Bash(rm:*)"]
    assert found.protected == ("deploy",)
    ignored = "\n".join(harness.plugins.notes)
    assert all(name in ignored for name in ("mode", "allow", "read_only_tools"))


async def test_an_agents_own_rules_are_added_to_the_harness_rules(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "autoload": False,
            "plugins": {"permission": {"deny": ["Bash(rm:*)"]}},
            "agents": {"a": {"plugins": {"permission": {"deny": ["Bash(curl:*)"]}}}},
            "providers": {"o": {"adapter": "scripted", "models": {"m": {}},
                                "replies": [*bash("rm x", "curl x")]}},
        }
    )  # fmt: skip
    async with Harness(configured(tmp_path, text), plugins={"shell": Shell()}) as harness:
        agent = harness.agents.create("a")
        await agent.run("Go.")
        found = [event.data for event in agent.session.events]

    texts = [data.content[0].text for data in found if isinstance(data, ToolResultEvent)]
    assert "the rule Bash(rm:*) denies" in texts[0]
    assert "the rule Bash(curl:*) denies" in texts[1]
