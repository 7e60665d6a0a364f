"""Judging a tool call: its parts, each against the rules and the mode; the strictest counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dsh_core import MAY_WRITE, Effect, plan_refusal
from dsh_permission.actions import Access, Action, Doubt, Fetch, Run
from dsh_permission.effects import effects_of
from dsh_permission.files import FileJudge
from dsh_permission.findings import Finding, Judgement, judged
from dsh_permission.hidden import hidden_in
from dsh_permission.policy import Policy
from dsh_permission.programs.options import literal_word
from dsh_permission.rule import (
    EDITING_TOOLS,
    FETCHING_TOOLS,
    READING_TOOLS,
    SHELL_TOOLS,
    server_tool,
)
from dsh_permission.runs import RunJudge
from dsh_permission.shell.parse import Parsed, parse
from dsh_permission.shell.tree import Scope
from dsh_permission.shell.walk import Walk
from dsh_permission.web import BadAddressError, host_of, is_private


def actions_of(
    name: str,
    arguments: Mapping[str, Any],
    workspace: Path,
    home: Path,
    parse: Callable[[str], Parsed] = parse,
) -> list[Action] | None:
    """Return what a call would do, None for a tool that is not known.

    With the `parse` that is the default it may start shfmt, and blocks.
    """
    folded = name.casefold()
    if folded in SHELL_TOOLS:
        return command_actions(str(arguments.get("command", "")), workspace, home, parse)
    if folded in FETCHING_TOOLS:
        return [Fetch(str(arguments.get("url", "")))]
    reading = folded in READING_TOOLS
    if not reading and folded not in EDITING_TOOLS:
        return None
    argument = READING_TOOLS.get(folded) or EDITING_TOOLS[folded]
    path = arguments.get(argument, arguments.get("path"))
    if path is None and folded in ("grep", "glob", "list", "ls"):
        path = "."
    scope = Scope(str(home), str(workspace), (workspace,))
    found: list[Action] = [
        Access("read" if reading else "write", literal_word(str(path or "")), name, scope, folded)
    ]
    pattern = str(arguments.get("pattern", "")) if folded == "glob" else ""
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        found.append(Access("read", literal_word(_fixed_part(pattern)), name, scope, folded))
    return found


def command_actions(
    command: str, workspace: Path, home: Path, parse: Callable[[str], Parsed] = parse
) -> list[Action]:
    """Return what a shell command would do."""
    walk = Walk(workspace, home, parse)
    hiding = hidden_in(command)
    if hiding is not None:
        walk.actions.append(Doubt(hiding, command))
    if not command.strip():
        walk.actions.append(Doubt("there is nothing to judge", command))
    return walk.script(command)


def _fixed_part(pattern: str) -> str:
    parts = []
    for part in pattern.split("/"):
        if set("*?[{") & set(part):
            break
        parts.append(part)
    return "/".join(parts) or "/"


class Judge:
    """Judges calls by one policy."""

    def __init__(self, policy: Policy):
        self._policy = policy
        self._files = FileJudge(policy)
        self._runs = RunJudge(policy, self._files)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        effects: tuple[Effect, ...] | None = None,
        actions: list[Action] | None = None,
    ) -> Judgement:
        """Judge a call. `effects` are what others said about it; None = nothing is known."""
        policy = self._policy
        given, effects = effects, (MAY_WRITE,) if effects is None else effects
        if actions is None:
            actions = actions_of(name, arguments, policy.workspace, policy.home)
        findings = [
            Finding(decision, name, "a rule names this tool", rule)
            for decision, rule in policy.about_tool(name)
            if decision != "allow"
        ]
        if actions is None:
            findings += self._other(name, effects)
            own = effects
        else:
            for action in actions:
                findings += self._action(action)
            own = given if given is not None else self._effects(actions)
        if policy.mode == "plan":
            findings += self._in_plan(name, own, actions)
        return judged(findings, own)

    def _effects(self, actions: list[Action]) -> tuple[Effect, ...]:
        return effects_of(actions, self._policy.workspace, self._policy.home)

    def _action(self, action: Action) -> list[Finding]:
        if isinstance(action, Run):
            return self._runs.findings(action)
        if isinstance(action, Access):
            return self._files.access(action)
        if isinstance(action, Fetch):
            return self._fetch(action)
        return [self._doubt(action)]

    def _doubt(self, doubt: Doubt) -> Finding:
        if self._policy.mode == "bypass" and not self._policy.has_command_limits():
            return Finding("allow", doubt.text, f"the mode is bypass ({doubt.reason})")
        return Finding("ask", doubt.text, doubt.reason)

    def _in_plan(
        self, name: str, effects: tuple[Effect, ...], actions: list[Action] | None
    ) -> list[Finding]:
        if actions is None or any(isinstance(action, Fetch) for action in actions):
            marked = {tool.casefold() for tool in self._policy.read_only_tools}
            if name.casefold() in marked:
                return []
        refusal = plan_refusal(effects, name)
        return [Finding("deny", name, refusal)] if refusal else []

    # -------------------------------------------------------------------- addresses, tools

    def _fetch(self, fetch: Fetch) -> list[Finding]:
        try:
            host: str | None = host_of(fetch.url)
            problem = None
        except BadAddressError as error:
            host, problem = None, str(error)
        found = self._policy.about_host(host)
        findings = [
            Finding(decision, fetch.url, "a rule is about it", rule)
            for decision, rule in found
            if decision != "allow"
        ]
        allowing = [rule for decision, rule in found if decision == "allow"]
        if self._policy.mode == "bypass":
            return [*findings, Finding("allow", fetch.url, "the mode is bypass")]
        if problem is not None:
            return [*findings, Finding("ask", fetch.url, problem)]
        assert host is not None
        if is_private(host) and not any(rule.domain == host for rule in allowing):
            return [*findings, Finding("ask", fetch.url, f"{host} is this machine or its network")]
        if allowing:
            return [*findings, Finding("allow", fetch.url, "a rule allows it", allowing[0])]
        offer = f"WebFetch(domain:{host})"
        return [*findings, Finding("ask", fetch.url, "no rule allows it", offer=offer)]

    def _other(self, name: str, effects: tuple[Effect, ...]) -> list[Finding]:
        allowing = [rule for decision, rule in self._policy.about_tool(name) if decision == "allow"]
        if allowing:
            return [Finding("allow", name, "a rule allows it", allowing[0])]
        if self._policy.mode == "bypass":
            return [Finding("allow", name, "the mode is bypass")]
        if server_tool(name) is None and plan_refusal(effects, name) is None:
            return self._read_places(name, effects)
        return [Finding("ask", name, "no rule allows it", offer=name)]

    def _read_places(self, name: str, effects: tuple[Effect, ...]) -> list[Finding]:
        scope = Scope(
            str(self._policy.home), str(self._policy.workspace), (self._policy.workspace,)
        )
        findings = [Finding("allow", name, "it only reads")]
        for effect in effects:
            if effect.target is not None:
                word = literal_word(effect.target)
                findings += self._files.access(Access("read", word, name, scope, name.casefold()))
        return findings


__all__ = ["Judge", "actions_of", "command_actions"]
