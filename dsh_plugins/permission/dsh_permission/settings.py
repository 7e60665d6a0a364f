"""What a user may set under `plugins.permission`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from dsh_core import ADD, TRUSTED_ONLY, UNTRUSTED_OK
from dsh_permission.rule import Rule, rule_from


class RuleForm:
    """How a rule is written in YAML: a text, or a mapping with `rule` and `reason`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(as_rule)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        text = {"type": "string"}
        fields = {"rule": text, "reason": text}
        long = {
            "type": "object",
            "properties": fields,
            "required": ["rule"],
            "additionalProperties": False,
        }
        return {"anyOf": [text, long]}


def as_rule(item: Any) -> Rule:
    """Return a rule as it is, or made of its YAML form. Raises `ValueError` with the reason."""
    return item if isinstance(item, Rule) else rule_from(item)


RuleSetting = Annotated[Rule, RuleForm()]


@dataclass(frozen=True, slots=True)
class Settings:
    """Rules and the mode they work in."""

    mode: Annotated[Literal["default", "accept_edits", "plan", "bypass"], TRUSTED_ONLY] = "default"
    """What happens where no rule matches. `default`: reading in the workspace is allowed, the rest
    asks. `accept_edits`: edits in the workspace are allowed too. `plan`: only reading, whatever
    rules allow. `bypass`: everything but what rules deny or ask."""

    allow: Annotated[tuple[RuleSetting, ...], ADD, TRUSTED_ONLY] = ()
    """Rules for what may be done without asking, as in `Bash(npm run test:*)` or `Edit(src/**)`."""

    ask: Annotated[tuple[RuleSetting, ...], ADD, UNTRUSTED_OK] = ()
    """Rules for what always asks, whatever allows it."""

    deny: Annotated[tuple[RuleSetting, ...], ADD, UNTRUSTED_OK] = ()
    """Rules for what is never done. The long form `{rule: …, reason: …}` tells the model why."""

    read_only_tools: Annotated[tuple[str, ...], ADD, TRUSTED_ONLY] = ()
    """Tools that `plan` lets through although they do not say that they only read, as in
    `mcp__github__get_issue`. What a server says about its tools does not count."""

    protected: Annotated[tuple[str, ...], ADD, UNTRUSTED_OK] = ()
    """More names, besides `.git` and others that programs obey, whose change always asks, at any
    depth, as in `.circleci` or `deploy/keys`."""

    def __post_init__(self) -> None:
        for name in ("allow", "ask", "deny"):
            object.__setattr__(self, name, tuple(as_rule(item) for item in getattr(self, name)))
