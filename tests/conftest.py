"""Fixtures of the core's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Shell


@pytest.fixture
def dsh(tmp_path: Path) -> Shell:
    """The installed `dsh` in a folder and a home of its own."""
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    return Shell(work, home)
