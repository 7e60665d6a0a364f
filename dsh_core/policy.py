"""What a tool call would do, and what policy plugins say about it.

`Effect` describes a call, `Verdict` judges it, `ApprovalRequest` and `Approval` are a question to a
person and its answer. The core folds verdicts deny > ask > allow; a denial cannot be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from dsh_core.record import record

EffectKind: TypeAlias = Literal["read", "write", "run", "network", "other"]


@record()
class Effect:
    """One thing a call may do.

    Args:
        kind: `read` and `write` of a path, `run` of a program, `network`, or `other`.
        target: The resolved path, the program, the host; None where it is not known.
        certain: False where the effect is only suspected.
        detail: The words it was found in, for explanations.

    """

    kind: EffectKind
    target: str | None = None
    certain: bool = True
    detail: str | None = None


MAY_WRITE = Effect("write", None, certain=False)
"""What a call is taken to do when nobody knows better."""


def only_reads(effects: Iterable[Effect]) -> bool:
    """Whether every effect is a read, which is what may run in plan mode."""
    return all(effect.kind == "read" and effect.certain for effect in effects)


def plan_refusal(effects: Iterable[Effect], name: str) -> str | None:
    """Return why a call may not run in plan mode, None where it may: it only reads.

    This is the one rule of plan mode, for every plugin that enforces it. `name` is the tool's.
    """
    for effect in effects:
        if not only_reads((effect,)):
            return (
                f"plan mode: {_part(effect, name)} would change something ({_reason(effect)}); "
                "describe it in the plan instead."
            )
    return None


def _part(effect: Effect, name: str) -> str:
    if effect.detail is None:
        return name
    return effect.detail if effect.kind in ("run", "other") else f"{name} {effect.detail}"


def _reason(effect: Effect) -> str:
    if effect == MAY_WRITE:
        return "nothing says that it does not"
    what = {"write": "it writes", "run": "it runs", "network": "it uses the network"}.get(
        effect.kind, "what it does is not known"
    )
    target = f" {effect.target}" if effect.target else ""
    return f"{'' if effect.certain or effect.kind == 'other' else 'perhaps '}{what}{target}"


Decision: TypeAlias = Literal["allow", "ask", "deny"]
_RANK = {"allow": 0, "ask": 1, "deny": 2}


@record()
class Verdict:
    """What one policy plugin says about a call.

    Args:
        decision: allow, ask or deny; anything else is a `ValueError`.
        message: For the person asked, and for the model if it becomes a denial.
        rule: The exact rule that matched, for explanations.
        offers: Rules a person may grant beyond this call, exactly as they would be stored.
        user_only: Only a person may answer; `--yes` does not count.

    """

    decision: Decision
    message: str = ""
    rule: str | None = None
    offers: tuple[str, ...] = ()
    user_only: bool = False

    def __post_init__(self) -> None:
        if self.decision not in (*_RANK,):
            raise ValueError(f"a verdict is allow, ask or deny, not {self.decision!r}")


ALLOW = Verdict("allow")


def strictest(verdicts: Iterable[tuple[str, Verdict]]) -> tuple[str | None, Verdict]:
    """Fold `(plugin, verdict)` pairs: deny > ask > allow; the first of the strictest rank wins.

    A question that only a person may answer is stricter than another.
    """
    plugin: str | None = None
    answer = ALLOW
    for name, verdict in verdicts:
        if plugin is None or _strictness(verdict) > _strictness(answer):
            plugin, answer = name, verdict
    return plugin, answer


def _strictness(verdict: Verdict) -> tuple[int, bool]:
    return _RANK[verdict.decision], verdict.user_only and verdict.decision == "ask"


@record()
class Call:
    """A tool call as policy sees it and as it runs: frozen, so that both are the same.

    Args:
        id: The provider's id; unique within the step only.
        name: The tool's name as the model wrote it.
        arguments: The validated arguments as JSON (read-only); {} where they are not valid.
        raw: The provider's raw string.
        turn: The turn it belongs to.
        step: The step it belongs to.
        known: Whether the agent has a tool of that name.
        problem: Why the arguments cannot be used, or None.
        effects: Declared effects and what `tool_effects` answered.

    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    raw: str
    turn: int
    step: int
    known: bool = True
    problem: str | None = None
    effects: tuple[Effect, ...] = (MAY_WRITE,)
    values: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@record()
class ApprovalRequest:
    """A question to a person about a call.

    `plugin` asked, with `message`; `offers` are rules the person may grant beyond this call.
    """

    id: str
    call: Call
    message: str
    plugin: str | None = None
    rule: str | None = None
    offers: tuple[str, ...] = ()
    user_only: bool = False


@record()
class Approval:
    """The answer. `scope` is `once`, or what the asker offered: `session`, `project`."""

    allowed: bool
    message: str = ""
    scope: str = "once"
    rule: str | None = None
