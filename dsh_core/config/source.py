"""One source of settings, its values and where each stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dsh_core.config.mistakes import KeyPath, Place, at, position
from dsh_core.record import record
from dsh_core.secrets import is_secret_name

SourceKind: TypeAlias = Literal["user", "project", "environment", "options"]


@record()
class Source:
    """What one file, the environment or the command line says, in the file format's shape.

    Args:
        label: A file's path, `environment`, `-s`.
        kind: Which source it is.
        data: Plain data with the keys of `dsh.yaml`.
        places: Key path → position, in a file.
        names: Key path → the variable or option that set it, elsewhere.
        written: Key path → a number's text.
        variables: Key path → the text with `${…}`, for interpolated values.
        trusted: False = a project file the user has not agreed to.
    """

    label: str
    kind: SourceKind
    data: dict[str, Any]
    places: Mapping[KeyPath, Place] = field(default_factory=dict)
    names: Mapping[KeyPath, str] = field(default_factory=dict)
    written: Mapping[KeyPath, str] = field(default_factory=dict)
    variables: Mapping[KeyPath, str] = field(default_factory=dict)
    trusted: bool = True
    folder: Path | None = None

    def position(self, path: KeyPath) -> str:
        """Say where a value, or the nearest value around it, was written."""
        for length in range(len(path), -1, -1):
            around = path[:length]
            if around in self.places:
                return position(self.label, self.places[around])
            if around in self.names:
                return self.names[around]
        return self.label

    def line(self, path: KeyPath) -> str:
        """Say the line of a value in a file, for notes."""
        return self.position(path).rpartition(":")[0]

    def where(self, path: KeyPath) -> str:
        """Say position and key path."""
        return at(self.position(path), path)

    def has(self, path: KeyPath) -> bool:
        """Whether this source says anything at a key path."""
        value: Any = self.data
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def hides(self, path: KeyPath) -> bool:
        """Whether the value must not be shown: a variable's text, or a secret by its key."""
        around = (path[:length] for length in range(len(path) + 1))
        return any(part in self.variables for part in around) or any(map(is_secret_name, path))
