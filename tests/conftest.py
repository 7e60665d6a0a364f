"""Fixtures of the core's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import untimed  # noqa: F401 - settings of property tests
from configuring import Load
from program import Shell

from dsh_core.config.load import load_config
from dsh_core.config.model import HarnessConfig
from dsh_core.config.trust import TrustStore


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    """The installed `dsh` in a folder and a home of its own."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load with this text as the project's file, trusted."""

    def load(project: str | None = None, **options: Any) -> HarnessConfig:
        home = tmp_path / "user"
        environ = {"HOME": str(tmp_path), "DSH_USER_DIR": str(home), **options.pop("environ", {})}
        if project is not None:
            (tmp_path / "dsh.yaml").write_text(project)
            TrustStore(home).trust(tmp_path / "dsh.yaml", project.encode())
        return load_config(cwd=tmp_path, environ=environ, trust=TrustStore(home), **options)

    return load
