"""What a person allowed beyond one call: session events, and a file in the project."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from dsh_core import EventData, TrustStore, UserError, case
from dsh_permission.rule import Rule, RuleError, parse_rule

if TYPE_CHECKING:
    from dsh_core import Event

FILE = ".dsh/permissions.local.yaml"
_HEADER = """\
# Written by dsh when you allow something for this project. Rules of your own belong in dsh.yaml:
# an edited file is not read until dsh writes it again.
"""


@case("permission/granted")
class PermissionGranted(EventData):
    """A person allowed what a rule covers, for this session or for the project.

    Args:
        rule: Exactly as it was offered.
        scope: `session` or `project`.
        mode: The mode it was granted in.
        workspace: The folder it was granted for.

    """

    rule: str
    scope: str
    mode: str
    workspace: str


@dataclass(slots=True)
class SessionGrants:
    """The grants in a session's log: a fold that reads each event once."""

    rules: tuple[Rule, ...] = ()
    _read: int = 0
    _texts: set[str] = field(default_factory=set)

    def follow(self, events: Sequence[Event], *, mode: str, workspace: str) -> tuple[Rule, ...]:
        """Read what is new, and return the rules granted in this mode and folder."""
        for index in range(self._read, len(events)):
            data = events[index].data
            if (
                isinstance(data, PermissionGranted)
                and data.rule not in self._texts
                and (data.mode, data.workspace) == (mode, workspace)
            ):
                self._texts.add(data.rule)
                self.rules += tuple(_parsed([data.rule], f"this session ({data.scope})"))
        self._read = len(events)
        return self.rules


class ProjectGrants:
    """The grants for a project, in a file that only dsh writes.

    A repository may bring such a file: it counts only with the content that dsh wrote itself, which
    the user's list of trusted files remembers.
    """

    def __init__(self, workspace: Path, user_dir: Path | None):
        self.path = workspace / FILE
        self._trust = TrustStore(user_dir) if user_dir is not None else None

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of the file, none where its content is not dsh's own."""
        return tuple(_parsed(self._texts(), str(self.path)))

    def add(self, texts: Iterable[str]) -> None:
        """Add rules. Raises `UserError` where they cannot be kept."""
        if self._trust is None:
            raise UserError("there is no user folder to remember the project's grants in")
        every = list(dict.fromkeys((*self._texts(), *texts)))
        content = _HEADER + "allow:\n" + "".join(f"- {json.dumps(text)}\n" for text in every)
        try:
            self._write(content.encode())
        except OSError as error:
            raise UserError(
                f"cannot be written: {error.strerror or error}",
                where=str(self.path),
                remedy="Allow it for the session instead.",
            ) from error
        self._trust.trust(self.path, content.encode())

    def _texts(self) -> list[str]:
        try:
            content = self.path.read_bytes()
        except OSError:
            return []
        if self._trust is None or not self._trust.is_trusted(self.path, content):
            return []
        data = yaml.safe_load(content)
        return [text for text in data["allow"] if isinstance(text, str)]

    def _write(self, content: bytes) -> None:
        folder = self.path.parent
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*.local.yaml\n", encoding="utf-8")
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=".permissions-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(name, self.path)
        except BaseException:
            os.unlink(name)
            raise


def _parsed(texts: Iterable[str], where: str) -> Iterable[Rule]:
    for text in texts:
        try:
            yield parse_rule(text, where=where)
        except RuleError:  # of another version of dsh: what is not understood allows nothing
            continue
