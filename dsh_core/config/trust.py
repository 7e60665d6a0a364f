"""Which project files the user has agreed to, and what the others may not say.

A cloned folder's `dsh.yaml` must not choose where keys go, what runs, or which guard is off before
its owner has seen it (CVE-2025-59536, CVE-2026-21852, CVE-2026-33068).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsh_core.config.interpolate import has_variable, holds_rules
from dsh_core.config.mistakes import KeyPath, Place, dotted
from dsh_core.errors import ConfigError

FILE = "trusted.json"
_VERSION = 1
UNTIL_TRUSTED = "until you trust this folder (dsh trust)"


class TrustStore:
    """The project files the user has agreed to: path and SHA-256 of the content that was shown.

    One content per path: a changed file is asked about again. Kept in `trusted.json` in the user's
    folder, readable by the user only. A damaged file means that nothing is trusted; `problem` says
    so, and `trust` refuses to overwrite it.
    """

    def __init__(self, user_dir: Path):
        self.path = user_dir / FILE

    @property
    def problem(self) -> str | None:
        """What is wrong with the file, a line for the user; None = nothing."""
        return self._read()[1]

    def is_trusted(self, path: Path, content: bytes) -> bool:
        """Whether the user has agreed to this file with this content."""
        return self._read()[0].get(_key(path)) == _digest(content)

    def trust(self, path: Path, content: bytes) -> None:
        """Remember that the user has agreed; raises `ConfigError` where that cannot be kept."""
        files, problem = self._read()
        if problem is not None:
            remedy = "Delete it and trust your folders again."
            raise ConfigError(
                problem.removeprefix(f"{self.path}: "), where=str(self.path), remedy=remedy
            )
        text = json.dumps(
            {"version": _VERSION, "files": {**files, _key(path): _digest(content)}}, indent=2
        )
        try:
            self._write(text + "\n")
        except OSError as error:
            message = f"cannot be written: {error.strerror or error}"
            raise ConfigError(message, where=str(self.path), remedy="Check its folder.") from None

    def _read(self) -> tuple[dict[str, str], str | None]:
        try:
            data = json.loads(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}, None
        except (OSError, ValueError) as error:
            return {}, self._problem(str(error))
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            return {}, self._problem(f"version {_VERSION} is wanted")
        files = data.get("files")
        if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
            return {}, self._problem("`files` must map paths to hashes")
        return files, None

    def _problem(self, reason: str) -> str:
        return f"{self.path}: the list of trusted files is damaged, nothing is trusted ({reason})"

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{FILE}.")  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def strip_untrusted(
    data: Mapping[str, Any], lines: Mapping[KeyPath, Place], path: str | Path
) -> tuple[dict[str, Any], list[str]]:
    """Return what an untrusted project file may say, and a line for each thing that is ignored.

    Ignored are `providers` altogether (addresses, keys, options, and windows with them),
    `autoload`, `plugins.NAME: false`, all of `agents.NAME.plugins`, and every value with `${…}`
    outside permission's rules. Settings of plugins stay; their layer is marked untrusted, and the
    plugin's `trusted_only` fields fall later.

    Args:
        data: The file's values before interpolation; not changed.
        lines: Key path → position.
        path: The file as messages show it.
    """
    stripper = _Stripper(lines, str(path))
    kept = stripper.sections(data)
    kept = stripper.without_variables(kept, ())
    return kept, stripper.notes()


class _Stripper:
    def __init__(self, lines: Mapping[KeyPath, Place], name: str):
        self.lines = lines
        self.name = name
        self.ignored: list[tuple[int, str]] = []
        self.variables: list[KeyPath] = []

    def sections(self, data: Mapping[str, Any]) -> dict[str, Any]:
        kept = dict(data)
        for key in ("providers", "autoload"):
            if kept.pop(key, None) not in (None, {}):
                self._ignore((key,), key)
        if isinstance(kept.get("plugins"), dict):
            kept["plugins"] = self._plugins(kept["plugins"])
        if isinstance(kept.get("agents"), dict):
            agents = kept["agents"].items()
            kept["agents"] = {name: self._agent(name, agent) for name, agent in agents}
        return kept

    def _plugins(self, sections: dict[str, Any]) -> dict[str, Any]:
        for name, section in sections.items():
            if section is False:
                self._ignore(("plugins", name), f"plugins.{name}: false")
        return {name: section for name, section in sections.items() if section is not False}

    def _agent(self, name: str, agent: Any) -> Any:
        if not isinstance(agent, dict):
            return agent
        if agent.get("plugins"):
            self._ignore(("agents", name, "plugins"), f"agents.{name}.plugins")
        return {key: value for key, value in agent.items() if key != "plugins"}

    def without_variables(self, value: Any, path: KeyPath) -> Any:
        """Leave out the key whose value, or whose list, holds a variable."""
        if not isinstance(value, dict) or holds_rules(path):
            return value
        kept = {}
        for key, item in value.items():
            here = (*path, key)
            if not holds_rules(here) and _list_has_variable(item):
                self.variables.append(here)
            else:
                kept[key] = self.without_variables(item, here)
        return kept

    def notes(self) -> list[str]:
        """One line for each group, in the file's order."""
        if self.variables:
            names = ", ".join(dotted(path) for path in self.variables)
            lines = sorted({self._line(path) for path in self.variables})
            numbers = ",".join(map(str, lines))
            text = f"{self.name}:{numbers}: `${{…}}` is ignored {UNTIL_TRUSTED}: {names}"
            self.ignored.append((lines[0], text))
        return [text for _, text in sorted(self.ignored)]

    def _ignore(self, path: KeyPath, what: str) -> None:
        line = self._line(path)
        self.ignored.append((line, f"{self.name}:{line}: {what} is ignored {UNTIL_TRUSTED}"))

    def _line(self, path: KeyPath) -> int:
        return self.lines[path].line if path in self.lines else 1


def _list_has_variable(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_anywhere_has_variable, value))
    return isinstance(value, str) and has_variable(value)


def _anywhere_has_variable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_anywhere_has_variable, value.values()))
    return _list_has_variable(value)


def _key(path: Path) -> str:
    """The folder is resolved, the file is not: a link to a trusted file is not itself trusted."""
    return str(path.parent.resolve() / path.name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
