"""The plugin's work for agents: effects, verdicts, and what a person's answers leave behind."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core import (
    Approval,
    ApprovalRequest,
    Call,
    ConfigError,
    Effect,
    StashKey,
    UserError,
    Verdict,
    hide_files,
)
from dsh_permission.actions import Action
from dsh_permission.effects import effects_of
from dsh_permission.findings import Judgement
from dsh_permission.grants import PermissionGranted, ProjectGrants, SessionGrants
from dsh_permission.judge import Judge, actions_of
from dsh_permission.message import ask_message, deny_message, offers_of
from dsh_permission.places import LISTS, placed, rule_places
from dsh_permission.policy import Policy, Rules
from dsh_permission.rule import GROUPS, SHELL_TOOLS, Rule, RuleError, fold_tool, parse_rule
from dsh_permission.settings import Settings
from dsh_permission.shell.parse import NotPlainError, parse, parse_plainly
from dsh_permission.shell.shfmt import Shfmt, program

if TYPE_CHECKING:
    from dsh_core import Agent, Harness

SCOPES = ("session", "project")
NO_SHFMT = (
    "permission: shfmt is not installed, so every shell command that is more than plain words asks "
    "(pip install shfmt-py)"
)


@dataclass(slots=True)
class _Watched:
    """What is kept for one agent.

    Args:
        actions: Call → what it would do, between the two hooks.
        session: The grants in its log.
        project: The grants for its project.
        denied: Calls a person denied in the turn named.
        judge: Compiled, with the grants it was compiled for.

    """

    project: ProjectGrants
    actions: dict[tuple[int, int, str], list[Action]] = field(default_factory=dict)
    session: SessionGrants = field(default_factory=SessionGrants)
    project_rules: tuple[Rule, ...] = ()
    denied: dict[tuple[str, str], int] = field(default_factory=dict)
    judge: tuple[tuple[Rule, ...], Judge] | None = None


WATCHED = StashKey[_Watched]("permission.watched")


class Guard:
    """Judges the calls of the agents that share one plugin instance.

    Args:
        settings: The rules.

    """

    def __init__(self, settings: Settings):
        self._settings = settings
        self._rules = Rules(settings.allow, settings.ask, settings.deny)
        self._mode = settings.mode
        self._home = Path.home()
        self._file = "dsh.yaml"
        self._shfmt = Shfmt()
        self._warming: asyncio.Task[None] | None = None

    # ----------------------------------------------------------------------------- start

    def start(self, harness: Harness) -> None:
        """Take what the command line adds. Raises `ConfigError` for rules that can never fire."""
        options = harness.cli_options.get("permission")
        self._mode = getattr(options, "permission_mode", None) or self._mode
        given = tuple(_from_command_line(text) for text in getattr(options, "allow", None) or ())
        places = rule_places(harness.config)
        lists = {name: placed(getattr(self._rules, name), name, places) for name in LISTS}
        lists["allow"] += given
        self._rules = Rules(**lists)
        files = [str(path) for path in harness.config.files]
        self._file = files[-1] if files else "dsh.yaml"
        self._check_tools(harness)
        if program() is None and NO_SHFMT not in harness.plugins.notes:
            harness.plugins.notes.append(NO_SHFMT)

    async def stop(self) -> None:
        """End what waits for the next question."""
        if self._warming is not None:
            await self._warming
        self._shfmt.close()

    def _check_tools(self, harness: Harness) -> None:
        tools = {fold_tool(name) for name in harness.tools.visible(harness.plugins.base)}
        for name in LISTS:
            for rule in getattr(self._rules, name):
                if not rule.is_known(tools):
                    near = difflib.get_close_matches(rule.tool, [*tools, *GROUPS], n=1)
                    hint = f" Did you mean {near[0]!r}?" if near else ""
                    raise ConfigError(
                        f"the rule {rule.text!r} can never match: there is no tool {rule.tool!r}",
                        where=rule.where or f"plugins.permission.{name}",
                        remedy=f"Correct or remove it.{hint}",
                    )

    def hide_files(self, agent: Agent) -> None:
        """Hide from the agent's searches what rules deny to read."""
        if any(rule.kind == "read" for rule in self._rules.deny):
            hide_files(agent, self._policy(str(_workspace(agent)), ()).hides)

    # ----------------------------------------------------------------------------- calls

    async def effects(self, agent: Agent, call: Call) -> Sequence[Effect] | None:
        """Return what a shell command would do, None for other calls."""
        if call.name.casefold() not in SHELL_TOOLS or call.problem is not None or not call.known:
            return None
        watched = self._watched(agent)
        workspace = _workspace(agent)
        actions = await self._actions(call, workspace)
        watched.actions = {(call.turn, call.step, call.id): actions}
        return effects_of(actions, workspace, self._home)

    async def _actions(self, call: Call, workspace: Path) -> list[Action]:
        """Take a call apart: at once where it is plain, else in a thread that waits for shfmt."""
        try:
            found = actions_of(
                call.name, call.arguments, workspace, self._home, parse=parse_plainly
            )
        except NotPlainError:
            fully = partial(parse, shfmt=self._shfmt)
            found = await asyncio.to_thread(
                actions_of, call.name, call.arguments, workspace, self._home, fully
            )
            if self._warming is None or self._warming.done():
                self._warming = asyncio.create_task(asyncio.to_thread(self._shfmt.warm))
        return found or []

    async def verdict(self, agent: Agent, call: Call) -> Verdict | None:
        """Judge a call; None for one that will not run."""
        if call.problem is not None or not call.known:
            return None
        watched = self._watched(agent)
        if watched.denied.get((call.name, call.raw)) == call.turn:
            return Verdict("deny", "the user already said no to this in this turn")
        actions = watched.actions.pop((call.turn, call.step, call.id), None)
        if actions is None and call.name.casefold() in SHELL_TOOLS:
            actions = await self._actions(call, _workspace(agent))
        judgement = self._judge(agent, watched).call(
            call.name, call.arguments, call.effects, actions
        )
        return self._as_verdict(judgement)

    def _as_verdict(self, judgement: Judgement) -> Verdict:
        rules = [finding.rule for finding in judgement.deciding if finding.rule is not None]
        rule = rules[0].text if rules else None
        if judgement.decision == "allow":
            return Verdict("allow", rule=rule)
        if judgement.decision == "deny":
            return Verdict("deny", deny_message(judgement), rule=rule)
        message = ask_message(judgement, file=self._file)
        return Verdict("ask", message, rule=rule, offers=offers_of(judgement))

    def _judge(self, agent: Agent, watched: _Watched) -> Judge:
        workspace = str(_workspace(agent))
        events = agent.session.events
        granted = watched.session.follow(events, mode=self._mode, workspace=workspace)
        granted = (*watched.project_rules, *granted)
        if watched.judge is None or watched.judge[0] != granted:
            watched.judge = granted, Judge(self._policy(workspace, granted))
        return watched.judge[1]

    def _policy(self, workspace: str, granted: tuple[Rule, ...]) -> Policy:
        settings = self._settings
        return Policy(
            self._rules.plus(granted),
            Path(workspace),
            self._home,
            self._mode,
            settings.protected,
            settings.read_only_tools,
        )

    def _watched(self, agent: Agent) -> _Watched:
        watched = agent.stash.get(WATCHED, None)
        if watched is None:
            project = ProjectGrants(Path(agent.cwd), agent.harness.config.user_dir)
            watched = _Watched(project, project_rules=project.rules())
            agent.stash[WATCHED] = watched
        return watched

    # --------------------------------------------------------------------------- answers

    def answered(self, agent: Agent, request: ApprovalRequest, approval: object) -> None:
        """Keep what a person's answer means beyond the call."""
        if not isinstance(approval, Approval):
            return
        watched = self._watched(agent)
        if not approval.allowed:
            watched.denied[(request.call.name, request.call.raw)] = request.call.turn
            return
        wanted = (approval.rule,) if approval.rule is not None else request.offers
        rules = [rule for rule in wanted if rule in request.offers]
        if approval.scope not in SCOPES or not rules:
            return
        lasting = [rule for rule in rules if not rule.startswith(("Edit(", "Read("))]
        if approval.scope == "project" and lasting:
            self._keep(agent, watched, lasting)
        workspace = str(_workspace(agent))
        for rule in rules:
            scope = "project" if approval.scope == "project" and rule in lasting else "session"
            agent.session.append(PermissionGranted(rule, scope, self._mode, workspace))

    def _keep(self, agent: Agent, watched: _Watched, rules: list[str]) -> None:
        try:
            watched.project.add(rules)
            watched.project_rules = watched.project.rules()
        except UserError as error:  # it holds for the session then
            agent.report_error(error)

    async def described(self, agent: Agent, text: str) -> str:
        """Return mode and rules for `/permissions`."""
        watched = self._watched(agent)
        self._judge(agent, watched)
        granted = (*watched.project_rules, *watched.session.rules)
        lines = [f"mode: {self._mode}"]
        every: Mapping[str, Any] = {
            "deny": self._rules.deny, "ask": self._rules.ask,
            "allow": (*self._rules.allow, *granted),
        }  # fmt: skip
        for name, rules in every.items():
            for rule in rules:
                lines.append(f"{name}: {rule.text}  ({rule.where or 'code'})")
        return "\n".join(lines)


def _workspace(agent: Agent) -> Path:
    return Path(os.path.realpath(agent.cwd))


def _from_command_line(text: str) -> Rule:
    try:
        return replace(parse_rule(text), where="--allow")
    except RuleError as error:
        raise UserError(str(error), where="--allow") from None
