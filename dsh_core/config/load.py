"""Loads the configuration: files, environment and command line become one `HarnessConfig`.

`load_config` reads top to bottom; the precedence itself is `dsh_core.config.precedence`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from dsh_core.config.build import Builder
from dsh_core.config.check import check, without_variables
from dsh_core.config.environment import read_environment
from dsh_core.config.files import (
    PROJECT_FILE,
    USER_FILE,
    ReadFile,
    find_project_file,
    read_file,
    user_dir,
)
from dsh_core.config.interpolate import interpolate
from dsh_core.config.known import missing_key_error, missing_model_error
from dsh_core.config.layers import Checked, kept_off
from dsh_core.config.mistakes import Mistake, refuse
from dsh_core.config.model import HarnessConfig
from dsh_core.config.options import read_options
from dsh_core.config.precedence import Settings
from dsh_core.config.source import Source
from dsh_core.config.trust import TrustStore
from dsh_core.config.untrusted import strip_untrusted
from dsh_core.record import record

__all__ = ["load_config", "missing_key_error", "missing_model_error"]


def load_config(
    *,
    cwd: Path,
    file: Path | None = None,
    environ: Mapping[str, str],
    overrides: Sequence[str] = (),
    blocked: Sequence[str] = (),
    safe: bool = False,
    trust: TrustStore,
) -> HarnessConfig:
    """Return everything a harness is told.

    Strength grows from the defaults over the user's file, the project's file and the environment to
    the command line. All mistakes are reported together; YAML that cannot be read is reported at
    once.

    Args:
        cwd: Where the search for `dsh.yaml` begins.
        file: `-c FILE`: read in place of the project's file, and trusted.
        environ: Environment variables. The process's own are not read, except by platformdirs for
            the user's folder where `DSH_USER_DIR` does not name it.
        overrides: `-s` options, each `KEY=VALUE`.
        blocked: Names from `-p no:NAME`.
        safe: `--safe`: built-in plugins only. `DSH_SAFE=1` and `DSH_NO_PLUGINS=1` say the same.
        trust: Which project files the user has agreed to.

    Raises `ConfigError`.
    """
    loading = _Loading(cwd.absolute(), environ)
    loading.read_user_file()
    loading.read_project_file(file, trust)
    loading.read_environment()
    loading.read_options(overrides)
    safe = loading.is_safe() or safe
    return replace(loading.config(), safe=safe, blocked=frozenset(blocked))


@record(frozen=False)
class _Loading:
    """The sources read so far, weakest first, and what is wrong with them."""

    cwd: Path
    environ: Mapping[str, str]
    checked: list[Checked] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    project_dir: Path | None = None
    untrusted_file: Path | None = None
    ignored_providers: frozenset[str] = frozenset()

    def read_user_file(self) -> None:
        path = user_dir(self.environ) / USER_FILE
        if os.path.lexists(path):
            self._add(self._read(path).source("user"))

    def read_project_file(self, file: Path | None, trust: TrustStore) -> None:
        """Read `-c FILE`, or the project's file as far as it is trusted."""
        if trust.problem is not None:
            self.notes.append(trust.problem)
        path = file or find_project_file(self.cwd)
        if path is None:
            if (self.cwd / "dsh.yml").is_file():
                self.notes.append(f"dsh.yml is not read: its name must be {PROJECT_FILE}")
            return
        read = self._read(path)
        if file is None:
            self.project_dir = read.path.parent
        if file is not None or trust.is_trusted(read.path, read.content):
            self._add(read.source("project"))
        else:
            self._add_untrusted(read)

    def read_environment(self) -> None:
        source, mistakes = read_environment(self.environ, [source for source, _ in self.checked])
        self.mistakes.extend(mistakes)
        self._add(source)

    def read_options(self, options: Sequence[str]) -> None:
        source, mistakes = read_options(options)
        self.mistakes.extend(mistakes)
        self._add(source)

    def config(self) -> HarnessConfig:
        """Merge what was read; raises `ConfigError` with everything that is wrong."""
        refuse(self.mistakes)
        settings = Settings([values for _, values in self.checked])
        builder = Builder(self.checked, settings, self.environ, self.ignored_providers)
        config = builder.build()
        refuse(builder.mistakes)
        return replace(
            config,
            project_dir=self.project_dir or self.cwd,
            user_dir=user_dir(self.environ),
            notes=(*self.notes, *builder.notes),
            files=tuple(self.files),
            untrusted_file=self.untrusted_file,
        )

    def is_safe(self) -> bool:
        """Whether the environment asks for built-in plugins only."""
        answers = [self._switch(name) for name in ("DSH_SAFE", "DSH_NO_PLUGINS")]
        return any(answers)

    def _switch(self, name: str) -> bool:
        text = self.environ.get(name, "").strip().lower()
        if text not in {"", "0", "1", "true", "false"}:
            self.mistakes.append(Mistake(name, "1 or 0 is wanted", f"Write {name}=1."))
        return text in {"1", "true"}

    def _read(self, path: Path) -> ReadFile:
        read = read_file(path, self.cwd)
        self.files.append(read.path)
        return read

    def _add(self, source: Source) -> None:
        if source.kind != "environment":
            source, mistakes = interpolate(source, self.environ)
            self.mistakes.extend(mistakes)
        values, mistakes = check(source)
        unset = {mistake.where for mistake in self.mistakes}
        self.mistakes.extend(mistake for mistake in mistakes if mistake.where not in unset)
        self.checked.append((source, values))

    def _add_untrusted(self, read: ReadFile) -> None:
        """Judge the whole file, then use what it may say."""
        source = read.source("project", trusted=False)
        _, mistakes = check(source)
        mistakes = without_variables(source, mistakes)
        if mistakes:
            self.mistakes.extend(mistakes)
            return
        own: Mapping[str, Any] = self.checked[0][1] if self.checked else {}
        data, notes = strip_untrusted(source.data, source.places, source.label, own)
        self.untrusted_file = read.path
        self.ignored_providers = frozenset(source.data.get("providers") or {})
        stripped = replace(source, data=data)
        places = {path: place for path, place in source.places.items() if stripped.has(path)}
        stripped = replace(stripped, places=places)
        self.notes.extend([*notes, *kept_off(stripped, own)])
        self._add(stripped)
