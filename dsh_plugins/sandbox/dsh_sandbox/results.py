"""What a result says of the sandbox: to front ends always, to the model where it helps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dsh_core import Text, ToolOutput
from dsh_sandbox.executor import Outcome
from dsh_sandbox.status import Status
from dsh_sandbox.zone import Zone

_SIGNS = (
    "Read-only file system",
    "Operation not permitted",
    "Permission denied",
    "Device or resource busy",
    "Address family not supported",
    "Network is unreachable",
    "Could not resolve",
    "Temporary failure in name resolution",
)
"""Words of programs that the sandbox may have refused something. They decide about a hint only."""


def told(output: ToolOutput, outcomes: Sequence[Outcome], status: Status) -> ToolOutput:
    """Return the output with what is known of its commands, if it ran any in a sandbox."""
    if not outcomes:
        return output
    zone = outcomes[-1].zone
    failure = next((each.failure for each in outcomes if each.failure), "")
    restored = [path for each in outcomes for path in each.restored]
    meta = {
        **status.to_json(),
        **({"mode": zone.mode, "network": zone.network} if zone else {}),
        **({"failure": failure} if failure else {}),
        **({"restored": restored} if restored else {}),
    }
    lines = []
    if failure:
        lines.append(f"[the sandbox did not start, so the command did not run: {failure}]")
    elif zone and any(sign in output.text for sign in _SIGNS):
        lines.append(_hint(zone, "$TMPDIR" if status.backend == "landlock" else "/tmp"))  # noqa: S108
    if restored:
        lines.append(f"[sandbox: protected, so changes were undone: {', '.join(restored)}]")
    hint = tuple(Text(f"\n{line}") for line in lines)
    return replace(
        output, content=(*output.content, *hint), meta={**(output.meta or {}), "sandbox": meta}
    )


def _hint(zone: Zone, temporary: str) -> str:
    """Say what a command may do, so that nobody tries the same again in other words."""
    if zone.mode == "read-only":
        parts = ["commands run in a sandbox and can write nothing that stays"]
    else:
        where = ", ".join(map(str, zone.writable)) or "nothing"
        found = (name.path.relative_to(name.root) for name in zone.protected if name.can_stand_in)
        names = ", ".join(dict.fromkeys(map(str, found)))
        parts = [f"commands run in a sandbox and can write {where} and {temporary}"]
        if names:
            parts.append(f"but never {names}")
    if zone.reason:
        parts.append(zone.reason)
    if not zone.network:
        parts.append("there is no network")
    return f"[{'; '.join(parts)}]"
