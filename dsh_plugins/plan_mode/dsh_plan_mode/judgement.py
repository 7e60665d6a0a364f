"""What may run in plan mode: calls that only read, as the core's `only_reads` says."""

from __future__ import annotations

from collections.abc import Collection

from dsh_core import MAY_WRITE, Call, Effect, only_reads

EXIT_TOOL = "exit_plan_mode"


def denial(call: Call, read_only_tools: Collection[str] = ()) -> str | None:
    """Return why a call may not run in plan mode, None where it may.

    Args:
        call: With its effects.
        read_only_tools: Names a user vouches for; count where nothing is known of the effects.
    """
    if only_reads(call.effects):
        return None
    if call.effects == (MAY_WRITE,) and call.name.lower() in {n.lower() for n in read_only_tools}:
        return None
    culprit = next(effect for effect in call.effects if not only_reads([effect]))
    part = f"{call.name} {culprit.detail}" if culprit.detail else call.name
    return (
        f"plan mode: {part} would change something ({_reason(culprit)}); "
        "describe it in the plan instead"
    )


def _reason(effect: Effect) -> str:
    if effect == MAY_WRITE:
        return "nothing says that it does not"
    what = {"write": "it writes", "run": "it runs", "network": "it uses the network"}.get(
        effect.kind, "it does something else"
    )
    target = f" {effect.target}" if effect.target else ""
    return f"{'' if effect.certain else 'perhaps '}{what}{target}"
