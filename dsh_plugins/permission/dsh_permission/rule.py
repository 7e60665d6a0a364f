"""One permission rule: `Tool` or `Tool(spec)`, checked when it is read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dsh_permission.command_rule import CommandPattern, compile_command
from dsh_permission.web import compile_domain

Kind: TypeAlias = Literal["command", "read", "edit", "path", "web", "server", "tool"]

GROUPS: Mapping[str, Kind] = {
    "bash": "command",
    "shell": "command",
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "grep": "path",
    "glob": "path",
    "list": "path",
    "ls": "path",
    "webfetch": "web",
    "fetch": "web",
}
"""Names in rules: `Read` covers everything that reads files, `Edit` and `Write` all that change
them, `Grep` and `Glob` their own tool only."""

READING_TOOLS: Mapping[str, str] = {
    "read": "file_path", "grep": "path", "glob": "path", "list": "path", "ls": "path",
    "read_file": "file_path", "notebook_read": "notebook_path",
}  # fmt: skip
EDITING_TOOLS: Mapping[str, str] = {
    "edit": "file_path", "write": "file_path", "multi_edit": "file_path", "patch": "file_path",
    "apply_patch": "file_path", "notebook_edit": "notebook_path",
}  # fmt: skip
FETCHING_TOOLS = frozenset({"web_fetch", "webfetch", "fetch"})
SHELL_TOOLS = frozenset({"bash", "shell"})

_RULE = re.compile(r"\s*(?P<tool>[^\s(]+)\s*(?:\((?P<spec>.*)\))?\s*", re.DOTALL)
_SERVER = re.compile(r"mcp__(?P<server>[A-Za-z0-9_*.-]+?)(?:__(?P<tool>[A-Za-z0-9_*.-]+))?")


class RuleError(ValueError):
    """A text that is no rule, or a rule that can never fire; the message says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that can fire.

    Args:
        text: As it was written.
        kind: What it is about.
        tool: The tool's name, folded.
        spec: What is in the parentheses; None covers everything.
        command: The pattern of a command rule.
        domain: The pattern of a rule for addresses.
        reason: Why it is there, for the model and the user.
        where: File and line it comes from.

    """

    text: str
    kind: Kind
    tool: str
    spec: str | None = None
    command: CommandPattern | None = None
    domain: str | None = None
    reason: str = ""
    where: str | None = None

    def is_known(self, tools: Collection[str]) -> bool:
        """Whether its tool may exist: a group, a server's tool, or one of the `tools`."""
        return self.kind not in ("tool",) or self.tool in tools


def parse_rule(text: str, *, reason: str = "", where: str | None = None) -> Rule:
    """Read a rule. Raises `RuleError`."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise RuleError(f"{text!r} is no rule: write Tool or Tool(what)")
    name, spec = fold_tool(match["tool"]), match["spec"]
    if spec is not None and spec.strip() in ("", "*", ":*"):
        spec = None
    kind = _kind_of(name)
    if kind == "tool" and spec is not None:
        raise RuleError(
            f"{text!r} can never match: rules with parentheses are for Bash, Read, Edit, Grep, "
            f"Glob and WebFetch; write {match['tool']}"
        )
    if kind == "server" and spec is not None:
        raise RuleError(f"{text!r} can never match: a server's tool has no parentheses")
    try:
        command = compile_command(spec or "") if kind == "command" else None
        domain = compile_domain(spec) if kind == "web" and spec is not None else None
        if kind in ("read", "edit", "path") and spec is not None:
            _check_path(spec)
    except ValueError as error:
        raise RuleError(f"{text!r} can never match: {error}") from None
    return Rule(text.strip(), kind, name, spec, command, domain, reason, where)


def fold_tool(name: str) -> str:
    """Return a tool's name as rules compare it: letters' case and `_` of the web tool aside."""
    folded = name.casefold()
    return "webfetch" if folded == "web_fetch" else folded


def server_tool(name: str) -> tuple[str, str] | None:
    """Split `mcp__SERVER__TOOL`; None for another name."""
    folded = name.casefold()
    if not folded.startswith("mcp__"):
        return None
    server, _, tool = folded[len("mcp__") :].partition("__")
    return server, tool


def covers_server_tool(pattern: str, name: str) -> bool:
    """Whether `mcp__server`, `mcp__server__tool` or `mcp__server__get_*` covers a tool."""
    wanted, given = server_tool(pattern), server_tool(name)
    if wanted is None or given is None:
        return False
    server, tool = wanted
    return _matches(server, given[0]) and (tool == "" or _matches(tool, given[1]))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


def _kind_of(name: str) -> Kind:
    if name.startswith("mcp__"):
        if _SERVER.fullmatch(name) is None:
            raise RuleError(f"{name!r} is no server's tool: write mcp__SERVER__TOOL")
        return "server"
    return GROUPS.get(name, "tool")


def _check_path(spec: str) -> None:
    if spec != spec.strip():
        raise ValueError("blanks around a path belong to no file's name that anybody means")
    if "\0" in spec or "\n" in spec:
        raise ValueError("no path holds a line break or a NUL")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", spec):
        raise ValueError("a path is wanted, not a URL")
    if spec.startswith("~") and spec[1:2] not in ("", "/"):
        raise ValueError("other users' home folders are not looked up; write the absolute path")


def rule_from(item: Any, *, where: str | None = None) -> Rule:
    """Read a rule from its YAML form: a text, or a mapping with `rule` and `reason`."""
    if isinstance(item, Mapping):
        unknown = set(item) - {"rule", "reason"}
        if unknown or not isinstance(item.get("rule"), str):
            raise RuleError("the long form is {rule: TEXT, reason: TEXT}")
        return parse_rule(item["rule"], reason=str(item.get("reason", "")), where=where)
    if not isinstance(item, str):
        raise RuleError(f"a rule is a text, not a {type(item).__name__}")
    return parse_rule(item, where=where)
