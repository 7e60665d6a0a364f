"""What may run in plan mode: calls that only read, as the core's `plan_refusal` says."""

from __future__ import annotations

from collections.abc import Collection

from dsh_core import MAY_WRITE, Call, plan_refusal

EXIT_TOOL = "exit_plan_mode"


def denial(call: Call, read_only_tools: Collection[str] = ()) -> str | None:
    """Return why a call may not run in plan mode, None where it may.

    Args:
        call: With its effects.
        read_only_tools: Names a user vouches for; count where nothing is known of the effects.
    """
    if call.effects == (MAY_WRITE,) and call.name.lower() in {n.lower() for n in read_only_tools}:
        return None
    return plan_refusal(call.effects, call.name)
