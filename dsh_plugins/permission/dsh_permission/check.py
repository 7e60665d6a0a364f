"""`dsh permission check`: one call per JSON line in, its decision per JSON line out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from dsh_permission.findings import Finding, Judgement, judged
from dsh_permission.judge import Judge
from dsh_permission.message import ask_message, deny_message, offers_of, unattended_message
from dsh_permission.policy import Mode, Policy, Rules
from dsh_permission.rule import Rule, RuleError, rule_from

INPUT = "the input"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a line means where it does not say: the configuration, the folder, the home."""

    rules: Rules
    mode: Mode
    workspace: Path
    home: Path
    protected: tuple[str, ...]
    read_only_tools: tuple[str, ...]
    file: str


class LineError(ValueError):
    """A line that cannot be judged; the message says why."""


def answer(line: str, defaults: Defaults) -> dict[str, Any]:
    """Judge the call of one line. A line that cannot be read is denied, with an `error`."""
    try:
        asked = json.loads(line)
        if not isinstance(asked, dict):
            raise LineError("a line is one JSON object")
        return {**_identity(asked), **_answered(asked, defaults)}
    except (LineError, ValueError, RecursionError) as error:
        known = _identity(asked) if "asked" in locals() and isinstance(asked, dict) else {}
        return {**known, "decision": "deny", "effects": [], "reasons": [], "error": str(error)}


def _identity(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": asked["id"]} if "id" in asked else {}


def _answered(asked: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    rules, dropped = _rules(asked, defaults)
    policy = Policy(
        rules,
        Path(_text(asked, "workspace", str(defaults.workspace))),
        Path(_text(asked, "home", str(defaults.home))),
        _mode(asked, defaults),
        defaults.protected,
        tuple(_texts(asked, "read_only_tools", defaults.read_only_tools)),
    )
    arguments = asked.get("arguments", {})
    if not isinstance(arguments, dict):
        raise LineError("`arguments` must be an object")
    judgement = Judge(policy).call(_text(asked, "tool", "bash"), arguments)
    if dropped and judgement.decision == "allow":
        findings = [*judgement.findings, *(Finding("ask", "", text) for text in dropped)]
        judgement = judged(findings, judgement.effects)
    return described(judgement, defaults.file, is_attended=asked.get("interactive", True) is True)


def described(judgement: Judgement, file: str, *, is_attended: bool = True) -> dict[str, Any]:
    """Return a judgement as JSON: decision, message, effects, reasons and what would allow it."""
    decision: str = judgement.decision
    message = ""
    if decision == "deny":
        message = deny_message(judgement)
    elif decision == "ask":
        message = ask_message(judgement, file=file)
        if not is_attended:
            decision, message = "deny", unattended_message(message)
    return {
        "decision": decision,
        "message": message,
        "effects": [
            {"kind": e.kind, "target": e.target, "certain": e.certain, "detail": e.detail}
            for e in judgement.effects
        ],
        "reasons": [_reason(finding) for finding in judgement.findings],
        "offers": list(offers_of(judgement)),
    }


def _reason(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "decision": finding.decision,
        "part": finding.part,
        "why": finding.why,
        "rule": None if rule is None else rule.text,
        "file": None if rule is None else rule.where,
    }


def _rules(asked: Mapping[str, Any], defaults: Defaults) -> tuple[Rules, list[str]]:
    given = asked.get("rules")
    if given is None:
        return defaults.rules, []
    if not isinstance(given, dict):
        raise LineError("`rules` must be an object with allow, ask and deny")
    dropped: list[str] = []
    lists = {}
    for name in ("allow", "ask", "deny"):
        found: list[Rule] = []
        for item in given.get(name) or ():
            try:
                found.append(rule_from(item, where=INPUT))
            except RuleError as error:
                dropped.append(f"a rule of `{name}` cannot be used: {error}")
        lists[name] = tuple(found)
    return Rules(**lists), dropped


def _mode(asked: Mapping[str, Any], defaults: Defaults) -> Mode:
    mode = asked.get("mode", defaults.mode)
    for known in get_args(Mode):
        if mode == known:
            found: Mode = known
            return found
    raise LineError(f"there is no mode {mode!r}; modes: {', '.join(get_args(Mode))}")


def _text(asked: Mapping[str, Any], name: str, default: str) -> str:
    value = asked.get(name, default)
    if not isinstance(value, str):
        raise LineError(f"`{name}` must be a text")
    return value


def _texts(asked: Mapping[str, Any], name: str, default: Sequence[str]) -> Iterable[str]:
    value = asked.get(name, default)
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise LineError(f"`{name}` must be a list of texts")
    return value
