"""What judging finds, and how it is folded: deny > ask > allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dsh_core import Decision, Effect
from dsh_permission.rule import Rule

_RANK = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one part of a call got, and why.

    Args:
        decision: allow, ask or deny.
        part: The part, as it was written.
        why: The reason, for people.
        rule: The rule that matched; None where none did.
        offer: A rule that would allow the part; None where none should be offered.

    """

    decision: Decision
    part: str
    why: str
    rule: Rule | None = None
    offer: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer about a call.

    Args:
        decision: The strictest of the findings.
        findings: One or more for each part.
        effects: What the call would do.

    """

    decision: Decision
    findings: tuple[Finding, ...] = ()
    effects: tuple[Effect, ...] = field(default=())

    @property
    def deciding(self) -> list[Finding]:
        """The findings that made the decision."""
        return [finding for finding in self.findings if finding.decision == self.decision]


def judged(findings: Sequence[Finding], effects: Iterable[Effect]) -> Judgement:
    """Fold findings into an answer; none at all is no proof, so it asks."""
    if not findings:
        findings = (Finding("ask", "", "there is nothing to judge"),)
    strictest = max((finding.decision for finding in findings), key=_RANK.__getitem__)
    return Judgement(strictest, tuple(findings), tuple(dict.fromkeys(effects)))


def stricter(one: Decision, other: Decision) -> Decision:
    """Return the stricter of two decisions."""
    return one if _RANK[one] >= _RANK[other] else other
