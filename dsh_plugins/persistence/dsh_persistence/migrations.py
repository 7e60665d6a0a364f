"""Older formats of session files, brought to the current one step by step when they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dsh_persistence.failures import NewerFormatError
from dsh_persistence.lines import HEADER, LineError

CURRENT = 1
"""Of the format that is written."""

Line: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next: the header's line, and each line after it."""

    header: Callable[[Line], Line]
    line: Callable[[Line], Line]


@dataclass(frozen=True, slots=True)
class Migrations:
    """The chain of steps: `steps[n]` leads from version n to n + 1, up to `current`."""

    steps: Mapping[int, Step] = field(default_factory=dict)
    current: int = CURRENT

    def version_of(self, header: Line, where: str) -> int:
        """Return the version of a file by its first line, before anything else is looked at.

        Raises `NewerFormatError`, and `LineError` for what is no header of a known version.
        """
        version = header.get("version")
        if header.get("type") != HEADER or type(version) is not int:
            raise LineError("it is no header of a session")
        if version > self.current:
            raise NewerFormatError(
                f"the session has format {version}; this dsh knows {self.current}",
                where=where,
                remedy="Update dsh: pip install --upgrade dsh-core dsh-persistence.",
            )
        if any(number not in self.steps for number in range(version, self.current)):
            raise LineError(f"nothing is known of format {version}")
        return version

    def header(self, header: Line, version: int) -> Line:
        """Bring a header to the current version."""
        for number in range(version, self.current):
            header = {**self.steps[number].header(header), "version": number + 1}
        return header

    def line(self, line: Line, version: int) -> Line:
        """Bring a line after the header to the current version."""
        for number in range(version, self.current):
            line = self.steps[number].line(line)
        return line
