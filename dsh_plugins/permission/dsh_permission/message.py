"""What the person who is asked reads, and the model when nobody answers."""

from __future__ import annotations

from collections.abc import Sequence

from dsh_permission.findings import Finding, Judgement
from dsh_permission.hidden import shown

PART_LIMIT_CHARACTERS = 400
"""Of one part; the whole call is shown beside the message."""


def ask_message(judgement: Judgement, *, file: str) -> str:
    """Say which parts no rule allows, and which rule would; `file` is where it would be added."""
    asking = judgement.deciding
    open_parts = [f for f in asking if f.rule is None]
    lines = []
    if open_parts:
        parts = "; ".join(f"{_quoted(f.part)} ({f.why})" for f in _unique(open_parts))
        lines.append(f"no permission rule allows this. part: {parts}.")
    for finding in _unique([f for f in asking if f.rule is not None]):
        assert finding.rule is not None
        why = f" ({finding.rule.reason})" if finding.rule.reason else ""
        lines.append(
            f"the rule {finding.rule.text}{why} asks about this. "
            f"part: {_quoted(finding.part)} ({finding.why})."
        )
    offers = offers_of(judgement)
    if offers:
        quoted = ", ".join(f'"{offer}"' for offer in offers)
        options = " ".join(f"--allow '{offer}'" for offer in offers)
        lines.append(f"To allow: add {quoted} to plugins.permission.allow in {file}")
        lines[-1] += f" or pass {options}."
    allowed = _unique([f for f in judgement.findings if f.decision == "allow"])
    if allowed and len(judgement.findings) > 1:
        listed = ", ".join(_quoted(finding.part) for finding in allowed)
        lines.append(f"Parts already allowed: {listed}.")
    return " ".join(lines)


def deny_message(judgement: Judgement) -> str:
    """Say which rule denies which part, or why the mode does."""
    finding = judgement.deciding[0]
    if finding.rule is None:
        return finding.why
    why = f" ({finding.rule.reason})" if finding.rule.reason else ""
    return f"the rule {finding.rule.text}{why} denies {_quoted(finding.part)} ({finding.why})"


def unattended_message(message: str) -> str:
    """Return the message of an ask that nobody is there to answer."""
    start = "no permission rule allows this"
    if message.startswith(start):
        return f"denied: {start} and no user is attached{message[len(start) :]}"
    return f"denied: no user is attached. {message}"


def offers_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the rules that would allow every asking part; none if a part has none."""
    asking = judgement.deciding if judgement.decision == "ask" else []
    if any(finding.offer is None for finding in asking):
        return ()
    return tuple(dict.fromkeys(finding.offer for finding in asking if finding.offer))


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    return list({(f.part, f.why, f.rule and f.rule.text): f for f in findings}.values())


def _quoted(part: str) -> str:
    text = shown(part)
    if len(text) > PART_LIMIT_CHARACTERS:
        text = f"{text[:PART_LIMIT_CHARACTERS]}… ({len(part)} characters)"
    return f'"{text}"'
