"""How well commands are confined, for people, results and the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dsh_core import EventData, case


@dataclass(frozen=True, slots=True)
class Status:
    """What confines commands, as the probe found it.

    Args:
        backend: `bubblewrap`, `landlock`, `none`, or `off` where a user switched it off.
        enforcement: `full`: every attempt to break out failed. `partial`: see `missing`. `none`.
        missing: What is not prevented.
        reason: Why it is not a better one.

    """

    backend: str
    enforcement: Literal["full", "partial", "none"]
    missing: tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "missing": list(self.missing)}

    def lines(self) -> Sequence[str]:
        """Return it for a person."""
        lines = [f"backend: {self.backend}", f"enforcement: {self.enforcement}"]
        lines += [f"not prevented: {each}" for each in self.missing]
        return [*lines, f"reason: {self.reason}"] if self.reason else lines


@case("sandbox/status")
class SandboxStatus(EventData):
    """Commands of this session are confined in part, or not at all; logged before the first."""

    backend: str
    enforcement: str
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def notice(self) -> str:
        """A warning."""
        if self.enforcement == "none":
            return f"commands run without a sandbox: {self.reason}"
        missing = "; ".join(self.missing)
        return f"the sandbox of commands ({self.backend}) does not prevent: {missing}"


@case("sandbox/restored")
class SandboxRestored(EventData):
    """A command changed protected files; they are again as they were."""

    paths: tuple[str, ...]

    @property
    def notice(self) -> str:
        """A warning."""
        return f"a command changed what is protected, and it was undone: {', '.join(self.paths)}"
